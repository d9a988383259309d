package main

import (
	"testing"
	"time"

	"stepboard/internal/testenv"
)

// The parts on data folders work, on a board that is filled within a second.
func TestFolder(t *testing.T) {
	for _, part := range testenv.Forms(t, 1, []string{"copies", "folder", "competitions"}) {
		err := bench(t.Context(), settings{
			board: 1000, viewers: 100, friends: 10, rounds: 1, seconds: 100 * time.Millisecond, only: part,
		})
		if err != nil {
			t.Fatal(part, err)
		}
	}
}
