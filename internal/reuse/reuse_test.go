package reuse_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stepboard/internal/reuse"
)

// Whatever was in the slices before, Get returns zero elements, and each slice has one
// user.
func TestSlices(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s reuse.Slices[int]
		var held []*[]int
		for step := range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "put") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "slice")
				s.Put(held[i])
				held = slices.Delete(held, i, i+1)
				continue
			}
			n := rapid.IntRange(0, 20).Draw(t, "length")
			slice := s.Get(n)
			if len(*slice) != n || slices.ContainsFunc(*slice, func(v int) bool { return v != 0 }) {
				t.Fatalf("%d elements are %v", n, *slice)
			}
			for i := range *slice {
				(*slice)[i] = step + 1
			}
			held = append(held, slice)
			for _, other := range held[:len(held)-1] {
				if slices.Contains(*other, step+1) {
					t.Fatal("two users have one slice")
				}
			}
		}
	})
}
