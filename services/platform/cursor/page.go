package cursor

import (
	"slices"

	"stepboard/models"
)

// Cut returns a page of an ordered list and the index of its first item: at most limit items behind a position, or from
// the first one if that is zero. compare compares an item with a position. next is the position of the last item of the
// page; zero if no others follow. The page shares the list's memory. O(log n).
func Cut[T any](
	list []T, after models.Cursor, limit int, compare func(T, models.Cursor) int, position func(T) models.Cursor,
) (first int, page []T, next models.Cursor) {
	if after != (models.Cursor{}) {
		var found bool
		if first, found = slices.BinarySearchFunc(list, after, compare); found {
			first++
		}
	}
	page = list[first:min(first+limit, len(list))]
	if len(page) > 0 && first+len(page) < len(list) {
		next = position(page[len(page)-1])
	}
	return first, page, next
}

// Next returns the text of the cursor behind a page, as Seal does; nil for the zero cursor, which is that of the last
// page.
func (s *Sealer) Next(next models.Cursor, scope ...string) *string {
	if next == (models.Cursor{}) {
		return nil
	}
	return new(s.Seal(next, scope...))
}
