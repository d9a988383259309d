// Package likes keeps who likes whose score on which day of a daily board. Its truth is in SQL,
// and there is no copy of it and no counter: a like is one INSERT, which waits for no like of
// another person. A like that is taken back keeps its row, so that giving it again is no news.
//
// A user likes the days of others that a ranking of friends or of a group shows (ranking.Score).
// What a viewer is shown of likes leaves out those who are not shown to the viewer, at the time
// of reading.
package likes

import (
	"context"
	"strconv"
	"time"

	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/platform/cursor"
	"stepboard/services/rankings/ranking"
)

// Service gives, withdraws and lists likes. Safe for concurrent use.
type Service struct{ o Options }

// Options holds what a Service is built on.
type Options struct {
	Store     *Store
	Rankings  *ranking.Service
	Catalog   *catalog.Catalog
	Directory models.Users
	Cursors   *cursor.Sealer
	Clock     models.Clock
}

// New returns a service.
func New(o Options) *Service { return &Service{o: o} }

// Give stores that the viewer of a query likes a user's score. Repeating it changes nothing.
// CodeNotFound if the viewer is not shown such a score, CodeValidationFailed if the two are
// the same, otherwise the errors of ranking.Service.Score. One statement besides those of
// Score, or a transaction of up to five if a backend or browsers hear of likes.
func (s *Service) Give(ctx context.Context, q ranking.Query, user models.UserID) error {
	if user == q.Viewer {
		return models.Invalid("path.id", "is the user who calls")
	}
	found, err := s.o.Rankings.Score(ctx, q, user)
	if err != nil {
		return err
	}
	return models.Public("store a like", s.o.Store.give(ctx, models.Like{
		UserID: found.User, Day: found.Day, Board: q.Board, LikedBy: found.Viewer, CreatedAt: s.o.Clock().UTC().Truncate(time.Microsecond),
	}))
}

// Withdraw takes back what Give has stored, also if the viewer is no longer shown the score.
// Without a like, nothing changes. One statement. CodeBoardNotFound, CodeBoardKind,
// CodeDateInFuture, CodeOffsetRequired.
func (s *Service) Withdraw(ctx context.Context, q ranking.Query, user models.UserID) error {
	board, err := s.o.Catalog.Definitions.Board(q.Board)
	if err != nil {
		return err
	}
	if err := board.RequireDays(); err != nil {
		return err
	}
	bucket, err := s.o.Catalog.Buckets.Resolve(board, q.Date, s.o.Clock(), q.Offset)
	if err != nil {
		return err
	}
	if bucket.Day < catalog.FirstDay { // not every database can represent it
		return nil
	}
	rows, err := s.o.Directory.Find(ctx, user, q.Viewer)
	if err != nil || rows[0] == 0 || rows[1] == 0 {
		return err
	}
	err = s.o.Store.withdraw(ctx, models.Like{UserID: rows[0], Day: bucket.Day, Board: q.Board, LikedBy: rows[1]})
	return models.Public("withdraw a like", err)
}

// Liker is a user who likes a score.
type Liker struct {
	Row       models.RowID  `gorm:"column:liked_by"`
	User      models.UserID `gorm:"column:external_id"`
	Nickname  string
	AvatarURL string
	CreatedAt time.Time
}

// Page is a page of those who like a score.
type Page struct {
	Likers []Liker
	// NextCursor is nil on the last page.
	NextCursor *string
}

// List returns a page of those who like a score of the viewer of a query, or one that the
// viewer is shown, newest first, without those who are not shown to the viewer. One query
// besides those of ranking.Service.Score, whose errors it returns.
func (s *Service) List(ctx context.Context, q ranking.Query, user models.UserID) (Page, error) {
	found, err := s.o.Rankings.Score(ctx, q, user)
	if err != nil {
		return Page{}, err
	}
	scope := []string{"likes", q.Board, strconv.Itoa(int(found.Day)), string(user), string(q.Viewer)}
	after, err := s.o.Cursors.Open(ctx, q.Cursor, scope...)
	if err != nil {
		return Page{}, err
	}
	list, err := s.o.Store.list(ctx, found, q.Board, after, q.Limit+1)
	if err != nil {
		return Page{}, models.Unavailable("list likes", err)
	}
	_, list, next := cursor.Cut(list, models.Cursor{}, q.Limit, nil,
		func(l Liker) models.Cursor { return models.Cursor{Key: l.CreatedAt.UnixMicro(), Row: l.Row} })
	return Page{list, s.o.Cursors.Next(next, scope...)}, nil
}
