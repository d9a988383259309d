package models

import (
	"slices"
	"sync"
	"sync/atomic"
)

// RowsWithout returns the elements of a that are not in b, which is ascending.
func RowsWithout(a, b []RowID) []RowID {
	return slices.DeleteFunc(slices.Clone(a), func(row RowID) bool {
		_, found := slices.BinarySearch(b, row)
		return found
	})
}

// RowSet is a set of row ids to which ids are only added. The zero value is empty. Safe for
// concurrent use.
type RowSet struct {
	n    atomic.Int64
	rows sync.Map // of RowID
}

// Add adds a row id.
func (s *RowSet) Add(row RowID) {
	if _, known := s.rows.LoadOrStore(row, true); !known {
		s.n.Add(1)
	}
}

// Empty reports whether the set has no row ids.
func (s *RowSet) Empty() bool { return s.n.Load() == 0 }

// Has reports whether a row id was added. One atomic load if the set is empty.
func (s *RowSet) Has(row RowID) bool {
	if s.Empty() {
		return false
	}
	_, known := s.rows.Load(row)
	return known
}
