// Package ingest accepts score updates: it checks them against the board and
// its open days, stamps them with the server's time, and hands them on. An
// update that was accepted is applied, whatever happens to its client.
package ingest

import (
	"context"
	"fmt"
	"time"

	"stepboard/models"
	"stepboard/services/catalog"
	"stepboard/services/score"
)

// Upload is a user's own total for a day, as a client reports it.
type Upload struct {
	User models.UserID
	Date models.Date
	// Score is whatever the client sent; Accept checks it.
	Score int64
}

// Accepted is an upload that was taken.
type Accepted struct {
	Date      models.Date
	Score     int64
	ReachedAt models.Timestamp
}

// Writer takes updates that were accepted. A nil error is the promise that they
// are kept.
type Writer interface {
	Submit(ctx context.Context, raises []models.Raise) error
}

// Service accepts uploads. Safe for concurrent use.
type Service struct {
	catalog     *catalog.Catalog
	writer      Writer
	batchWriter Writer
	queued      bool
	clock       models.Clock
}

// New makes a service that hands what it accepts to a sink, and batches to
// another: both lead to the boards, or to a queue before them where queued is
// set.
func New(c *catalog.Catalog, sink, batches Writer, queued bool, clock models.Clock) *Service {
	return &Service{catalog: c, writer: sink, batchWriter: batches, queued: queued, clock: clock}
}

// Queued reports whether what is accepted reaches its board some time later.
func (s *Service) Queued() bool { return s.queued }

// Accept takes all uploads or none: every one is checked before any is handed
// on, and the error points at the first that is wrong. One call of the sink.
func (s *Service) Accept(ctx context.Context, board string, uploads []Upload) ([]Accepted, error) {
	b, err := s.catalog.Definitions.Board(board)
	if err != nil {
		return nil, err
	}
	now := models.TimestampOf(s.clock())
	open := &openDays{buckets: s.catalog.Buckets, board: b, now: now.Time()}
	raises := make([]models.Raise, len(uploads))
	accepted := make([]Accepted, len(uploads))
	for i, u := range uploads {
		if raises[i], accepted[i], err = check(ctx, open, u, now); err != nil {
			return nil, &ItemError{Index: i, Err: err}
		}
	}
	if err := s.writer.Submit(ctx, raises); err != nil {
		return nil, err
	}
	return accepted, nil
}

// AcceptValid takes the uploads that are right and answers for the others, by
// their position. One call of the sink. An error means that nothing was
// promised for any of them.
func (s *Service) AcceptValid(ctx context.Context, board string, uploads []Upload) ([]*ItemError, error) {
	b, err := s.catalog.Definitions.Board(board)
	if err != nil {
		return nil, err
	}
	if err := b.RequireDays(); err != nil {
		return nil, err
	}
	now := models.TimestampOf(s.clock())
	open := &openDays{buckets: s.catalog.Buckets, board: b, now: now.Time()}
	raises := make([]models.Raise, 0, len(uploads))
	var rejected []*ItemError
	for i, u := range uploads {
		raise, _, err := check(ctx, open, u, now)
		if models.CodeOf(err) == models.CodeUnavailable {
			return nil, err
		}
		if err != nil {
			rejected = append(rejected, &ItemError{Index: i, Err: err})
			continue
		}
		raises = append(raises, raise)
	}
	if len(raises) == 0 {
		return rejected, nil
	}
	if err := s.batchWriter.Submit(ctx, raises); err != nil {
		return nil, err
	}
	return rejected, nil
}

// check is the rule for one upload: an open day and a score that its bucket
// takes.
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
	composite, err := codec.Encode(u.Score, reachedAt)
	if err != nil {
		return models.Raise{}, Accepted{}, fmt.Errorf("encode an upload to %s %s: %w", bucket.Board, bucket.Name, err)
	}
	raise := models.Raise{Bucket: bucket, Entry: models.Entry{User: u.User, Composite: composite}}
	return raise, Accepted{Date: u.Date, Score: u.Score, ReachedAt: reachedAt}, nil
}

// openDays finds the buckets of one call's uploads. It remembers the last one:
// most uploads of a batch are for the same day.
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

// ItemError is what is wrong with one upload of several.
type ItemError struct {
	// Index is the upload's position, from 0.
	Index int
	Err   error
}

// Error names the position.
func (e *ItemError) Error() string { return fmt.Sprintf("upload %d: %v", e.Index, e.Err) }

// Unwrap gives what is wrong.
func (e *ItemError) Unwrap() error { return e.Err }
