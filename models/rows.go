package models

import "slices"

// RowsWithout returns the elements of a that are not in b, which is ascending.
func RowsWithout(a, b []RowID) []RowID {
	return slices.DeleteFunc(slices.Clone(a), func(row RowID) bool {
		_, found := slices.BinarySearch(b, row)
		return found
	})
}
