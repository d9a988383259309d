package corrections

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/score"
)

const (
	// RefreshEvery is how often Refresh should be called: the longest time until a process
	// notices what another has decided.
	RefreshEvery = 3 * time.Second
	// refreshTimeout bounds a refresh, so that a database that hangs does not stop all
	// later ones.
	refreshTimeout = 5 * time.Second
	// applyTimeout bounds how long a call waits until Redis has its correction. The job
	// applies it otherwise.
	applyTimeout = 2 * time.Second
)

// Options holds what a Service is built on.
type Options struct {
	Store *Store
	// Rules are told of the corrections.
	Rules   *Rules
	Catalog *catalog.Catalog
	Entries board.Entries
	Archive *archive.Service
	// Ledger has the running totals of event and rolling boards, which are what was
	// reported.
	Ledger    *ledger.Reconciler
	Directory models.Finder
	Clock     models.Clock
	Log       *slog.Logger
}

// Service makes, lifts and applies corrections. Safe for concurrent use.
type Service struct {
	o Options
	// loading is held while the snapshot is read and replaced, so that an older one never
	// replaces a newer one.
	loading sync.Mutex
	stats   Stats
}

// New returns a service that knows no corrections before Refresh.
func New(o Options) *Service { return &Service{o: o} }

// Request asks for a correction.
type Request struct {
	Board string
	// Date is the day. An exclusion without one holds from today until it is lifted. Event
	// and rolling boards have none.
	Date *models.Date
	User models.UserID
	Kind models.CorrectionKind
	// Score is that of CorrectionSet; nil otherwise. It must not rank before the user's score.
	Score *int64
	// Reason and Actor say why, and by whom it is made.
	Reason string
	Actor  string
	// Message is what the user is told; may be empty.
	Message string
	// DryRun stores nothing: the result is what would be stored, without an id.
	DryRun bool
}

// Entry is a correction as operators see it.
type Entry struct {
	models.Correction
	// Score and BeforeScore are those of Points and BeforePoints; nil without them.
	Score, BeforeScore *int64 `gorm:"-"`
	// UserID and Nickname are empty if the user no longer exists.
	UserID   models.UserID `gorm:"column:external_id"`
	Nickname string
	// Pending reports whether the archive has yet to apply it, or its lifting.
	Pending bool
	// Days reports whether the board has days. Otherwise the correction is about its only
	// bucket, whose Day means nothing to operators.
	Days bool
}

// Create stores a correction and applies it. This process shows it at once, others within
// 3 seconds, and global lists within 10. If the bucket is archived, it is pending until a
// job has ranked the bucket anew.
//
// Errors: CodeBoardNotFound, CodeUserNotFound, CodeDateInFuture; CodeNotFound if nothing
// was ever reported for the day or the event; CodeBoardKind if a date is given and the board
// has no days, or a score of a rolling board is to be set, which changes by the hour;
// CodeCorrectionRaises if the score would rank before the user's; CodeCorrectionExists if
// another correction of the user's score in the bucket, or in one of the buckets, holds;
// CodeValidationFailed; CodeUnavailable if a store is away or the bucket is being archived.
func (s *Service) Create(ctx context.Context, r Request) (Entry, error) {
	if err := r.check(); err != nil {
		return Entry{}, err
	}
	b, err := s.o.Catalog.Definitions.Board(r.Board)
	if err != nil {
		return Entry{}, err
	}
	propose := s.propose
	if b.RequireDays() != nil {
		propose = s.proposeWithoutDays
	}
	c, bucket, err := propose(ctx, b, r)
	if err != nil {
		return Entry{}, err
	}
	if c.User, err = s.o.Directory.FindOne(ctx, r.User); err != nil {
		return Entry{}, err
	}
	if c.User == 0 {
		return Entry{}, models.Errorf(models.CodeUserNotFound, "there is no user of this id")
	}
	if err := s.compare(ctx, c, r.Score, bucket); err != nil {
		return Entry{}, err
	}
	entry := Entry{UserID: r.User, Days: b.RequireDays() == nil}
	entry.Pending, err = s.o.Store.create(ctx, c, r.DryRun)
	if err != nil {
		return Entry{}, models.Public("store a correction", err)
	}
	if !r.DryRun {
		failpoint.Hit("corrections.created")
		s.learn(ctx, *c)
	}
	entry.Correction = *c
	entry.setScores(bucket)
	return entry, nil
}

// setScores sets the scores of an entry, which has none if there is no bucket.
func (e *Entry) setScores(bucket *models.Bucket) {
	e.Score, e.BeforeScore = scoreOf(bucket, e.Points), scoreOf(bucket, e.BeforePoints)
}

func scoreOf(bucket *models.Bucket, points *models.Points) *int64 {
	if bucket == nil || points == nil {
		return nil
	}
	return new(bucket.Score(*points))
}

// check returns an error unless the fields of the request fit together.
func (r *Request) check() error {
	switch {
	case r.Kind != models.CorrectionSet && r.Kind != models.CorrectionExclude:
		return models.Invalid("body.kind", "must be set or exclude")
	case r.Kind == models.CorrectionSet && r.Score == nil:
		return models.Invalid("body.score", "set needs the score")
	case r.Kind == models.CorrectionSet && *r.Score < 0:
		return models.Invalid("body.score", "must be 0 or more")
	case r.Kind == models.CorrectionExclude && r.Score != nil:
		return models.Invalid("body.score", "exclude takes no score")
	case r.Reason == "":
		return models.Invalid("body.reason", "must say why")
	case !models.IsPlainText(r.Message) || utf8.RuneCountInString(r.Message) > models.MaxMessage:
		return models.Invalid("body.message", "is at most 200 characters of plain text, without line breaks")
	case r.Actor == "":
		return models.Errorf(models.CodeValidationFailed, "a correction needs an actor: the token's sub")
	}
	return models.CheckPlainText("body.reason", r.Reason)
}

// correction returns the correction that a request asks for, without its bucket and points.
func (r *Request) correction(now time.Time) *models.Correction {
	return &models.Correction{
		Board: r.Board, Kind: r.Kind, Reason: r.Reason, Actor: r.Actor, Message: r.Message, CreatedAt: models.TimestampOf(now).Time(),
	}
}

// propose returns the correction that a request asks for on a board of days, and the bucket
// of its day; nil if that does not exist.
func (s *Service) propose(ctx context.Context, b *catalog.Board, r Request) (*models.Correction, *models.Bucket, error) {
	if r.Kind == models.CorrectionSet && r.Date == nil {
		return nil, nil, models.Invalid("body.date", "set needs the day")
	}
	now := s.o.Clock()
	c := r.correction(now)
	c.Day = b.EarliestToday(now)
	if r.Date != nil {
		c.Day = *r.Date
	}
	bucket, err := s.o.Catalog.Buckets.Find(ctx, b, c.Day)
	if errors.Is(err, catalog.ErrNoBucket) {
		if r.Date != nil {
			return nil, nil, models.Errorf(models.CodeNotFound, "nothing was ever reported for %v on this board", c.Day)
		}
		return c, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if r.Date != nil {
		c.Bucket = &bucket.Name
	}
	return c, bucket, nil
}

// proposeWithoutDays is propose for an event or rolling board, whose only bucket it returns.
func (s *Service) proposeWithoutDays(
	ctx context.Context, b *catalog.Board, r Request,
) (*models.Correction, *models.Bucket, error) {
	if r.Date != nil {
		return nil, nil, b.RequireDays()
	}
	now := s.o.Clock()
	proposed, err := s.o.Catalog.Buckets.Resolve(b, nil, now, models.UTCOffset{})
	if err != nil {
		return nil, nil, err
	}
	if proposed.WindowHours > 0 && r.Kind == models.CorrectionSet {
		return nil, nil, models.Errorf(models.CodeBoardKind,
			"a score of %s can't be set, because it changes by the hour: exclude the user instead", b.Name)
	}
	bucket, err := s.o.Catalog.Buckets.Load(ctx, proposed.Board, proposed.Name)
	if errors.Is(err, catalog.ErrNoBucket) {
		return nil, nil, models.Errorf(models.CodeNotFound, "nothing was ever counted on this board")
	}
	if err != nil {
		return nil, nil, err
	}
	c := r.correction(now)
	c.Bucket, c.Day = &bucket.Name, bucket.Day
	return c, bucket, nil
}

// compare sets the entry before the correction, and the entry that replaces it if a score is set.
// CodeCorrectionRaises if the score would rank before the user's.
func (s *Service) compare(ctx context.Context, c *models.Correction, set *int64, bucket *models.Bucket) error {
	if bucket == nil {
		return nil
	}
	before, err := s.reported(ctx, bucket, c.User)
	if err != nil {
		return err
	}
	codec := score.Of(bucket)
	points, at := codec.Decode(before)
	if before != 0 {
		reachedAt := at.Time()
		c.BeforePoints, c.BeforeAt = &points, &reachedAt
	}
	if c.Kind != models.CorrectionSet {
		return nil
	}
	if *set > bucket.MaxScore && bucket.Order == models.OrderLow {
		return models.Invalid("body.score", "is at most "+strconv.FormatInt(bucket.MaxScore, 10))
	}
	c.Points = new(bucket.Points(*set))
	if before == 0 || *c.Points > points {
		does, had := "only lowers a score", "has no score"
		if bucket.Order == models.OrderLow {
			does = "only raises a score on this board"
		}
		if before != 0 {
			had = "has " + strconv.FormatInt(bucket.Score(points), 10)
		}
		return models.Errorf(models.CodeCorrectionRaises, "a correction %s, and the user %s", does, had).At("body.score")
	}
	// The time of the correction, unless the bucket was closed by then, or the clock of the
	// process that took the report was ahead.
	last := bucket.ClosesAt
	if bucket.Event() {
		last = bucket.EndsAt
	}
	reachedAt := min(models.TimestampOf(c.CreatedAt), models.TimestampOf(last)-1)
	if *c.Points == points {
		reachedAt = max(reachedAt, at)
	}
	cut := codec.Cut(reachedAt).Time()
	c.ReachedAt = &cut
	return nil
}

// reported returns the best of what a user has reported for a bucket, corrected or not; 0
// for nothing.
func (s *Service) reported(ctx context.Context, bucket *models.Bucket, user models.RowID) (models.Composite, error) {
	archived, err := s.o.Archive.Complete(ctx, bucket)
	if err != nil {
		return 0, err
	}
	var best models.Composite
	var sources []func(context.Context, *models.Bucket, []models.RowID) ([]models.Composite, error)
	switch {
	case archived:
		sources = append(sources, s.o.Archive.Composites, s.o.Store.reportedBy)
	case bucket.FromLedger:
		sources = append(sources, s.o.Ledger.Composites)
	default:
		sources = append(sources, s.o.Entries.Composites, s.o.Entries.Reported)
	}
	for _, read := range sources {
		composites, err := read(ctx, bucket, []models.RowID{user})
		if err != nil {
			return 0, err
		}
		best = max(best, composites[0])
	}
	return best, nil
}

// Known is what the stores know of a user's score in a bucket of a day beside what counts.
type Known struct {
	// Correction is the one that holds; nil if none does.
	Correction *models.Correction
	// Reported is the best of what the user has reported that waits, or is kept apart; 0 for nothing.
	// The board or the archive may have better.
	Reported models.Composite
}

// Apply returns what counts of a composite of the bucket, which is 0 for none.
func (k *Known) Apply(bucket *models.Bucket, composite models.Composite) models.Composite {
	if k.Correction == nil {
		return composite
	}
	return compositeOf(k.Correction, bucket)
}

// Known reads what is known of a user's score in a bucket of a day. Two queries, and one round trip
// to Redis, or a query. CodeUnavailable.
func (s *Service) Known(ctx context.Context, bucket *models.Bucket, user models.RowID) (k Known, err error) {
	if k.Correction, k.Reported, err = s.o.Store.known(ctx, bucket, user); err != nil {
		return Known{}, models.Public("read corrections of a score", err)
	}
	stored, err := s.o.Entries.Stored(ctx, []*models.Bucket{bucket}, user)
	for _, e := range stored {
		k.Reported = max(k.Reported, e.Composite)
	}
	return k, err
}

// Lifting asks for the end of a correction.
type Lifting struct {
	ID int64
	// Reason and Actor say why, and by whom it is lifted.
	Reason string
	Actor  string
	// DryRun stores nothing.
	DryRun bool
}

// Lift ends a correction: what was reported counts again. It takes effect as Create does.
// A correction that was lifted before stays as it is. CodeNotFound if there is none of
// this id, CodeValidationFailed, CodeUnavailable as for Create.
func (s *Service) Lift(ctx context.Context, l Lifting) (Entry, error) {
	switch {
	case l.Reason == "":
		return Entry{}, models.Invalid("body.reason", "must say why")
	case l.Actor == "":
		return Entry{}, models.Errorf(models.CodeValidationFailed, "lifting a correction needs an actor: the token's sub")
	}
	if err := models.CheckPlainText("body.reason", l.Reason); err != nil {
		return Entry{}, err
	}
	c, err := s.o.Store.find(ctx, l.ID)
	if err != nil {
		return Entry{}, models.Public("read a correction", err)
	}
	today := c.Day
	if b, err := s.o.Catalog.Definitions.Board(c.Board); err == nil {
		today = max(today, b.Today(s.o.Clock()))
	}
	entry, lifted, err := s.o.Store.lift(ctx, c.Correction, l, models.TimestampOf(s.o.Clock()).Time(), today)
	if err != nil {
		return Entry{}, models.Public("lift a correction", err)
	}
	if lifted && !l.DryRun {
		failpoint.Hit("corrections.lifted")
		s.learn(ctx, entry.Correction)
	}
	entry.Days = s.hasDays(entry.Board)
	return entry, nil
}

// hasDays reports whether a board has days, or is not defined any more.
func (s *Service) hasDays(board string) bool {
	b, err := s.o.Catalog.Definitions.Board(board)
	return err != nil || b.RequireDays() == nil
}

// learn adds a correction to what this process knows, and applies it to Redis. The caller
// may have gone; the job applies it if this fails.
func (s *Service) learn(ctx context.Context, c models.Correction) {
	s.loading.Lock()
	s.o.Rules.snapshot.Store(s.o.Rules.snapshot.Load().with(c))
	s.loading.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTimeout)
	defer cancel()
	if _, err := s.apply(ctx, []models.Correction{c}); err != nil {
		s.o.Log.WarnContext(ctx, "a correction is stored and is applied to Redis later", "id", c.ID, "error", err)
	}
}

// Return moves the exclusions that are kept of an erased user to the row under which the user id
// has returned, and applies them. They take effect as those of Create do. It may be repeated. One
// query, and what Create costs for each.
func (s *Service) Return(ctx context.Context, from, to models.RowID) error {
	moved, err := s.o.Store.move(ctx, from, to)
	for _, c := range moved {
		s.learn(ctx, c)
	}
	return err
}

// Query selects a page of corrections, newest first.
type Query struct {
	// Board and User filter the list; empty selects all.
	Board string
	User  models.UserID
	// Day selects those that concern a day; nil selects all.
	Day *models.Date
	// Active selects those that hold.
	Active bool
	// Before is the id of the last correction of the page before; 0 begins at the newest.
	Before int64
	Limit  int
}

// List returns a page of corrections. One query.
func (s *Service) List(ctx context.Context, q Query) ([]Entry, error) {
	if q.Day != nil && *q.Day < catalog.FirstDay { // not every database can represent such a date
		return nil, nil
	}
	list, err := s.o.Store.list(ctx, q)
	if err != nil {
		return nil, models.Unavailable("list corrections", err)
	}
	for i := range list {
		list[i].Days = s.hasDays(list[i].Board)
	}
	return list, nil
}
