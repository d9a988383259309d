package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/platform/batch"
)

// Upload is a user's own total for a day, as a client reports it.
type Upload struct {
	User models.UserID
	Date models.Date
	// Score is the value that the client sent. Accept and AcceptBatch check it.
	Score int64
}

// Accepted is an upload as it was accepted.
type Accepted struct {
	// Index is the upload's index, from 0.
	Index     int
	Date      models.Date
	Score     int64
	ReachedAt models.Timestamp
	// Held reports whether it counts only once an operator has released it.
	Held bool
}

// HeldTotal is a total above its board's HoldAbove. A call has one for each key, the largest.
type HeldTotal struct {
	HeldKey
	Day   models.Date
	Score int64
}

// HeldKey names a user's day of a board.
type HeldKey struct {
	Bucket string
	User   models.RowID
}

// Compare orders totals by their keys.
func (t HeldTotal) Compare(other HeldTotal) int {
	return cmp.Or(cmp.Compare(t.Bucket, other.Bucket), cmp.Compare(t.User, other.User))
}

// Holds keeps totals until an operator has released them. Implemented by holds.Store.
type Holds interface {
	// Hold stores totals of a board that were uploaded now, each unless a larger one of its key is
	// stored. It returns the keys that are released: their totals are not held and count.
	// CodeUnavailable if SQL is away.
	Hold(ctx context.Context, board string, now models.Timestamp, totals []HeldTotal) (released map[HeldKey]bool, err error)
}

// Service accepts uploads. Safe for concurrent use.
type Service struct {
	catalog   *catalog.Catalog
	directory models.Ensurer
	holds     Holds
	writer    *Writer
	clock     models.Clock
}

// New returns a service that hands uploads to a writer, or to holds.
func New(c *catalog.Catalog, directory models.Ensurer, holds Holds, writer *Writer, clock models.Clock) *Service {
	return &Service{catalog: c, directory: directory, holds: holds, writer: writer, clock: clock}
}

// Queued reports whether accepted updates reach their board some time later.
func (s *Service) Queued() bool { return s.writer.queued }

// Accept takes the valid uploads of a user's call, and returns an error for each of
// the others, with its index: CodeDateClosed, CodeDateInFuture or CodeScoreOutOfRange.
// One call of the writer. If it fails as a whole, none of the uploads is promised to be
// applied. Totals above the board's HoldAbove cost one statement before that, which fails with
// CodeUnavailable while SQL is away.
func (s *Service) Accept(ctx context.Context, board string, uploads []Upload) ([]Accepted, []*ItemError, error) {
	return s.accept(ctx, s.writer.uploads, board, uploads)
}

// AcceptBatch is Accept for a backend's batch, with the uploads of many users.
func (s *Service) AcceptBatch(ctx context.Context, board string, uploads []Upload) ([]Accepted, []*ItemError, error) {
	return s.accept(ctx, s.writer.batches, board, uploads)
}

func (s *Service) accept(ctx context.Context, lanes *batch.Lanes[models.Raise], board string, uploads []Upload) ([]Accepted, []*ItemError, error) {
	b, err := s.catalog.Definitions.Board(board)
	if err != nil {
		return nil, nil, err
	}
	if err := b.RequireDays(); err != nil {
		return nil, nil, err
	}
	now := models.TimestampOf(s.clock())
	open := &openDays{buckets: s.catalog.Buckets, board: b, now: now.Time()}
	raises := make([]models.Raise, 0, len(uploads))
	users := make([]models.UserID, 0, len(uploads))
	accepted := make([]Accepted, 0, len(uploads))
	var rejected []*ItemError
	for i, u := range uploads {
		raise, done, err := check(ctx, open, u, now)
		var known *models.Error
		switch {
		case err == nil:
			done.Index = i
			raises, users, accepted = append(raises, raise), append(users, u.User), append(accepted, done)
		case errors.As(err, &known) && aboutItem(known.Code):
			rejected = append(rejected, &ItemError{Index: i, Err: known})
		default:
			return nil, nil, err
		}
	}
	if len(raises) == 0 {
		return nil, rejected, nil
	}
	if err := s.assignRows(ctx, raises, users); err != nil {
		return nil, nil, err
	}
	if b.HoldAbove > 0 {
		if raises, err = s.hold(ctx, b, raises, accepted, now); err != nil {
			return nil, nil, err
		}
	}
	if len(raises) > 0 {
		if err := lanes.Submit(ctx, raises); err != nil {
			return nil, nil, err
		}
	}
	return accepted, rejected, nil
}

// hold stores the totals above the board's HoldAbove, marks them, and returns the raises of all
// others and of those that are released.
func (s *Service) hold(
	ctx context.Context, b *catalog.Board, raises []models.Raise, accepted []Accepted, now models.Timestamp,
) ([]models.Raise, error) {
	largest := make(map[HeldKey]HeldTotal)
	for i, a := range accepted {
		if a.Score > b.HoldAbove {
			key := HeldKey{raises[i].Bucket.Name, raises[i].User}
			if a.Score > largest[key].Score {
				largest[key] = HeldTotal{key, a.Date, a.Score}
			}
		}
	}
	if len(largest) == 0 {
		return raises, nil
	}
	released, err := s.holds.Hold(ctx, b.Name, now, slices.Collect(maps.Values(largest)))
	if err != nil {
		return nil, err
	}
	counting := raises[:0]
	for i, raise := range raises {
		accepted[i].Held = accepted[i].Score > b.HoldAbove && !released[HeldKey{raise.Bucket.Name, raise.User}]
		if !accepted[i].Held {
			counting = append(counting, raise)
		}
	}
	return counting, nil
}

// aboutItem reports whether an error of this code rejects an upload alone.
func aboutItem(code models.Code) bool {
	return code == models.CodeDateClosed || code == models.CodeDateInFuture || code == models.CodeScoreOutOfRange
}

// assignRows gives each raise the row of its user, and creates users that do not exist.
func (s *Service) assignRows(ctx context.Context, raises []models.Raise, users []models.UserID) error {
	rows, err := s.directory.Ensure(ctx, users...)
	if err != nil {
		return err
	}
	for i, row := range rows {
		raises[i].User = row
	}
	return nil
}

// check applies the rules for one upload: its day is open, and its score is in
// the bucket's range. The raise has no user yet.
func check(ctx context.Context, open *openDays, u Upload, now models.Timestamp) (models.Raise, Accepted, error) {
	bucket, err := open.find(ctx, u.Date)
	if err != nil {
		return models.Raise{}, Accepted{}, err
	}
	if u.Score < 0 || u.Score > bucket.MaxScore {
		return models.Raise{}, Accepted{}, models.Errorf(models.CodeScoreOutOfRange,
			"a score on this board is a whole number from 0 to %d", bucket.MaxScore)
	}
	codec := score.Of(bucket)
	reachedAt := codec.Cut(now)
	composite, err := codec.Encode(bucket.Points(u.Score), reachedAt)
	if err != nil {
		return models.Raise{}, Accepted{}, fmt.Errorf("encode an upload to %s %s: %w", bucket.Board, bucket.Name, err)
	}
	raise := models.Raise{Bucket: bucket, Entry: models.Entry{Composite: composite}}
	return raise, Accepted{Date: u.Date, Score: u.Score, ReachedAt: reachedAt}, nil
}

// openDays finds the buckets of one call's uploads. It remembers the last one,
// because most uploads of a batch are for the same day.
type openDays struct {
	buckets *catalog.Buckets
	board   *catalog.Board
	now     time.Time

	date   models.Date
	bucket *models.Bucket
}

func (o *openDays) find(ctx context.Context, d models.Date) (_ *models.Bucket, err error) {
	if o.bucket == nil || o.date != d {
		o.date = d
		o.bucket, err = o.buckets.ForUpload(ctx, o.board, d, o.now)
	}
	return o.bucket, err
}

// ItemError is an error about one upload of several.
type ItemError struct {
	// Index is the upload's index, from 0.
	Index int
	Err   *models.Error
}
