//go:build race

package e2e_test

// raceDetector reports whether the race detector is on. Makefile runs tests that generate
// many cases without it, too.
const raceDetector = true
