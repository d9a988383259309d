package ranking

import (
	"context"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// The largest numbers of scores that a span reads from Redis, and in all: about a second of
// Postgres.
const (
	maxHotScores  = 40_000
	maxSpanScores = 100_000
)

// Span is a range of days whose scores are added up. Days that have not begun add nothing.
type Span struct {
	From models.Date
	// To is the last day, which is included; nil means today.
	To *models.Date
}

// spanRequest is a resolved query for sums and the ranking that answers it.
type spanRequest struct {
	request

	// days are those of the span that have begun, oldest first.
	days []spanDay
	// after is the position of the cursor; zero for the top.
	after models.SumEntry
}

// spanDay is a day of a span.
type spanDay struct {
	// bucket is as it would be made if it does not exist.
	bucket *models.Bucket
	// exists and archived are false as long as this process does not know better.
	exists, archived bool
}

// hot reports whether the day is in Redis for certain.
func (d *spanDay) hot(r *spanRequest) bool { return d.exists && !d.bucket.Cold(r.now) }

// rankSpan ranks the people of a circle by the sums of their scores. It does not use the
// near cache, which has only the current day of a span.
func (s *Service) rankSpan(ctx context.Context, q Query, people circle, call string, scope ...string) (*request, error) {
	r, err := s.resolveSpan(ctx, q, call, scope...)
	if err != nil {
		return nil, err
	}
	entries, moved, err := s.sums(ctx, r, people)
	for moved && err == nil { // once for each run of the archive that has ended meanwhile
		entries, moved, err = s.sums(ctx, r, people)
	}
	if err != nil {
		return nil, err
	}
	r.describeDays()
	return &r.request, s.renderSpan(ctx, r, entries, q.Limit)
}

// resolveSpan finds the board, the days and the position that a query asks for. No I/O but
// to find the viewer.
func (s *Service) resolveSpan(ctx context.Context, q Query, call string, scope ...string) (*spanRequest, error) {
	b, err := s.catalog.Definitions.Board(q.Board)
	if err != nil {
		return nil, err
	}
	if err := b.RequireDays(); err != nil {
		return nil, err
	}
	now := s.clock()
	from, last, err := s.spanRange(b, q)
	if err != nil {
		return nil, err
	}
	first, final := from.String(), last.String()
	r := &spanRequest{request: request{
		now:   now,
		scope: append([]string{call + " span", b.Name, first, final}, scope...),
		ranking: &models.Ranking{
			Board: b.Name, From: &first, To: &final, Source: models.SourceHot, Entries: []models.RankedEntry{},
		},
	}}
	buckets, exist, err := s.catalog.Buckets.Days(b, max(from, catalog.FirstDay), last, now)
	if err != nil {
		return nil, err
	}
	for i, bucket := range buckets {
		r.days = append(r.days, spanDay{bucket: bucket, exists: exist[i]})
	}
	r.ranking.Final = len(buckets) == 0 || buckets[len(buckets)-1].Day == last
	cursor, err := s.open(ctx, &r.request, q)
	if err != nil {
		return nil, err
	}
	r.after = models.SumEntry{User: cursor.Row, Sum: models.Sum{Score: cursor.Key, ReachedAt: cursor.At}}
	return r, nil
}

// spanRange returns the first and the last day of a span.
func (s *Service) spanRange(b *catalog.Board, q Query) (from, to models.Date, err error) {
	from = q.Span.From
	if q.Span.To != nil {
		to = *q.Span.To
	} else {
		today, err := s.catalog.Buckets.Current(b, s.clock(), q.Offset)
		if err != nil {
			return 0, 0, err
		}
		to = max(from, today.Day)
	}
	switch {
	case q.Date != nil:
		return 0, 0, models.Invalid("query.date", "names one day, and from and to name several: leave one or the other out")
	case q.Likes:
		return 0, 0, models.Invalid("query.include", "spans have no likes")
	case from > to:
		return 0, 0, models.Invalid("query.from", "is after the last day")
	case to-from >= models.MaxSpanDays:
		return 0, 0, models.Invalid("query.from", "a span has at most 31 days")
	}
	return from, to, nil
}

// sums returns the sums of the people who have any, in no order. moved reports that a day
// has been archived while it was read, so that its entries may have been dropped already;
// the sums are not valid then.
func (s *Service) sums(ctx context.Context, r *spanRequest, people circle) (entries []models.SumEntry, moved bool, err error) {
	viewed, sums, err := s.archivedSums(ctx, r, people)
	if err != nil || len(viewed) == 0 {
		return nil, false, err
	}
	var hot []*models.Bucket
	cold := false
	for _, d := range r.days {
		if d.exists && !d.archived {
			hot = append(hot, d.bucket)
			cold = cold || d.bucket.Cold(r.now)
		}
	}
	if n := len(viewed) * len(hot); n > maxHotScores {
		return nil, false, models.Errorf(models.CodeSpanTooLarge,
			"%d people on %d days that are not archived are more than %d scores: ask for fewer days", len(viewed), len(hot), maxHotScores)
	}
	if len(hot) > 0 && !slices.ContainsFunc(r.days, func(d spanDay) bool { return !d.bucket.Final(r.now) }) {
		s.confirmFinal(ctx, &r.request, hot[0])
	}
	if err := s.addHot(ctx, viewed, hot, sums); err != nil {
		return nil, false, err
	}
	if cold {
		if _, _, moved, err = s.readArchive(ctx, r, nil); err != nil || moved {
			return nil, moved, err
		}
	}
	for i, sum := range sums {
		if sum.Days > 0 && !s.rules.Erased(viewed[i].User) {
			entries = append(entries, models.SumEntry{User: viewed[i].User, Sum: sum})
		}
	}
	return entries, false, nil
}

// archivedSums returns the people of a circle, and what their archived days add up to, by
// position. Afterwards the request says of each day whether it exists and is archived.
func (s *Service) archivedSums(ctx context.Context, r *spanRequest, people circle) ([]archive.Viewed, []models.Sum, error) {
	known := !slices.ContainsFunc(r.days, func(d spanDay) bool { return !d.hot(r) })
	old := !known && !r.now.Before(s.shownBefore(r.days[0].bucket.EndsAt))
	for {
		viewed, err := people.viewed(ctx, r.viewer, old)
		if err != nil || len(viewed) == 0 {
			return nil, nil, err
		}
		if n := len(viewed) * len(r.days); n > maxSpanScores {
			return nil, nil, models.Errorf(models.CodeSpanTooLarge,
				"%d people on %d days are more than %d scores: ask for fewer days", len(viewed), len(r.days), maxSpanScores)
		}
		if known {
			return viewed, make([]models.Sum, len(viewed)), nil
		}
		sums, oldest, _, err := s.readArchive(ctx, r, viewed)
		if err != nil {
			return nil, nil, err
		}
		if old || oldest.IsZero() || r.now.Before(s.shownBefore(oldest)) {
			return viewed, sums, nil
		}
		old = true // the first archived day ends before it would as the board is defined now
	}
}

// readArchive asks the archive what it has of the days, and notes it in the request. It
// returns the users' sums, by position, the end of the first archived day, which is zero
// without one, and whether it has days that it did not have before.
func (s *Service) readArchive(
	ctx context.Context, r *spanRequest, users []archive.Viewed,
) (sums []models.Sum, oldest time.Time, moved bool, err error) {
	first, last := r.days[0].bucket.Day, r.days[len(r.days)-1].bucket.Day
	found, sums, err := s.archive.Sums(ctx, r.ranking.Board, users, first, last)
	if err != nil {
		return nil, oldest, false, err
	}
	for _, f := range found {
		day := &r.days[slices.IndexFunc(r.days, func(d spanDay) bool { return d.bucket.Name == f.Bucket })]
		if f.Archived {
			moved = moved || !day.archived
			if oldest.IsZero() || f.EndsAt.Before(oldest) {
				oldest = f.EndsAt
			}
		} else if day.bucket, err = s.catalog.Buckets.Load(ctx, r.ranking.Board, f.Bucket); err != nil {
			return nil, oldest, false, err
		}
		day.exists, day.archived = true, f.Archived
	}
	return sums, oldest, moved, nil
}

// addHot adds the people's scores in buckets in Redis to their sums, by position. One round
// trip, or none without buckets.
func (s *Service) addHot(ctx context.Context, people []archive.Viewed, buckets []*models.Bucket, sums []models.Sum) error {
	if len(buckets) == 0 {
		return nil
	}
	ids := make([]models.RowID, len(people))
	for i, p := range people {
		ids[i] = p.User
	}
	lists, err := s.boards.CompositesOf(ctx, buckets, ids)
	if err != nil {
		return err
	}
	for i, bucket := range buckets {
		s.rules.Show(bucket, ids, lists[i])
		codec := score.Of(bucket)
		for j, composite := range lists[i] {
			if composite != 0 {
				points, reachedAt := codec.Decode(composite)
				sums[j] = sums[j].Plus(models.Sum{Score: points, Days: 1, ReachedAt: reachedAt})
			}
		}
	}
	return nil
}

// describeDays sets where the answer comes from and whether it is final.
func (r *spanRequest) describeDays() {
	hot, archived := false, false
	for _, d := range r.days {
		hot = hot || d.exists && !d.archived
		archived = archived || d.archived
		r.ranking.Final = r.ranking.Final && (d.archived || d.bucket.Final(r.now))
	}
	if archived && !hot {
		r.ranking.Source = models.SourceArchive
	}
}

// renderSpan ranks the entries and sets the page behind the cursor, of at most limit of
// them, as the ranking's. It reorders the entries.
func (s *Service) renderSpan(ctx context.Context, r *spanRequest, entries []models.SumEntry, limit int) error {
	slices.SortFunc(entries, models.SumEntry.Compare)
	first := 0
	if r.after.User != 0 {
		place, found := slices.BinarySearchFunc(entries, r.after, models.SumEntry.Compare)
		if first = place; found {
			first++
		}
	}
	page := entries[first:min(first+limit, len(entries))]
	users := make([]models.RowID, len(page), len(page)+2)
	r.ranking.Total = int64(len(entries))
	if len(entries) > 0 {
		r.leader = entries[0].User
	}
	r.ranking.MakeEntries(len(page))
	for i, e := range page {
		users[i], r.ranking.Entries[i] = e.User, sumLine(e, first+i)
	}
	if i := slices.IndexFunc(entries, func(e models.SumEntry) bool { return e.User == r.viewer }); i >= 0 {
		me := sumLine(entries[i], i)
		users, r.ranking.Me = append(users, r.viewer), &me
	}
	if first+len(page) < len(entries) {
		last := page[len(page)-1]
		cursor := s.cursors.Seal(models.Cursor{Key: last.Score, Row: last.User, At: last.ReachedAt}, r.scope...)
		r.ranking.NextCursor = &cursor
	}
	return s.describe(ctx, &r.request, users)
}

// sumLine returns a line of a ranking of sums, at a place counted from 0, without its user.
func sumLine(e models.SumEntry, place int) models.RankedEntry {
	return models.RankedEntry{Rank: int64(place + 1), Score: e.Score, ReachedAt: e.ReachedAt, Days: e.Days}
}
