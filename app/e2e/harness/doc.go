// Package harness holds the helpers that the tests of the whole service share:
// tokens and requests, load on a running process, and checks of what the
// process promised.
package harness
