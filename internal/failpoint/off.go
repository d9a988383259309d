//go:build !failpoints

// Package failpoint names steps of the service at which tests kill the process, to see
// what a crash there leaves behind. Only a program built with the tag failpoints does
// that; in any other, Hit is empty.
package failpoint

// Hit marks a step: everything before it is done, and nothing after it has begun. The
// name is the subject, a dot, and what is done: "archive.committed". It must be a string
// constant, as tests find the names in the source.
func Hit(string) {}
