package ranking

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// request is a query whose board, days, viewer and position were found. No step changes it.
type request struct {
	board *catalog.Board
	now   time.Time
	// viewer is the viewer's row; 0 without a viewer, or if the viewer does not exist.
	viewer models.RowID
	// bucket is the one that the query asks for, as it would be made if it does not exist;
	// nil in a span.
	bucket *models.Bucket
	// from and to are the first and the last day of a span, and days those that have begun,
	// oldest first.
	from, to models.Date
	days     []day
	// cursor is the position behind which the page begins; zero for the top.
	cursor models.Cursor
	// scope identifies the list that a cursor belongs to.
	scope []string
	// list is the call. Those in Lists are counted.
	list  string
	limit int
	likes bool
	// current asks for an answer that has every write which ended before.
	current bool
	// position asks also for the viewer's position among all users.
	position bool
}

// resolve finds the board, the days, the viewer and the position that a query asks for. No
// I/O but to find the viewer, and the key of a cursor.
func (s *Service) resolve(ctx context.Context, q Query, call string, scope ...string) (request, error) {
	b, err := s.o.Catalog.Definitions.Board(q.Board)
	if err == nil && (q.Likes || q.Span != nil) {
		err = b.RequireDays()
	}
	if err == nil && q.Span != nil {
		err = b.RequireHigh("sums of several days")
	}
	if err != nil {
		return request{}, err
	}
	r := request{board: b, now: s.o.Clock(), list: call, limit: q.Limit, likes: q.Likes, current: q.Current}
	if q.Span != nil {
		r.from, r.to, r.days, err = s.resolveSpan(b, q, r.now)
		r.scope = append([]string{call + " span", b.Name, r.from.String(), r.to.String()}, scope...)
	} else if r.bucket, err = s.o.Catalog.Buckets.Resolve(b, q.Date, r.now, q.Offset); err == nil {
		r.scope = append([]string{call, b.Name, r.bucket.Name}, scope...)
	}
	if err == nil && q.Cursor != "" {
		r.cursor, err = s.o.Cursors.Open(ctx, q.Cursor, r.scope...)
	}
	if err == nil && q.Viewer != "" {
		r.viewer, err = s.o.Directory.FindOne(ctx, q.Viewer)
	}
	return r, err
}

// resolveSpan returns the first and the last day of a span, and those that have begun. It
// knows of each whether it exists if this process has its bucket in memory.
func (s *Service) resolveSpan(b *catalog.Board, q Query, now time.Time) (from, to models.Date, days []day, err error) {
	from = q.Span.From
	if q.Span.To != nil {
		to = *q.Span.To
	} else {
		today, err := s.o.Catalog.Buckets.Current(b, now, q.Offset)
		if err != nil {
			return 0, 0, nil, err
		}
		to = max(from, today.Day)
	}
	switch {
	case q.Date != nil:
		err = models.Invalid("query.date", "names one day, and from and to name several: leave one or the other out")
	case q.Likes:
		err = models.Invalid("query.include", "spans have no likes")
	case from > to:
		err = models.Invalid("query.from", "is after the last day")
	case to-from >= models.MaxSpanDays:
		err = models.Invalid("query.from", "a span has at most 31 days")
	}
	if err != nil {
		return 0, 0, nil, err
	}
	buckets, exist, err := s.o.Catalog.Buckets.Days(b, max(from, catalog.FirstDay), to, now)
	for i, bucket := range buckets {
		days = append(days, day{bucket: bucket, exists: exist[i]})
	}
	return from, to, days, err
}
