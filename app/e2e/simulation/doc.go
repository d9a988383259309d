// Package simulation runs several replicas of the service in one process, on stores that
// they share, and on a clock that only the simulation moves. A seed
// decides in which order calls, rounds of background work, faults and the passing of time follow
// each other, one at a time, so a run can be repeated. A model says what every answer may be.
//
// docs/testing.md describes how to replay a seed.
package simulation
