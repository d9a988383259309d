package ranking

import (
	"slices"

	"stepboard/models"
)

// Page is a stretch of a ranked list.
type Page struct {
	// Total is the number of ranked entries, on all pages together.
	Total int
	// FirstRank is the rank of Entries[0], from 1.
	FirstRank int
	// Entries is the page, best first.
	Entries []models.Entry
	// More says that entries follow behind the page.
	More bool
	// MyRank is the viewer's rank; 0 without an entry.
	MyRank int
	// Mine is the viewer's entry, if MyRank is not 0.
	Mine models.Entry
}

// Rank orders the entries and picks a page: those behind `after`, at most
// limit. The zero place begins at the top. Entries without a composite are
// not ranked. The viewer's own rank is found whether or not it is on the
// page. It reorders entries, and the page shares their memory. O(n log n).
func Rank(entries []models.Entry, viewer models.UserID, after models.Entry, limit int) Page {
	ranked := slices.DeleteFunc(entries, func(e models.Entry) bool { return e.Composite == 0 })
	slices.SortFunc(ranked, models.Entry.Compare)
	p := Page{Total: len(ranked)}
	if at := slices.IndexFunc(ranked, func(e models.Entry) bool { return e.User == viewer }); at >= 0 {
		p.MyRank, p.Mine = at+1, ranked[at]
	}
	start := 0
	if after.Composite != 0 {
		at, found := slices.BinarySearchFunc(ranked, after, models.Entry.Compare)
		start = at
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
