// Package holds keeps uploaded totals above their board's hold_above out of the rankings until an
// operator has released them: against accidents, such as a car's day that a phone took for steps.
//
// A held total is a row of table held_scores and nowhere else: neither the queue nor the boards nor
// the archive see it. A user has one row for a bucket, with the largest total. Releasing it commits
// the decision first. Then the total goes to the writer of uploads with its own time, as if it had
// been uploaded then, and a job repeats that until the writer has taken it. Totals that the user
// uploads later go to the writer at once.
package holds

import (
	"context"
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/score"
)

const (
	// writeChunk is how many released totals are handed to the writer at once.
	writeChunk = 1000
	// writeTimeout bounds how long a decision waits until the writer has the total. The job
	// repeats it otherwise.
	writeTimeout = 2 * time.Second
	// readTimeout bounds how long an answer to a decision waits for what counts then.
	readTimeout = time.Second
	// maxReason is how many characters the reason of a decision may have.
	maxReason = 500
)

// Options holds what a Service is built on.
type Options struct {
	Store   *Store
	Catalog *catalog.Catalog
	// Entries, Archive and Rules say what counts now.
	Entries   board.Reader
	Archive   *archive.Service
	Rules     *corrections.Rules
	Directory models.Directory
	// Write is the writer of uploads. It returns an error for each raise, nil for those that it has
	// taken, or nil.
	Write func(ctx context.Context, raises []models.Raise) []error
	// RetainMonths is how many months the archive keeps; 0 for all. Holds go with them.
	RetainMonths int
	Clock        models.Clock
	Log          *slog.Logger
}

// Service lists and decides holds, and hands released totals to the writer. Safe for concurrent use.
type Service struct{ o Options }

// New returns a service.
func New(o Options) *Service { return &Service{o} }

// Query selects a page of holds, newest first.
type Query struct {
	State models.HoldState
	// Board and User filter the list; empty selects all.
	Board string
	User  models.UserID
	// Before is the id of the last hold of the page before; 0 begins at the newest.
	Before int64
	Limit  int
}

// List returns a page of holds. Two queries and one round trip to Redis, and a query for each bucket
// that is not archived or that this process does not know. CodeValidationFailed for another state, CodeUnavailable.
func (s *Service) List(ctx context.Context, q Query) ([]models.Hold, error) {
	if q.State != models.HoldOpen && q.State != models.HoldRejected && q.State != models.HoldReleased {
		return nil, models.Invalid("query.state", "is open, rejected or released")
	}
	var user models.RowID
	if q.User != "" {
		var err error
		if user, err = s.o.Directory.FindOne(ctx, q.User); err != nil || user == 0 {
			return nil, err
		}
	}
	page, err := s.o.Store.list(ctx, q, user, s.firstKept())
	if err != nil {
		return nil, models.Unavailable("list holds", err)
	}
	return page, s.complete(ctx, page)
}

// firstKept returns the first day whose holds are kept.
func (s *Service) firstKept() models.Date {
	if s.o.RetainMonths == 0 {
		return catalog.FirstDay
	}
	return archive.FirstKept(s.o.Clock(), s.o.RetainMonths)
}

// complete sets what is not stored of holds.
func (s *Service) complete(ctx context.Context, list []models.Hold) error {
	rows := column.Of(list, func(h models.Hold) models.RowID { return h.Row })
	records, err := s.o.Directory.Records(ctx, rows)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].User, list[i].Nickname = records[i].User, records[i].Nickname
	}
	return s.setCounting(ctx, list)
}

// source reads the scores of a store.
type source interface {
	CompositesBefore(ctx context.Context, raises []models.Raise) ([]models.Composite, error)
}

// setCounting sets the scores that are shown now of the users of holds.
func (s *Service) setCounting(ctx context.Context, list []models.Hold) error {
	asked, at := make(map[bool][]models.Raise), make(map[bool][]int) // by whether the archive has the bucket
	complete := make(map[*models.Bucket]bool)
	for i := range list {
		raise, err := s.raise(ctx, &list[i])
		if err != nil {
			return err
		}
		archived, known := complete[raise.Bucket]
		if !known {
			if archived, err = s.o.Archive.Complete(ctx, raise.Bucket); err != nil {
				return err
			}
			complete[raise.Bucket] = archived
		}
		asked[archived], at[archived] = append(asked[archived], raise), append(at[archived], i)
	}
	for archived, raises := range asked {
		from := source(s.o.Entries)
		if archived {
			from = s.o.Archive
		}
		composites, err := from.CompositesBefore(ctx, raises)
		if err != nil {
			return models.Public("read scores", err)
		}
		for n, r := range raises {
			if !archived {
				s.o.Rules.Show(r.Bucket, []models.RowID{r.User}, composites[n:n+1])
			}
			if composites[n] != 0 {
				points, _ := score.Of(r.Bucket).Decode(composites[n])
				list[at[archived][n]].Counting = new(r.Bucket.Score(points))
			}
		}
	}
	return nil
}

// raise returns the update that an upload of the held total would have been.
func (s *Service) raise(ctx context.Context, h *models.Hold) (models.Raise, error) {
	bucket, err := s.o.Catalog.Buckets.Load(ctx, h.Board, h.Bucket)
	if err != nil {
		return models.Raise{}, models.Public("read the bucket of a hold", err)
	}
	codec := score.Of(bucket)
	composite, err := codec.Encode(bucket.Points(h.Score), codec.Cut(models.TimestampOf(h.ReachedAt)))
	return models.Raise{Bucket: bucket, Entry: models.Entry{User: h.Row, Composite: composite}}, models.Wrap("encode a held total", err)
}

// Decision is what an operator decides about a hold.
type Decision struct {
	ID int64
	// State is HoldReleased or HoldRejected.
	State models.HoldState
	// Score is the total that the operator has looked at.
	Score int64
	// Reason is for operators, 1 to 500 characters; Message is for the user, at most 200.
	Reason, Message string
	By              models.UserID
	// DryRun changes nothing.
	DryRun bool
}

// Decide releases or rejects a hold and returns it. A hold that is in this state already stays as
// it is. A released total counts at once if the writer can be reached, or else once the job has
// handed it over; WrittenAt is nil until then. Counting is nil if it can't be read.
//
// Errors: CodeNotFound; CodeHoldChanged if the total is another one by now, or if one that was
// released is rejected: it counts, and may only be corrected; CodeValidationFailed; CodeUnavailable.
func (s *Service) Decide(ctx context.Context, d Decision) (models.Hold, error) {
	if err := d.check(); err != nil {
		return models.Hold{}, err
	}
	h, err := s.o.Store.find(ctx, d.ID, s.firstKept())
	if err != nil {
		return h, err
	}
	if err := d.against(h); err != nil {
		return h, err
	}
	if h.State != d.State {
		now := models.TimestampOf(s.o.Clock()).Time()
		h.State, h.DecidedAt, h.DecidedBy, h.Reason, h.Message = d.State, &now, d.By, d.Reason, d.Message
		if !d.DryRun {
			if h, err = s.decide(ctx, d, h); err != nil {
				return h, err
			}
		}
	}
	list := []models.Hold{h}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.complete(ctx, list); err != nil { // the decision stands
		s.o.Log.WarnContext(ctx, "what counts can't be read after a decision about a held total", "id", h.ID, "error", err)
	}
	return list[0], nil
}

// decide stores a decision and hands a released total over.
func (s *Service) decide(ctx context.Context, d Decision, h models.Hold) (models.Hold, error) {
	stored, err := s.o.Store.decide(ctx, h)
	if err != nil {
		return h, err
	}
	if stored && d.State == models.HoldReleased {
		failpoint.Hit("holds.released")
		// The caller may have gone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		if err := s.write(ctx, []models.Hold{h}); err != nil {
			s.o.Log.WarnContext(ctx, "a held total is released and is written later", "id", h.ID, "error", err)
		}
	}
	// Another decision, or a larger total, may have come before this one.
	if h, err = s.o.Store.find(ctx, d.ID, s.firstKept()); err == nil && !stored {
		err = d.against(h)
	}
	return h, err
}

// against returns CodeHoldChanged if a decision is not about the hold as it is.
func (d *Decision) against(h models.Hold) error {
	switch {
	case h.Score != d.Score:
		return models.Errorf(models.CodeHoldChanged, "the held total is %d: look at it again", h.Score).At("body.score")
	case h.State == models.HoldReleased && d.State != models.HoldReleased:
		return models.Errorf(models.CodeHoldChanged, "the total was released and counts: correct the score instead")
	default:
		return nil
	}
}

// check returns CodeValidationFailed unless the texts can be stored and shown.
func (d *Decision) check() error {
	switch {
	case d.Reason == "":
		return models.Invalid("body.reason", "must say why")
	case !models.IsPlainText(d.Reason) || utf8.RuneCountInString(d.Reason) > maxReason:
		return models.Invalid("body.reason", "is at most 500 characters of UTF-8 without control characters and line breaks")
	case !models.IsPlainText(d.Message) || utf8.RuneCountInString(d.Message) > models.MaxMessage:
		return models.Invalid("body.message", "is at most 200 characters of UTF-8 without control characters and line breaks")
	case d.By == "":
		return models.Errorf(models.CodeValidationFailed, "a decision needs an actor: the token's sub")
	default:
		return nil
	}
}

// write hands released totals to the writer, and records which of them it has taken. Handing one
// over again changes nothing.
func (s *Service) write(ctx context.Context, released []models.Hold) error {
	raises := make([]models.Raise, len(released))
	for i := range released {
		var err error
		if raises[i], err = s.raise(ctx, &released[i]); err != nil {
			return err
		}
	}
	errs := s.o.Write(ctx, raises)
	failpoint.Hit("holds.written")
	var ids []int64
	for i, h := range released {
		if errs == nil || errs[i] == nil {
			ids = append(ids, h.ID)
		}
	}
	return errors.Join(errors.Join(errs...), s.o.Store.written(ctx, ids, s.o.Clock().UTC()))
}

// Write hands released totals to the writer that it has not taken yet, and returns how many they
// were. It may be repeated. One query without any; a query, a write and a statement for each
// thousand.
func (s *Service) Write(ctx context.Context) (written int64, err error) {
	for {
		released, err := s.o.Store.unwritten(ctx, s.firstKept(), writeChunk)
		if err != nil || len(released) == 0 {
			return written, err
		}
		if err := s.write(ctx, released); err != nil {
			return written, err
		}
		written += int64(len(released))
	}
}

// Purge deletes the holds of days whose month the archive has dropped, and returns their number.
func (s *Service) Purge(ctx context.Context) (deleted int64, err error) {
	if s.o.RetainMonths == 0 {
		return 0, nil
	}
	return s.o.Store.delete(ctx, "day < ?", s.firstKept())
}

// Waiting is what waits for an operator on a board.
type Waiting struct {
	Open int64
	// Oldest is how long ago the first of the open totals was held; 0 without any.
	Oldest time.Duration
}

// Waiting returns what waits of each board that has open holds or a HoldAbove. One query.
func (s *Service) Waiting(ctx context.Context) (map[string]Waiting, error) {
	waiting, err := s.o.Store.waiting(ctx, s.o.Clock(), s.firstKept())
	if err != nil {
		return nil, err
	}
	for _, b := range s.o.Catalog.Definitions.Boards() {
		if _, ok := waiting[b.Name]; !ok && b.HoldAbove > 0 {
			waiting[b.Name] = Waiting{}
		}
	}
	return waiting, nil
}

// Of returns the hold of a user in a bucket, in whatever state; nil for none. Its time is cut to the
// bucket's resolution, as scores are. One query. CodeUnavailable.
func (s *Service) Of(ctx context.Context, bucket *models.Bucket, user models.RowID) (*models.Hold, error) {
	h, err := s.o.Store.of(ctx, bucket, user)
	if h != nil {
		h.ReachedAt = score.Of(bucket).Cut(models.TimestampOf(h.ReachedAt)).Time()
	}
	return h, err
}
