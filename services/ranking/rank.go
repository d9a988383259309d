package ranking

import (
	"slices"

	"stepboard/models"
)

// Page is a page of a ranked list.
type Page struct {
	// Total is the number of ranked entries on all pages together.
	Total int
	// FirstRank is the rank of Entries[0], counted from 1.
	FirstRank int
	// Entries is the page, best first.
	Entries []models.Entry
	// More reports whether entries follow the page.
	More bool
	// MyRank is the viewer's rank; 0 if the viewer has no entry.
	MyRank int
	// Mine is the viewer's entry, if MyRank is not 0.
	Mine models.Entry
}

// Rank sorts the entries and returns a page: at most limit entries after the
// given position. The zero position begins at the top. Entries without a
// composite are not ranked. The viewer's own rank is found whether or not it is
// on the page. Rank reorders entries, and the page shares their memory.
// O(n log n).
func Rank(entries []models.Entry, viewer models.RowID, after models.Entry, limit int) Page {
	ranked := slices.DeleteFunc(entries, func(e models.Entry) bool { return e.Composite == 0 })
	slices.SortFunc(ranked, models.Entry.Compare)
	p := Page{Total: len(ranked)}
	if i := slices.IndexFunc(ranked, func(e models.Entry) bool { return e.User == viewer }); i >= 0 {
		p.MyRank, p.Mine = i+1, ranked[i]
	}
	start := 0
	if after.Composite != 0 {
		i, found := slices.BinarySearchFunc(ranked, after, models.Entry.Compare)
		start = i
		if found {
			start++
		}
	}
	rest := ranked[start:]
	p.FirstRank = start + 1
	p.More = len(rest) > limit
	p.Entries = rest[:min(limit, len(rest))]
	return p
}
