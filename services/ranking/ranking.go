// Package ranking joins friends with a board: it reads a user's friends and
// their scores, ranks them, and answers one page. Global lists come from the
// board itself. A bucket is read where it is, in Redis or in the archive.
package ranking

import (
	"context"
	"errors"
	"time"

	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/score"
)

// Reader reads buckets from one store.
type Reader interface {
	Composites(ctx context.Context, bucket *models.Bucket, users []models.UserID) ([]models.Composite, error)
	Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error)
}

// Boards reads buckets that are in Redis.
type Boards interface {
	Reader
	Positions(ctx context.Context, buckets []*models.Bucket, user models.UserID) ([]board.Position, error)
	// Settling reports whether scores of a bucket with a window still hold
	// hours that have left it.
	Settling(ctx context.Context, bucket *models.Bucket) (bool, error)
}

// Archive reads buckets that have left it.
type Archive interface {
	Reader
	Complete(ctx context.Context, bucket *models.Bucket) (bool, error)
	Days(ctx context.Context, board string, user models.UserID, from, to models.Date) ([]archive.Day, error)
}

// Friends lists a user's friends.
type Friends interface {
	IDs(ctx context.Context, user models.UserID) ([]models.UserID, error)
}

// Profiles names users.
type Profiles interface {
	Profiles(ctx context.Context, ids []models.UserID) []models.Profile
}

// Service answers rankings. Safe for concurrent use.
type Service struct {
	catalog  *catalog.Catalog
	boards   Boards
	archive  Archive
	friends  Friends
	profiles Profiles
	clock    models.Clock
}

// New makes a service.
func New(c *catalog.Catalog, boards Boards, archive Archive, friends Friends, profiles Profiles, clock models.Clock) *Service {
	return &Service{catalog: c, boards: boards, archive: archive, friends: friends, profiles: profiles, clock: clock}
}

// Query asks for a ranking of one bucket of a board.
type Query struct {
	Board string
	// Date is the day; nil means the board's current bucket.
	Date *models.Date
	// Viewer is the user whose own line is answered; 0 for nobody's.
	Viewer models.UserID
	// Limit is the size of a page.
	Limit int
	// Cursor is where the page begins; empty for the top.
	Cursor string
}

// Friends ranks a user and the user's friends among themselves. Two round
// trips to Redis on a hot bucket, however many friends there are; one and a
// query on an archived one.
func (s *Service) Friends(ctx context.Context, q Query) (*models.Ranking, error) {
	v, err := s.resolve(ctx, q, "friends", q.Viewer.String())
	if err != nil || v.bucket == nil {
		return v.answer, err
	}
	circle, err := s.entries(ctx, v, q.Viewer)
	if err != nil {
		return nil, err
	}
	page := Rank(circle, q.Viewer, v.after, q.Limit)
	v.answer.Total = int64(page.Total)
	s.render(ctx, v, page.Entries, int64(page.FirstRank), page.Mine, int64(page.MyRank))
	if page.More {
		v.next(page.Entries)
	}
	return v.answer, nil
}

// Top ranks everybody. One round trip to Redis, three with a viewer.
func (s *Service) Top(ctx context.Context, q Query) (*models.Ranking, error) {
	v, err := s.resolve(ctx, q, "top")
	if err != nil || v.bucket == nil {
		return v.answer, err
	}
	at := v.after
	if at.Composite == 0 {
		at = board.Top
	}
	// Two more than the page: one that may be the cursor's own entry, which
	// the page before has shown, and one that tells whether a page follows.
	var (
		w    board.Window
		mine located
	)
	err = s.read(ctx, v, func(from Reader) (err error) {
		if w, err = from.Window(ctx, v.bucket, at, 0, q.Limit+2); err != nil || q.Viewer == 0 {
			return err
		}
		mine, err = locate(ctx, from, v.bucket, q.Viewer, 0, 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	entries, first := w.Behind, w.Before+1
	if len(entries) > 0 && entries[0] == at {
		entries, first = entries[1:], first+1
	}
	v.answer.Total = w.Total
	page := entries[:min(len(entries), q.Limit)]
	s.render(ctx, v, page, first, mine.entry, mine.rank)
	if len(entries) > len(page) {
		v.next(page)
	}
	return v.answer, nil
}

// Around ranks a user's neighbours among everybody: the radius best on either
// side, more on one side where the other ends. Empty if the user has no
// score. Two round trips to Redis.
func (s *Service) Around(ctx context.Context, q Query, radius int) (*models.Ranking, error) {
	v, err := s.resolve(ctx, q, "around")
	if err != nil || v.bucket == nil {
		return v.answer, err
	}
	var w located
	err = s.read(ctx, v, func(from Reader) (err error) {
		w, err = locate(ctx, from, v.bucket, q.Viewer, 2*radius, 2*radius+1)
		return err
	})
	if err != nil {
		return nil, err
	}
	v.answer.Total = w.Total
	if w.rank == 0 {
		return v.answer, nil
	}
	// Which entries to show, counted from the user's own place.
	ahead := min(radius, len(w.Ahead))
	behind := min(2*radius-ahead, max(0, len(w.Behind)-1))
	ahead = min(2*radius-behind, len(w.Ahead))
	entries := append(w.Ahead[len(w.Ahead)-ahead:len(w.Ahead):len(w.Ahead)], w.Behind[:min(len(w.Behind), behind+1)]...)
	s.render(ctx, v, entries, w.rank-int64(ahead), w.entry, w.rank)
	return v.answer, nil
}

// Summary is where a user stands in a bucket. Without a score all but the
// totals are nil.
type Summary struct {
	Score        *int64
	ReachedAt    *models.Timestamp
	GlobalRank   *int64
	GlobalTotal  int64
	FriendsRank  *int64
	FriendsTotal int64
	Percentile   *float64
}

// Me tells where a user stands today, among everybody and among friends.
// Four round trips to Redis.
func (s *Service) Me(ctx context.Context, q Query) (*Summary, error) {
	v, err := s.resolve(ctx, q, "me")
	if err != nil || v.bucket == nil {
		return &Summary{}, err
	}
	circle, err := s.entries(ctx, v, q.Viewer)
	if err != nil {
		return nil, err
	}
	page := Rank(circle, q.Viewer, models.Entry{}, 0)
	var w located
	err = s.read(ctx, v, func(from Reader) (err error) {
		w, err = locate(ctx, from, v.bucket, q.Viewer, 0, 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	standing := &Summary{GlobalTotal: w.Total, FriendsTotal: int64(page.Total)}
	if page.MyRank == 0 || w.rank == 0 {
		return standing, nil
	}
	points, reachedAt := score.Of(v.bucket).Decode(w.entry.Composite)
	friendsRank, percentile := int64(page.MyRank), Percentile(w.rank, w.Total)
	standing.Score, standing.ReachedAt = &points, &reachedAt
	standing.GlobalRank, standing.FriendsRank = &w.rank, &friendsRank
	standing.Percentile = &percentile
	return standing, nil
}

// Percentile is 100 × those ranked below ÷ all others, rounded down to 0.1;
// 100 for who is alone.
func Percentile(rank, total int64) float64 {
	if total <= 1 {
		return 100
	}
	return float64(1000*(total-rank)/(total-1)) / 10
}

// request is a query on its way to an answer.
type request struct {
	now    time.Time
	bucket *models.Bucket
	codec  score.Codec
	after  models.Entry
	scope  []string
	answer *models.Ranking
}

// resolve resolves a query: board, bucket, cursor. The view has no bucket where
// nothing was ever written to it; then its answer is complete. One round trip
// to Redis where scores have a window, none otherwise.
func (s *Service) resolve(ctx context.Context, q Query, call string, scope ...string) (*request, error) {
	b, err := s.catalog.Definitions.Board(q.Board)
	if err != nil {
		return &request{}, err
	}
	now := s.clock()
	asked, err := s.catalog.Buckets.Resolve(b, q.Date, now)
	if err != nil {
		return &request{}, err
	}
	v := &request{
		now:    now,
		scope:  append([]string{call, b.Name, asked.Name}, scope...),
		answer: &models.Ranking{Board: b.Name, Source: models.SourceHot, Final: asked.Final(now), Entries: []models.RankedEntry{}},
	}
	if d := b.Date(asked); d != nil {
		text := d.String()
		v.answer.Date = &text
	}
	if q.Cursor != "" {
		place, err := models.DecodeCursor(q.Cursor, v.scope...)
		if err != nil {
			return &request{}, err
		}
		v.after = models.Entry{User: place.User, Composite: models.Composite(place.Key)}
	}
	bucket, err := s.catalog.Buckets.Load(ctx, asked.Board, asked.Name)
	if errors.Is(err, catalog.ErrNoBucket) {
		return v, nil
	}
	if err != nil {
		return &request{}, err
	}
	v.bucket, v.codec = bucket, score.Of(bucket)
	v.answer.Final = bucket.Final(now)
	if bucket.WindowHours > 0 {
		settling, err := s.boards.Settling(ctx, bucket)
		if err != nil {
			return &request{}, err
		}
		v.answer.Settling = &settling
	}
	return v, nil
}

// read lets fn read the view's bucket where it is. A cold bucket is in the
// archive, whole, or still in Redis, whole. Who reads it in Redis looks again:
// if the archive has completed it meanwhile, some of it may have been gone
// already, and fn reads it a second time.
func (s *Service) read(ctx context.Context, v *request, fn func(Reader) error) error {
	if !v.bucket.Cold(v.now) {
		return fn(s.boards)
	}
	archived, err := s.archive.Complete(ctx, v.bucket)
	if err != nil {
		return err
	}
	if !archived {
		if err := fn(s.boards); err != nil {
			return err
		}
		if archived, err = s.archive.Complete(ctx, v.bucket); err != nil || !archived {
			return err
		}
	}
	v.answer.Source = models.SourceArchive
	return fn(s.archive)
}

// entries reads the composites of a user and the user's friends.
func (s *Service) entries(ctx context.Context, v *request, user models.UserID) ([]models.Entry, error) {
	ids, err := s.friends.IDs(ctx, user)
	if err != nil {
		return nil, err
	}
	ids = append(ids, user)
	var composites []models.Composite
	err = s.read(ctx, v, func(from Reader) (err error) {
		composites, err = from.Composites(ctx, v.bucket, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	entries := make([]models.Entry, len(ids))
	for i, id := range ids {
		entries[i] = models.Entry{User: id, Composite: composites[i]}
	}
	return entries, nil
}

// located is a user's entry with what stands around it. Without a score the
// entry is empty and the rank 0.
type located struct {
	entry models.Entry
	rank  int64
	board.Window
}

// locateTries bounds how often a user who keeps moving is looked for.
const locateTries = 4

// locate reads a user's entry and, around it, up to `back` entries before it
// and `forward` (1 or more) from it on. Two round trips. Should the user move
// between them, it looks again, so that rank and entry belong together.
func locate(ctx context.Context, from Reader, bucket *models.Bucket, user models.UserID, back, forward int) (located, error) {
	var l located
	for range locateTries {
		composites, err := from.Composites(ctx, bucket, []models.UserID{user})
		if err != nil {
			return located{}, err
		}
		l = located{entry: models.Entry{User: user, Composite: composites[0]}}
		at := l.entry
		if at.Composite == 0 {
			at, back, forward = board.Top, 0, 0
		}
		if l.Window, err = from.Window(ctx, bucket, at, back, forward); err != nil {
			return located{}, err
		}
		if at == board.Top {
			break
		}
		l.rank = l.Before + 1
		if len(l.Behind) > 0 && l.Behind[0] == l.entry {
			break
		}
	}
	return l, nil
}

// render turns a page and the viewer's entry into lines with names. Names are
// looked up for what is shown and nothing else.
func (s *Service) render(ctx context.Context, v *request, page []models.Entry, first int64, mine models.Entry, myRank int64) {
	ids := make([]models.UserID, 0, len(page)+1)
	for _, e := range page {
		ids = append(ids, e.User)
	}
	if myRank != 0 {
		ids = append(ids, mine.User)
	}
	profiles := s.profiles.Profiles(ctx, ids)
	v.answer.Entries = make([]models.RankedEntry, len(page))
	for i, e := range page {
		v.renderEntry(&v.answer.Entries[i], e, first+int64(i), profiles[i])
	}
	if myRank != 0 {
		v.answer.Me = new(models.RankedEntry)
		v.renderEntry(v.answer.Me, mine, myRank, profiles[len(page)])
	}
}

func (v *request) renderEntry(line *models.RankedEntry, e models.Entry, rank int64, p models.Profile) {
	points, reachedAt := v.codec.Decode(e.Composite)
	*line = models.RankedEntry{
		Rank: rank, User: e.User, Nickname: p.Nickname, AvatarURL: p.AvatarURL,
		Score: points, ReachedAt: reachedAt,
	}
}

// next sets the cursor behind the page's last entry.
func (v *request) next(page []models.Entry) {
	last := page[len(page)-1]
	cursor := models.EncodeCursor(models.Cursor{Key: int64(last.Composite), User: last.User}, v.scope...)
	v.answer.NextCursor = &cursor
}
