package ranking

import (
	mathrand "math/rand/v2"
	"slices"

	"stepboard/models"
)

// Page is a page of a ranked list.
type Page struct {
	// Total is the number of ranked entries on all pages together.
	Total int64
	// FirstRank is the rank of Entries[0], counted from 1.
	FirstRank int64
	// Leader is the entry that ranks first; zero without entries, and in global lists.
	Leader models.Entry
	// Entries is the page, best first.
	Entries []models.Entry
	// More reports whether entries follow the page.
	More bool
	// MyRank is the viewer's rank; 0 if the viewer has no entry.
	MyRank int64
	// Mine is the viewer's entry, if MyRank is not 0.
	Mine models.Entry
}

// Rank ranks the entries and returns a page: at most limit entries after the given
// position. The zero position begins at the top. Entries without a composite are not
// ranked. The viewer's own rank is found whether or not it is on the page. Rank
// reorders entries, and the page shares their memory. It sorts the page only: O(n + k
// log k) on average for a page of k entries.
func Rank(entries []models.Entry, viewer models.RowID, after models.Entry, limit int) Page {
	ranked := slices.DeleteFunc(entries, func(e models.Entry) bool { return e.Composite == 0 })
	p := Page{Total: int64(len(ranked)), Leader: leader(ranked)}
	if i := slices.IndexFunc(ranked, func(e models.Entry) bool { return e.User == viewer }); i >= 0 {
		p.Mine = ranked[i]
		p.MyRank = 1 + countBefore(ranked, p.Mine)
	}
	rest := ranked
	if after.Composite != 0 {
		rest = slices.DeleteFunc(ranked, func(e models.Entry) bool { return !after.Before(e) })
	}
	p.FirstRank = p.Total - int64(len(rest)) + 1
	p.More = len(rest) > limit
	p.Entries = rest[:min(limit, len(rest))]
	sortFirst(rest, len(p.Entries))
	return p
}

// leader returns the entry that ranks first; the zero entry if there is none.
func leader(entries []models.Entry) (first models.Entry) {
	for _, e := range entries {
		if e.Before(first) {
			first = e
		}
	}
	return first
}

// countBefore returns the number of entries that rank before e.
func countBefore(entries []models.Entry, e models.Entry) (n int64) {
	for _, other := range entries {
		if other.Before(e) {
			n++
		}
	}
	return n
}

// sortFirst reorders the entries so that the first n are those that rank first, in
// order. It is a quicksort that leaves out the parts behind them.
func sortFirst(entries []models.Entry, n int) {
	const few = 12 // entries that are sorted faster by insertion
	for len(entries) > few && n > 0 {
		middle := partition(entries)
		sortFirst(entries[middle+1:], n-middle-1)
		entries = entries[:middle]
		n = min(n, middle)
	}
	if n > 0 {
		sortFew(entries)
	}
}

// partition moves an entry, chosen at random, to the place that it has in the ranking,
// those that rank before it to the left, and the others to the right. It returns the
// place. The choice is random so that no order of entries is slow.
func partition(entries []models.Entry) int {
	last := len(entries) - 1
	chosen := mathrand.IntN(len(entries)) //nolint:gosec // it decides about time only
	pivot := entries[chosen]
	entries[chosen] = entries[last]
	place := 0
	for i, e := range entries[:last] {
		// Nobody can predict which entries rank before the pivot, so there is no branch
		// for it: each entry is swapped, and the place grows by 0 or 1.
		entries[i], entries[place] = entries[place], e
		step := 0
		if e.Composite > pivot.Composite {
			step = 1
		}
		if e.Composite == pivot.Composite && e.Before(pivot) {
			step = 1
		}
		place += step
	}
	entries[last], entries[place] = entries[place], pivot
	return place
}

// sortFew sorts entries by insertion.
func sortFew(entries []models.Entry) {
	for i, e := range entries {
		for i > 0 && e.Before(entries[i-1]) {
			entries[i] = entries[i-1]
			i--
		}
		entries[i] = e
	}
}
