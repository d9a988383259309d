package main

import (
	"testing"
	"time"
)

// The part on data folders works, on a board that is filled within a second.
func TestFolder(t *testing.T) {
	err := bench(t.Context(), settings{
		board: 1000, viewers: 100, friends: 10, limit: 10, rounds: 1, seconds: 100 * time.Millisecond, only: "folder",
	})
	if err != nil {
		t.Fatal(err)
	}
}
