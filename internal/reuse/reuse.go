// Package reuse keeps slices that are no longer needed, so that calls which happen very
// often need not allocate theirs.
package reuse

import "sync"

// Slices keeps slices of one type. The zero value is ready to use. Safe for concurrent use.
type Slices[T any] struct{ pool sync.Pool }

// Get returns a slice of n zero elements. Put may be called when it is no longer needed.
func (s *Slices[T]) Get(n int) *[]T {
	if slice, ok := s.pool.Get().(*[]T); ok && cap(*slice) >= n {
		*slice = (*slice)[:n]
		return slice
	}
	slice := make([]T, n)
	return &slice
}

// Put keeps the memory of a slice, which nobody may use afterwards. It clears the elements
// up to the slice's length; those behind must be zero.
func (s *Slices[T]) Put(slice *[]T) {
	if cap(*slice) == 0 {
		return
	}
	clear(*slice)
	s.pool.Put(slice)
}
