package catalog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/models"
)

const (
	// refreshEvery bounds how long a definition or a new day goes unnoticed.
	refreshEvery = 10 * time.Second
	// refreshTimeout bounds a refresh: a database that hangs must not end it.
	refreshTimeout = 5 * time.Second
	// prepareAhead is how long before its day begins a bucket is made, so that
	// uploads go on when Postgres is away at midnight. It is no longer, because
	// a changed definition takes effect with the next bucket that is made.
	prepareAhead = 2 * time.Hour
)

// Catalog serves definitions and buckets from memory. A bucket never changes,
// so it is cached for good; definitions are read again every ten seconds.
// Safe for concurrent use.
type Catalog struct {
	store *Store
	clock models.Clock
	// hotDays is how many days after its own a new bucket stays in Redis.
	hotDays int
	log     *slog.Logger
	boards  atomic.Pointer[map[string]*Board]
	// buckets maps bucketKey to *models.Bucket. It grows by a few hundred bytes
	// for each bucket that is read or written.
	buckets sync.Map
}

type bucketKey struct{ board, name string }

// New makes an empty catalog; Define fills it. Buckets that it makes stay in
// Redis for hotDays days after their own.
func New(store *Store, clock models.Clock, hotDays int, log *slog.Logger) *Catalog {
	c := &Catalog{store: store, clock: clock, hotDays: hotDays, log: log}
	c.boards.Store(&map[string]*Board{})
	return c
}

// Define stores the definitions of a service's settings, each checked before
// any is stored, and loads the catalog. A definition that can't be is an error
// that names it. Boards that are stored but not among the given ones stay as
// they are.
func (c *Catalog) Define(ctx context.Context, defs []models.Board) error {
	return c.define(ctx, defs, true)
}

// Introduce is Define for a command beside the service: boards that are stored
// already stay as the service has defined them.
func (c *Catalog) Introduce(ctx context.Context, defs []models.Board) error {
	return c.define(ctx, defs, false)
}

func (c *Catalog) define(ctx context.Context, defs []models.Board, update bool) error {
	for _, def := range defs {
		if _, err := NewBoard(def); err != nil {
			return err
		}
	}
	if err := c.store.define(ctx, defs, update); err != nil {
		return err
	}
	return c.Refresh(ctx)
}

// Refresh reads the definitions again and makes the buckets that are current
// or about to be. Two queries, and two more for each bucket that is new. It is
// given up after refreshTimeout.
func (c *Catalog) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	stored, err := c.store.boards(ctx)
	if err != nil {
		return err
	}
	known := *c.boards.Load()
	boards := make(map[string]*Board, len(stored))
	for _, def := range stored {
		b, err := NewBoard(def)
		if err != nil {
			// A newer replica may define what this one does not know.
			c.log.WarnContext(ctx, "a board's definition can't be used here; it stays as it was", "board", def.Name, "error", err)
			b = known[def.Name]
		}
		if b != nil {
			boards[b.Name] = b
		}
	}
	c.boards.Store(&boards)
	var failed error
	for _, b := range boards {
		failed = errors.Join(failed, c.prepare(ctx, b))
	}
	return failed
}

// prepare makes the board's buckets that are current or about to be, and looks
// up those that still take uploads, so that they are at hand when Postgres is
// not; those are not made before somebody uploads to them.
func (c *Catalog) prepare(ctx context.Context, b *Board) error {
	now := c.clock()
	today := b.Today(now)
	var failed error
	for d := today; d <= b.Today(now.Add(prepareAhead)); d++ {
		_, err := c.ensure(ctx, b, d)
		failed = errors.Join(failed, err)
	}
	for d := today - lateDays; d < today; d++ {
		if _, err := c.Find(ctx, b, d); err != nil && !errors.Is(err, ErrNoBucket) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// Run refreshes the catalog until ctx ends. A failed refresh is logged and
// tried again; until then the catalog serves what it knows.
func (c *Catalog) Run(ctx context.Context) {
	ticker := time.NewTicker(refreshEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
				c.log.WarnContext(ctx, "the board catalog could not be refreshed", "error", err)
			}
		}
	}
}

// Board finds a definition; CodeBoardNotFound where there is none. No I/O.
func (c *Catalog) Board(name string) (*Board, error) {
	b, ok := (*c.boards.Load())[name]
	if !ok {
		return nil, models.Errorf(models.CodeBoardNotFound, "there is no board of this name; GET /v1/boards lists them")
	}
	return b, nil
}

// Boards lists the definitions by name. No I/O.
func (c *Catalog) Boards() []*Board {
	boards := *c.boards.Load()
	list := make([]*Board, 0, len(boards))
	for _, b := range boards {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b *Board) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Zones lists the zones of the boards, each once. No I/O.
func (c *Catalog) Zones() []*time.Location {
	var zones []*time.Location
	for _, b := range c.Boards() {
		if !slices.ContainsFunc(zones, func(z *time.Location) bool { return z.String() == b.zone.String() }) {
			zones = append(zones, b.zone)
		}
	}
	return zones
}

// Current is the board's current day with its bucket, or what that would be
// made as. A bucket that exists decides when its day begins and ends: after a
// change of the zone the definition says otherwise. No I/O.
func (c *Catalog) Current(b *Board, now time.Time) (models.Date, *models.Bucket) {
	today := b.Today(now)
	for _, d := range []models.Date{today, today - 1, today + 1} {
		if bucket, ok := c.cached(b.Name, dailyName(d)); ok && !now.Before(bucket.StartsAt) && now.Before(bucket.EndsAt) {
			return d, bucket
		}
	}
	if bucket, ok := c.cached(b.Name, dailyName(today)); ok {
		return today, bucket
	}
	return today, dailyBucket(b, today, c.hotDays)
}

// Find is the day's bucket for reading: ErrNoBucket where nothing was ever
// written to it, CodeDateInFuture for a day that has not begun,
// CodeUnavailable where Postgres must be asked and is away. From memory once
// the bucket was seen, one query otherwise.
func (c *Catalog) Find(ctx context.Context, b *Board, d models.Date) (*models.Bucket, error) {
	if bucket, ok := c.cached(b.Name, dailyName(d)); ok {
		return bucket, c.begun(bucket.StartsAt, d)
	}
	if err := c.begun(startOfDay(d, b.zone), d); err != nil {
		return nil, err
	}
	return c.Bucket(ctx, b.Name, dailyName(d))
}

// Bucket is a bucket by its name, whatever the time: ErrNoBucket where there
// is none, CodeUnavailable where Postgres must be asked and is away. From
// memory once the bucket was seen, one query otherwise.
func (c *Catalog) Bucket(ctx context.Context, board, name string) (*models.Bucket, error) {
	if bucket, ok := c.cached(board, name); ok {
		return bucket, nil
	}
	bucket, err := c.store.bucket(ctx, board, name)
	if errors.Is(err, ErrNoBucket) {
		return nil, ErrNoBucket
	}
	if err != nil {
		return nil, models.Unavailable("find bucket", err)
	}
	return c.keep(bucket), nil
}

func (c *Catalog) begun(start time.Time, d models.Date) error {
	if c.clock().Before(start) {
		return models.Errorf(models.CodeDateInFuture, "%v has not begun on this board", d)
	}
	return nil
}

// Accepting is the day's bucket for an update accepted now; it is made on its
// first use. CodeDateInFuture or CodeDateClosed where it takes no updates,
// CodeUnavailable where Postgres must be asked and is away. From memory once
// the bucket was seen, two queries otherwise.
func (c *Catalog) Accepting(ctx context.Context, b *Board, d models.Date, now time.Time) (*models.Bucket, error) {
	bucket, ok := c.cached(b.Name, dailyName(d))
	if !ok {
		proposed := dailyBucket(b, d, c.hotDays)
		// Whether the day is open is asked before the row is made, so that
		// refused dates leave no rows behind.
		if err := accepts(proposed, d, now); err != nil {
			return nil, err
		}
		var err error
		if bucket, err = c.make(ctx, proposed); err != nil {
			return nil, err
		}
	}
	if err := accepts(bucket, d, now); err != nil {
		return nil, err
	}
	return bucket, nil
}

// firstDay is the first that can be imported: there is no older step count,
// and every store counts from here.
const firstDay models.Date = 0

// Past is the day's bucket for an import: today or any day before it, whether
// or not uploads for it are closed. Errors as of Accepting.
func (c *Catalog) Past(ctx context.Context, b *Board, d models.Date, now time.Time) (*models.Bucket, error) {
	switch {
	case d > b.Today(now):
		return nil, models.Errorf(models.CodeDateInFuture, "%v has not begun on this board", d)
	case d < firstDay:
		return nil, models.Errorf(models.CodeDateClosed, "days before %v are not kept", firstDay)
	}
	return c.ensure(ctx, b, d)
}

// accepts is the rule of when a bucket takes updates: from its start until
// its window for late uploads closes.
func accepts(bucket *models.Bucket, d models.Date, now time.Time) error {
	switch {
	case now.Before(bucket.StartsAt):
		return models.Errorf(models.CodeDateInFuture, "%v has not begun on this board", d)
	case !bucket.Open(now):
		return models.Errorf(models.CodeDateClosed, "uploads for %v closed at %s", d,
			bucket.ClosesAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// ensure makes the day's bucket unless it exists.
func (c *Catalog) ensure(ctx context.Context, b *Board, d models.Date) (*models.Bucket, error) {
	if bucket, ok := c.cached(b.Name, dailyName(d)); ok {
		return bucket, nil
	}
	return c.make(ctx, dailyBucket(b, d, c.hotDays))
}

// make stores the proposed bucket and keeps what stands there then, which may
// be another replica's.
func (c *Catalog) make(ctx context.Context, proposed *models.Bucket) (*models.Bucket, error) {
	bucket, err := c.store.ensure(ctx, *proposed)
	if err != nil {
		return nil, models.Unavailable("make bucket", err)
	}
	return c.keep(bucket), nil
}

func (c *Catalog) cached(board, name string) (*models.Bucket, bool) {
	v, ok := c.buckets.Load(bucketKey{board, name})
	if !ok {
		return nil, false
	}
	return v.(*models.Bucket), true
}

func (c *Catalog) keep(bucket *models.Bucket) *models.Bucket {
	v, _ := c.buckets.LoadOrStore(bucketKey{bucket.Board, bucket.Name}, bucket)
	return v.(*models.Bucket)
}
