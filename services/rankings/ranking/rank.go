package ranking

import (
	mathrand "math/rand/v2"
	"slices"

	"stepboard/models"
	"stepboard/services/boards/score"
	"stepboard/services/platform/cursor"
)

// page is a page of a ranking, of which Total, Entries and Me are set. Nobody in it has a
// name.
type page struct {
	*models.Ranking
	// users are those of the entries and then of Me, if that is set.
	users []models.RowID
	// leader is who leads a circle; 0 if nobody has a score, and in global lists.
	leader models.RowID
	// next is the position of the last entry if others follow; otherwise zero.
	next models.Cursor
}

// rank ranks the people of a circle by their scores, which it reorders.
func (r *request) rank(a *attempt, found scores) page {
	if r.bucket == nil {
		return r.rankSums(found.sums)
	}
	ranked := Rank(found.entries, r.viewer, r.after(), r.limit)
	p := pageOf(a.bucket, ranked.Entries, int64(ranked.FirstRank), ranked.Mine, int64(ranked.MyRank), ranked.More)
	p.Total, p.leader = int64(ranked.Total), ranked.Leader.User
	return p
}

// after returns the position of the cursor in a bucket.
func (r *request) after() models.Entry {
	return models.Entry{User: r.cursor.Row, Composite: models.Composite(r.cursor.Key)}
}

// pageOf returns a page with entries of a bucket, the first of which has the given rank, and
// with the viewer's entry if it has a rank.
func pageOf(bucket *models.Bucket, entries []models.Entry, firstRank int64, mine models.Entry, myRank int64, more bool) page {
	p := newPage(len(entries))
	if bucket == nil {
		return p
	}
	codec := score.Of(bucket)
	fill := func(line *models.RankedEntry, composite models.Composite) {
		points, reachedAt := codec.Decode(composite)
		line.Score, line.ReachedAt = bucket.Score(points), reachedAt
	}
	for i, e := range entries {
		line := &p.Entries[i]
		p.users[i], line.Rank = e.User, firstRank+int64(i)
		fill(line, e.Composite)
	}
	if myRank != 0 {
		p.users, p.Me = append(p.users, mine.User), &models.RankedEntry{Rank: myRank}
		fill(p.Me, mine.Composite)
	}
	if more {
		last := entries[len(entries)-1]
		p.next = models.Cursor{Key: int64(last.Composite), Row: last.User}
	}
	return p
}

// newPage returns a page with n entries to fill in.
func newPage(n int) page {
	p := page{Ranking: &models.Ranking{}, users: make([]models.RowID, n, n+2)} // and Me and the leader
	p.MakeEntries(n)
	return p
}

// rankSums is rank for a span.
func (r *request) rankSums(entries []models.SumEntry) page {
	slices.SortFunc(entries, models.SumEntry.Compare)
	first, shown, next := cursor.Cut(entries, r.cursor, r.limit, models.SumEntry.ComparePosition, models.SumEntry.Position)
	p := newPage(len(shown))
	p.Total, p.next = int64(len(entries)), next
	if len(entries) > 0 {
		p.leader = entries[0].User
	}
	for i, e := range shown {
		p.users[i], p.Entries[i] = e.User, sumLine(e, first+i)
	}
	if i := slices.IndexFunc(entries, func(e models.SumEntry) bool { return e.User == r.viewer }); i >= 0 {
		me := sumLine(entries[i], i)
		p.users, p.Me = append(p.users, r.viewer), &me
	}
	return p
}

// sumLine returns a line of a ranking of sums, at a place counted from 0, without its user.
func sumLine(e models.SumEntry, place int) models.RankedEntry {
	return models.RankedEntry{Rank: int64(place + 1), Score: e.Score, ReachedAt: e.ReachedAt, Days: e.Days}
}

// Page is a page of a ranked list.
type Page struct {
	// Total is the number of ranked entries on all pages together.
	Total int
	// FirstRank is the rank of Entries[0], counted from 1.
	FirstRank int
	// Leader is the entry that ranks first; zero without entries.
	Leader models.Entry
	// Entries is the page, best first.
	Entries []models.Entry
	// More reports whether entries follow the page.
	More bool
	// MyRank is the viewer's rank; 0 if the viewer has no entry.
	MyRank int
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
	p := Page{Total: len(ranked), Leader: leader(ranked)}
	if i := slices.IndexFunc(ranked, func(e models.Entry) bool { return e.User == viewer }); i >= 0 {
		p.Mine = ranked[i]
		p.MyRank = 1 + countBefore(ranked, p.Mine)
	}
	rest := ranked
	if after.Composite != 0 {
		rest = slices.DeleteFunc(ranked, func(e models.Entry) bool { return !after.Before(e) })
	}
	p.FirstRank = p.Total - len(rest) + 1
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
func countBefore(entries []models.Entry, e models.Entry) (n int) {
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
