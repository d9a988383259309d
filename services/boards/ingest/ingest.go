package ingest

import (
	"context"
	"errors"
	"fmt"
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
	Date      models.Date
	Score     int64
	ReachedAt models.Timestamp
}

// Service accepts uploads. Safe for concurrent use.
type Service struct {
	catalog   *catalog.Catalog
	directory models.Ensurer
	writer    *Writer
	clock     models.Clock
}

// New returns a service that hands uploads to a writer.
func New(c *catalog.Catalog, directory models.Ensurer, writer *Writer, clock models.Clock) *Service {
	return &Service{catalog: c, directory: directory, writer: writer, clock: clock}
}

// Queued reports whether accepted updates reach their board some time later.
func (s *Service) Queued() bool { return s.writer.queued }

// Accept takes the valid uploads of a user's call, and returns an error for each of
// the others, with its index: CodeDateClosed, CodeDateInFuture or CodeScoreOutOfRange.
// One call of the writer. If it fails as a whole, none of the uploads is promised to be
// applied.
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
	if err := lanes.Submit(ctx, raises); err != nil {
		return nil, nil, err
	}
	return accepted, rejected, nil
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
