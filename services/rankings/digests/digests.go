// Package digests tells users once a day, by way of the app's backend, how their day goes: at
// the time of jobs.digest_cron it writes outcomes with the place, the score, the leader and the
// likes of each user who has a score.
//
// A row of digests is a board's day. The job takes the next batchUsers by row id, ranks those
// with a score among their friends, and writes their lines as one outcome in the transaction
// that moves last_user ahead. So after a crash it goes on with the first user who has got none,
// and nobody gets two. It reads readUsers and their friends at a time, friends from SQL and
// scores from Redis, and pauses after each read for restTimes times as long as the read took.
package digests

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/ranking"
)

const (
	// batchUsers is how many users are worked on in one transaction, and named by one outcome
	// at most.
	batchUsers = 500
	// readUsers is how many users' friends are read at once.
	readUsers = 50
	// restTimes is how many times as long as a read took the work pauses after it, in favor of
	// everybody who looks at a ranking at that time. So it does when digests are sent.
	restTimes = 4
)

// Service writes digests. Safe for concurrent use.
type Service struct {
	o Options
	// since is when the oldest unfinished digest began, when Run last looked.
	since atomic.Value // of time.Time; zero if all are finished
}

// Options holds what a Service is built on.
type Options struct {
	Store    *Store
	Catalog  *catalog.Catalog
	Rankings *ranking.Service
	Likes    *likes.Store
	Clock    models.Clock
	Log      *slog.Logger
}

// New returns a service.
func New(o Options) *Service { return &Service{o: o} }

// Since returns when the oldest unfinished digest began, when Run last looked; the zero time if all
// were finished.
func (s *Service) Since() time.Time {
	since, _ := s.since.Load().(time.Time)
	return since
}

// Run begins the digests that are due and works on all that are not finished, until they are or
// ctx ends. It returns how many users have got one. due returns when the digest of a day is due,
// given the midnight at which the day begins. It pauses after each read, so that it takes a fifth
// of the stores' time at most.
func (s *Service) Run(ctx context.Context, due func(midnight time.Time) time.Time) (users int64, err error) {
	var failed []error
	for _, board := range s.o.Catalog.Definitions.Boards() {
		if board.RequireDays() == nil {
			failed = append(failed, s.begin(ctx, board, due))
		}
	}
	open, err := s.o.Store.open(ctx)
	failed = append(failed, err)
	s.since.Store(time.Time{})
	if len(open) > 0 {
		s.since.Store(open[0].StartedAt)
	}
	for i := range open {
		n, err := s.finish(ctx, &open[i])
		users += n
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return users, err
	}
	s.since.Store(time.Time{})
	return users, nil
}

// begin begins the digest of a board's present day if it is due and has not begun. The days of
// boards whose days are local are those of UTC.
func (s *Service) begin(ctx context.Context, board *catalog.Board, due func(time.Time) time.Time) error {
	now := s.o.Clock()
	day := board.Today(now)
	date := day.UTC()
	midnight := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, board.Zone())
	if due(midnight).After(now) {
		return nil
	}
	return s.o.Store.begin(ctx, models.Digest{Board: board.Name, Day: day, StartedAt: now.UTC()})
}

// finish works on a digest until it is finished, and returns how many users have got one.
func (s *Service) finish(ctx context.Context, d *models.Digest) (users int64, err error) {
	bucket, err := s.bucket(ctx, d)
	if err != nil {
		return 0, fmt.Errorf("digest of %s on %s: %w", d.Board, d.Day, err)
	}
	failpoint.Hit("digest.begun")
	for bucket != nil {
		n, more, err := s.batch(ctx, d, bucket)
		users += n
		if err != nil {
			return users, fmt.Errorf("digest of %s on %s: %w", d.Board, d.Day, err)
		}
		if !more {
			break
		}
	}
	failpoint.Hit("digest.written")
	return users, s.o.Store.finish(ctx, d, s.o.Clock().UTC())
}

// bucket returns the bucket of a digest; nil if nobody has a score in it, or if it is so old
// that nobody wants to hear of it.
func (s *Service) bucket(ctx context.Context, d *models.Digest) (*models.Bucket, error) {
	board, err := s.o.Catalog.Definitions.Board(d.Board)
	if err != nil {
		return nil, err
	}
	bucket, err := s.o.Catalog.Buckets.Find(ctx, board, d.Day)
	if errors.Is(err, catalog.ErrNoBucket) {
		return nil, nil //nolint:nilnil // a day without scores is no error
	}
	if err == nil && bucket.Cold(s.o.Clock()) {
		s.o.Log.WarnContext(ctx, "a digest was given up because its day is cold", "board", d.Board, "day", d.Day.String())
		return nil, nil //nolint:nilnil // likewise
	}
	return bucket, err
}

// batch works on the next users of a digest, and reports whether there may be more.
func (s *Service) batch(ctx context.Context, d *models.Digest, bucket *models.Bucket) (written int64, more bool, err error) {
	users, err := s.o.Store.next(ctx, d.LastUser, batchUsers)
	if err != nil || len(users) == 0 {
		return 0, false, err
	}
	var lines []models.DigestLine
	for chunk := range slices.Chunk(users, readUsers) {
		began := time.Now()
		some, err := s.o.Rankings.Digest(ctx, bucket, chunk)
		if err != nil {
			return 0, false, err
		}
		lines = append(lines, some...)
		if err := pause.After(ctx, began, restTimes); err != nil {
			return 0, false, err
		}
	}
	if err := s.addLikes(ctx, d, lines); err != nil {
		return 0, false, err
	}
	d.LastUser = users[len(users)-1]
	d.Users += int64(len(lines))
	if err := s.o.Store.write(ctx, d, lines); err != nil {
		return 0, false, err
	}
	failpoint.Hit("digest.committed")
	return int64(len(lines)), len(users) == batchUsers, nil
}

// addLikes sets the likes of each line.
func (s *Service) addLikes(ctx context.Context, d *models.Digest, lines []models.DigestLine) error {
	if len(lines) == 0 {
		return nil
	}
	users := column.Of(lines, func(line models.DigestLine) models.RowID { return line.User })
	counts, err := s.o.Likes.OwnCounts(ctx, d.Board, d.Day, users)
	if err != nil {
		return err
	}
	for i := range lines {
		lines[i].Likes = counts[lines[i].User].Likes
	}
	return nil
}
