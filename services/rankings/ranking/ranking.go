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
// those are read in one round trip to Redis. A summary adds up the history of maxHistoryDays in the
// process.
package ranking

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/holds"
	"stepboard/services/people/groups"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/cursor"
)

// Reader reads buckets from one store.
type Reader interface {
	Composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error)
	Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error)
}

// Entries are those of buckets in Redis. Implemented by board.Store.
type Entries interface {
	Reader
	// CompositesOf is Composites of several buckets, by position, in one round trip.
	CompositesOf(ctx context.Context, buckets []*models.Bucket, users []models.RowID) ([][]models.Composite, error)
	Positions(ctx context.Context, buckets []*models.Bucket, user models.RowID) ([]board.Position, error)
	// CompositesAndPosition is Composites of some users and Positions of one, together.
	CompositesAndPosition(
		ctx context.Context, bucket *models.Bucket, users []models.RowID, user models.RowID,
	) ([]models.Composite, board.Position, error)
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

// Friends lists a user's friends, most of its methods those whose scores the user is shown. Implemented
// by friends.Service.
type Friends interface {
	IDs(ctx context.Context, user models.RowID) ([]models.RowID, error)
	// Circle is IDs from the memory of the process, complete as of a moment. asOf is zero
	// if the friends were read from Redis or SQL.
	Circle(ctx context.Context, user models.RowID) (ids []models.RowID, asOf time.Time, err error)
	// Everybody returns a user's friends, ascending, and which of them IDs lists, without those whom
	// the user has muted. One query.
	Everybody(ctx context.Context, user models.RowID) ([]models.CirclePerson, error)
	// Since returns the time when two users became friends, zero if they are not, and
	// whether the first one is shown the other's scores.
	Since(ctx context.Context, user, other models.RowID) (since time.Time, shown bool, err error)
	// IDsOf returns IDs of each of some users, from SQL. Users without any are left out.
	IDsOf(ctx context.Context, users []models.RowID) (map[models.RowID][]models.RowID, error)
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

// NearCache holds copies of current buckets. Implemented by nearcache.Cache.
type NearCache interface {
	// Composites fills in the users' composites in a bucket, by position, complete as of a
	// moment. ok is false if Redis is to be asked. No I/O.
	Composites(bucket *models.Bucket, users []models.RowID, composites []models.Composite) (asOf time.Time, ok bool)
	// Window is Reader.Window as of a moment, likewise.
	Window(bucket *models.Bucket, at models.Entry, back, forward int) (w board.Window, asOf time.Time, ok bool)
	// Fresh reports whether composites as of a moment may still be given as an answer.
	Fresh(asOf time.Time) bool
}

// Options holds what a Service is built on.
type Options struct {
	Catalog   *catalog.Catalog
	Entries   Entries
	Archive   Archive
	Friends   Friends
	Privacy   *privacy.Service
	Groups    *groups.Service
	Directory Directory
	Cursors   *cursor.Sealer
	Likes     Likes
	// NearCache may be nil.
	NearCache NearCache
	// Rules is nil if no scores are corrected and nobody was erased.
	Rules *corrections.Rules
	// Corrections may be nil.
	Corrections *corrections.Service
	// Holds may be nil if no board has a HoldAbove.
	Holds *holds.Service
	// Whole returns an error while Redis may lack updates of a bucket that will be applied
	// again. It may be nil. One round trip.
	Whole func(ctx context.Context, bucket *models.Bucket) error
	Clock models.Clock
	// HistoryDays is how many days before a friendship began friends see of each other in
	// the archive.
	HistoryDays int
}

// Service computes rankings. Safe for concurrent use.
type Service struct {
	o       Options
	answers map[string]*Answers // by list
}

// New returns a service.
func New(o Options) *Service {
	if o.Rules == nil {
		o.Rules = corrections.NewRules(new(models.RowSet))
	}
	s := &Service{o, make(map[string]*Answers)}
	for _, list := range Lists {
		s.answers[list] = new(Answers)
	}
	return s
}
