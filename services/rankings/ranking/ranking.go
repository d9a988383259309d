// Package ranking ranks the people of a circle, or all users, on a board. A friend ranking reads
// the friends and their scores, sorts them, and returns one page; a global ranking reads a page
// of the board itself. Each bucket is read where it is, in Redis or in the archive.
//
// A friend ranking takes two round trips, however many friends: one for the friends, one for
// their composites. Names that the process lacks take a third. A group ranking differs in the
// circle: the set of members is read in one pipeline with the set of those who are not shown to
// the viewer, who must be a member.
//
// A span adds up the days of a circle. The scores of all hot days are read in one pipeline. If
// this process does not know that all days are hot, a statement before it lists the buckets and
// adds up the archived ones inside SQL, each friend from the first day that shows them. A day
// that is cold and not archived yet is read in Redis; then SQL is asked again, and if a day has
// been archived meanwhile, everything is read again. If not all friends are shown on some
// archived days, the friends are read with the beginnings of their friendships. Spans don't use
// the near cache.
//
// A history is one statement over the archive, which also shows which days are not archived;
// those are read in one round trip to Redis. A summary adds up the history of 366 days in the
// process.
package ranking

import (
	"context"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/score"
)

// Reader reads buckets from one store.
type Reader interface {
	Composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error)
	Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error)
}

// Boards reads buckets in Redis.
type Boards interface {
	Reader
	// CompositesOf is Composites of several buckets, by position, in one round trip.
	CompositesOf(ctx context.Context, buckets []*models.Bucket, users []models.RowID) ([][]models.Composite, error)
	Positions(ctx context.Context, buckets []*models.Bucket, user models.RowID) ([]board.Position, error)
	// Settling reports whether scores of a rolling bucket still include hours
	// that have left its window.
	Settling(ctx context.Context, bucket *models.Bucket) (bool, error)
}

// Archive reads archived buckets.
type Archive interface {
	Reader
	Complete(ctx context.Context, bucket *models.Bucket) (bool, error)
	Days(ctx context.Context, board string, user models.RowID, from, to models.Date) ([]archive.Day, error)
	// Sums returns the existing buckets of a span, and what each user's archived ones of
	// them add up to, by position. One query.
	Sums(ctx context.Context, board string, users []archive.Viewed, from, to models.Date) ([]archive.SpanDay, []models.Sum, error)
}

// Friends lists those of a user's friends whose scores the user is shown. Implemented by
// friends.Service.
type Friends interface {
	IDs(ctx context.Context, user models.RowID) ([]models.RowID, error)
	// Circle is IDs from the memory of the process, complete as of a moment. asOf is zero
	// if the friends were read from Redis or SQL.
	Circle(ctx context.Context, user models.RowID) (ids []models.RowID, asOf time.Time, err error)
	// Friendships returns the friendships with those whom IDs lists.
	Friendships(ctx context.Context, user models.RowID) ([]models.Friendship, error)
	// Since returns the time when two users became friends, zero if they are not, and
	// whether the first one is shown the other's scores.
	Since(ctx context.Context, user, other models.RowID) (since time.Time, shown bool, err error)
}

// FriendLists lists the friends of many users. Implemented by friends.Service.
type FriendLists interface {
	// IDsOf returns Friends.IDs of each of some users, from SQL. Users without any are left
	// out.
	IDsOf(ctx context.Context, users []models.RowID) (map[models.RowID][]models.RowID, error)
}

// Privacy says who is not shown to whom. Implemented by privacy.Service.
type Privacy interface {
	// NotShown returns the users whom a user is not shown because of a choice of either
	// of the two, without those who hide from everybody.
	NotShown(ctx context.Context, user models.RowID) ([]models.RowID, error)
}

// Groups lists the members of groups. Implemented by groups.Service.
type Groups interface {
	// IDs returns the members of a group, the viewer among them. CodeNotFound if the
	// viewer is not a member.
	IDs(ctx context.Context, group models.GroupID, viewer models.RowID) ([]models.RowID, error)
	// Circle is IDs as Friends.Circle.
	Circle(ctx context.Context, group models.GroupID, viewer models.RowID) (ids []models.RowID, asOf time.Time, err error)
	// Shows reports whether two users are members of one group in which the first one is shown
	// the scores of the other.
	Shows(ctx context.Context, viewer, user models.RowID) (bool, error)
}

// Likes counts likes. Implemented by likes.Store.
type Likes interface {
	// Counts returns the likes of users' scores on a day that a viewer is shown. Users without
	// any are left out.
	Counts(
		ctx context.Context, board string, day models.Date, viewer models.RowID, users []models.RowID,
	) (map[models.RowID]models.LikeCount, error)
}

// Directory maps users to their rows and back. Implemented by directory.Service.
type Directory interface {
	// FindOne returns a user's row; 0 if the user does not exist.
	FindOne(ctx context.Context, user models.UserID) (models.RowID, error)
	// Describe fills in the record of each row, by position.
	Describe(ctx context.Context, rows []models.RowID, records []models.PublicRecord) error
}

// Cursors turns the position behind a page into a text for the client, and back.
// Implemented by cursor.Sealer.
type Cursors interface {
	Seal(c models.Cursor, scope ...string) string
	Open(ctx context.Context, text string, scope ...string) (models.Cursor, error)
}

// NearCache holds copies of current buckets. Implemented by nearcache.Cache.
type NearCache interface {
	// Composites fills in the users' composites in a bucket, by position, complete as of a
	// moment. ok is false if Redis is to be asked. No I/O.
	Composites(bucket *models.Bucket, users []models.RowID, composites []models.Composite) (asOf time.Time, ok bool)
	// Fresh reports whether composites as of a moment may still be given as an answer.
	Fresh(asOf time.Time) bool
}

// Service computes rankings. Safe for concurrent use.
type Service struct {
	catalog   *catalog.Catalog
	boards    Boards
	archive   Archive
	friends   Friends
	lists     FriendLists
	privacy   Privacy
	groups    Groups
	directory Directory
	cursors   Cursors
	likes     Likes
	near      NearCache
	// rules say what is shown of scores.
	rules *corrections.Rules
	// corrections is nil if no scores are corrected.
	corrections Corrections
	// whole is nil if Redis never lacks what will be restored.
	whole func(ctx context.Context, bucket *models.Bucket) error
	clock models.Clock
	// friendsHistory is how long before a friendship began an archived day may end that
	// the friends see of each other.
	friendsHistory time.Duration
}

// Options holds what a Service is built on.
type Options struct {
	Catalog *catalog.Catalog
	Boards  Boards
	Archive Archive
	Friends Friends
	// FriendLists is for Digest.
	FriendLists FriendLists
	Privacy     Privacy
	Groups      Groups
	Directory   Directory
	Cursors     Cursors
	Likes       Likes
	// NearCache may be nil.
	NearCache NearCache
	// Rules is nil if no scores are corrected and nobody was erased.
	Rules *corrections.Rules
	// Corrections may be nil.
	Corrections Corrections
	// Whole returns an error while Redis may lack updates of a bucket that will be applied
	// again. It may be nil. One round trip.
	Whole func(ctx context.Context, bucket *models.Bucket) error
	Clock models.Clock
	// HistoryDays is how many days before a friendship began friends see of each other in
	// the archive.
	HistoryDays int
}

// New returns a service.
func New(o Options) *Service {
	if o.Rules == nil {
		o.Rules = corrections.NewRules(new(models.RowSet))
	}
	return &Service{
		catalog: o.Catalog, boards: o.Boards, archive: o.Archive, friends: o.Friends, lists: o.FriendLists, groups: o.Groups, privacy: o.Privacy,
		directory: o.Directory, cursors: o.Cursors, likes: o.Likes, near: o.NearCache, rules: o.Rules, corrections: o.Corrections, whole: o.Whole, clock: o.Clock,
		friendsHistory: time.Duration(o.HistoryDays) * 24 * time.Hour,
	}
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
	return s.rankCircle(ctx, q, friendCircle{s}, "friends", string(q.Viewer))
}

// Group ranks the present members of a group among themselves, at the cost of Friends.
// CodeNotFound if the viewer is not a member.
func (s *Service) Group(ctx context.Context, q Query, group models.GroupID) (*models.Ranking, error) {
	return s.rankCircle(ctx, q, groupCircle{s.groups, group}, "group", string(q.Viewer), string(group))
}

// rankCircle ranks the people of a circle. call and scope identify the list that a cursor
// belongs to.
func (s *Service) rankCircle(ctx context.Context, q Query, people circle, call string, scope ...string) (*models.Ranking, error) {
	for {
		r, err := s.rankExisting(ctx, q, people, call, scope...)
		if err != nil {
			return nil, err
		}
		if len(r.gone) == 0 {
			return r.ranking, nil
		}
		// They were erased after their scores were read.
		people = existing{people, func(user models.RowID) bool { return slices.Contains(r.gone, user) }}
	}
}

// rankExisting is rankCircle as long as nobody is erased. The ranking is valid unless
// somebody is gone.
func (s *Service) rankExisting(ctx context.Context, q Query, people circle, call string, scope ...string) (*request, error) {
	if q.Span != nil {
		return s.rankSpan(ctx, q, people, call, scope...)
	}
	r, err := s.rankOnce(ctx, q, people, s.near, call, scope...)
	if err == nil && !r.asOf.IsZero() && !s.near.Fresh(r.asOf) {
		// Reading the names has taken too long.
		r, err = s.rankOnce(ctx, q, people, nil, call, scope...)
	}
	return r, err
}

// rankOnce computes the ranking of a bucket. near may be nil.
func (s *Service) rankOnce(
	ctx context.Context, q Query, people circle, near NearCache, call string, scope ...string,
) (*request, error) {
	if q.Likes {
		if err := s.requireDays(q.Board); err != nil {
			return nil, err
		}
	}
	r, err := s.resolve(ctx, q, call, scope...)
	if err != nil {
		return nil, err
	}
	if r.bucket == nil {
		// The viewer may not be allowed to see the circle.
		_, _, err := people.near(ctx, r.viewer)
		return r, err
	}
	memory := entriesMemory.Get(0)
	defer entriesMemory.Put(memory)
	entries, err := s.entries(ctx, r, people, near, *memory)
	if err != nil {
		return nil, err
	}
	*memory = entries
	page := Rank(entries, r.viewer, r.after, q.Limit)
	r.ranking.Total, r.leader = int64(page.Total), page.Leader.User
	if page.More {
		s.setNextCursor(r, page.Entries)
	}
	_, err = s.render(ctx, r, page.Entries, int64(page.FirstRank), page.Mine, int64(page.MyRank))
	if err == nil && q.Likes {
		err = s.addLikes(ctx, r, page.Entries)
	}
	return r, err
}

// confirmFinal takes back that a ranking is final if Redis, from which it is about to be read,
// may lack updates: it has been emptied, for example, and what it had is being restored. One
// round trip for a ranking that is final and not archived.
func (s *Service) confirmFinal(ctx context.Context, r *request, bucket *models.Bucket) {
	if r.ranking.Final && s.whole != nil && s.whole(ctx, bucket) != nil {
		r.ranking.Final = false
	}
}

// addLikes adds the likes of the lines of a page and of the viewer's own line.
func (s *Service) addLikes(ctx context.Context, r *request, page []models.Entry) error {
	lines, users := make([]*models.RankedEntry, 0, len(page)+1), make([]models.RowID, 0, len(page)+1)
	for i := range page {
		lines, users = append(lines, &r.ranking.Entries[i]), append(users, page[i].User)
	}
	if r.ranking.Me != nil {
		lines, users = append(lines, r.ranking.Me), append(users, r.viewer)
	}
	if len(users) == 0 {
		return nil
	}
	counts, err := s.likes.Counts(ctx, r.bucket.Board, r.bucket.Day, r.viewer, users)
	if err != nil {
		return err
	}
	for i, line := range lines {
		count := counts[users[i]]
		line.Likes, line.Liked = &count.Likes, &count.Liked
	}
	return nil
}

// Top ranks all users. Those who are not shown to the viewer are anonymous. One round
// trip to Redis; with a viewer three, and a fourth at the same time.
func (s *Service) Top(ctx context.Context, q Query) (*models.Ranking, error) {
	r, err := s.resolve(ctx, q, "top")
	if err != nil {
		return nil, err
	}
	if r.bucket == nil {
		return r.ranking, nil
	}
	at := r.after
	if at.Composite == 0 {
		at = board.Top
	}
	// Read two entries more than the page has: the cursor's own entry, which the
	// previous page has shown, and the first entry of the next page.
	var (
		window board.Window
		mine   userWindow
	)
	err = s.readGlobal(ctx, r, func(from Reader) (err error) {
		if window, err = from.Window(ctx, r.bucket, at, 0, q.Limit+2); err != nil || r.viewer == 0 {
			return err
		}
		mine, err = s.windowAround(ctx, r, from, r.viewer, 0, 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	entries, firstRank := window.Behind, window.Before+1
	if len(entries) > 0 && entries[0] == at {
		entries, firstRank = entries[1:], firstRank+1
	}
	r.ranking.Total = window.Total
	page := entries[:min(len(entries), q.Limit)]
	if len(entries) > len(page) {
		s.setNextCursor(r, page)
	}
	return s.render(ctx, r, page, firstRank, mine.entry, mine.rank)
}

// Around ranks a user's neighbours among all users: radius of them on each side,
// more on one side if the other has fewer. The ranking is empty if the user has
// no score. Those who are not shown to the user are anonymous. Two round trips to Redis,
// and a third at the same time.
func (s *Service) Around(ctx context.Context, q Query, radius int) (*models.Ranking, error) {
	r, err := s.resolve(ctx, q, "around")
	if err != nil {
		return nil, err
	}
	if r.bucket == nil {
		return r.ranking, nil
	}
	var w userWindow
	err = s.readGlobal(ctx, r, func(from Reader) (err error) {
		w, err = s.windowAround(ctx, r, from, r.viewer, 2*radius, 2*radius+1)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.ranking.Total = w.Total
	if w.rank == 0 {
		return r.ranking, nil
	}
	// The number of entries to show before and after the user's own.
	ahead := min(radius, len(w.Ahead))
	behind := min(2*radius-ahead, max(0, len(w.Behind)-1))
	ahead = min(2*radius-behind, len(w.Ahead))
	page := append(w.Ahead[len(w.Ahead)-ahead:len(w.Ahead):len(w.Ahead)], w.Behind[:min(len(w.Behind), behind+1)]...)
	return s.render(ctx, r, page, w.rank-int64(ahead), w.entry, w.rank)
}

// Summary is a user's position in a bucket, among all users and among friends.
// If the user has no score, all fields but the totals and the correction are nil.
type Summary struct {
	Score        *int64
	ReachedAt    *models.Timestamp
	GlobalRank   *int64
	GlobalTotal  int64
	FriendsRank  *int64
	FriendsTotal int64
	Percentile   *float64
	// Correction says what an operator has made of the user's score; nil for nothing.
	Correction *Correction
}

// Me returns the viewer's summary. Four round trips to Redis; one query if the bucket is
// archived.
func (s *Service) Me(ctx context.Context, q Query) (*Summary, error) {
	r, err := s.resolve(ctx, q, "me")
	if err != nil {
		return nil, err
	}
	if r.bucket == nil {
		return &Summary{}, nil
	}
	// Its other numbers are from Redis.
	entries, err := s.entries(ctx, r, friendCircle{s}, nil, nil)
	if err != nil {
		return nil, err
	}
	page := Rank(entries, r.viewer, models.Entry{}, 0)
	var w userWindow
	err = s.read(ctx, r, func(from Reader) (err error) {
		w, err = s.windowAround(ctx, r, from, r.viewer, 0, 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	summary := &Summary{GlobalTotal: w.Total, FriendsTotal: int64(page.Total)}
	if summary.Correction, err = s.correctionOf(ctx, r); err != nil {
		return nil, err
	}
	if page.MyRank == 0 || w.rank == 0 {
		return summary, nil
	}
	points, reachedAt := score.Of(r.bucket).Decode(w.entry.Composite)
	friendsRank, percentile := int64(page.MyRank), Percentile(w.rank, w.Total)
	summary.Score, summary.ReachedAt = &points, &reachedAt
	summary.GlobalRank, summary.FriendsRank = &w.rank, &friendsRank
	summary.Percentile = &percentile
	return summary, nil
}

// Percentile returns 100 × the number of users ranked below ÷ the number of all
// other users, rounded down to 0.1; 100 without other users.
func Percentile(rank, total int64) float64 {
	if total <= 1 {
		return 100
	}
	return float64(1000*(total-rank)/(total-1)) / 10
}
