package ranking

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// Span is a range of days whose scores are added up. Days that have not begun add nothing.
type Span struct {
	From models.Date
	// To is the last day, which is included; nil means today.
	To *models.Date
}

// Query selects a page of the ranking of one bucket.
type Query struct {
	Board string
	// Date is the day; nil means the board's current bucket.
	Date *models.Date
	// Span asks for the sums of several days instead, if it is not nil. Only Friends and
	// Group have them.
	Span *Span
	// Offset is that of the user's clock. Boards whose days are each user's own need
	// it if Date is nil.
	Offset models.UTCOffset
	// Viewer is the user whose own entry is returned beside the page; empty for
	// none. It need not exist.
	Viewer models.UserID
	// Limit is the size of a page.
	Limit int
	// Cursor is the position where the page begins; empty for the top.
	Cursor string
	// Current asks for an answer that has every write which ended before the call: copies in
	// memory are not read, however fresh they are. CodeUnavailable if the bucket is final and
	// Redis lacks some of its updates.
	Current bool
	// Likes asks for the likes of each entry: CodeBoardKind on boards without days. Only
	// rankings of friends and groups have them.
	Likes bool
}

// Friends ranks a user and the user's friends among themselves. On a hot bucket
// it makes two round trips to Redis, for any number of friends, or none if the memory
// of the process has both the friends and their scores; on an archived one it makes one
// round trip and one query, or two queries if the day is so old that not all friends
// show it. A span costs two round trips whatever its hot days, and one query if it has
// days that are not hot, as far as this process knows. If its archived days are so old that
// not all friends show them, a second query replaces the round trip for the friends. Likes,
// which spans have not, cost one query more.
func (s *Service) Friends(ctx context.Context, q Query) (*models.Ranking, error) {
	return s.rankCircle(ctx, q, "", "friends", string(q.Viewer))
}

// Group ranks the present members of a group among themselves, at the cost of Friends.
// CodeNotFound if the viewer is not a member.
func (s *Service) Group(ctx context.Context, q Query, group models.GroupID) (*models.Ranking, error) {
	return s.rankCircle(ctx, q, group, "group", string(q.Viewer), string(group))
}

// rankCircle ranks the members of a group, or the viewer's friends if that is empty. call and scope
// identify the list that a cursor belongs to. Its steps after resolve are in source.go, read.go and
// page.go, in this order.
func (s *Service) rankCircle(
	ctx context.Context, q Query, group models.GroupID, call string, scope ...string,
) (ranking *models.Ranking, err error) {
	r, err := s.resolve(ctx, q, call, scope...)
	if err != nil {
		return nil, err
	}
	r.group = group
	err = s.answer(ctx, &r, func(a *attempt) error {
		found, err := s.read(ctx, &r, a)
		if err != nil {
			return err
		}
		page := r.rank(a, found)
		ranking = page.Ranking
		return s.render(ctx, &r, a, page)
	})
	return ranking, err
}

// request is a query whose board, days, viewer and position were found. No step changes it.
type request struct {
	board *catalog.Board
	now   time.Time
	// viewer is the viewer's row; 0 without a viewer, or if the viewer does not exist.
	viewer models.RowID
	// group is that whose members are ranked; empty for the viewer's friends.
	group models.GroupID
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
	if err == nil {
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
