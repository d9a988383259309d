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
	refreshEvery = 3 * time.Second
	// refreshTimeout bounds a refresh: a database that hangs must not end it.
	refreshTimeout = 5 * time.Second
	// prepareAhead is how long before its day begins a bucket is made, so that
	// uploads go on when Postgres is away at midnight. It is no longer, because
	// a changed definition takes effect with the next bucket that is made.
	prepareAhead = 2 * time.Hour
)

// Catalog serves definitions and buckets from memory. A bucket never changes,
// so it is cached for good; definitions are read again every few seconds.
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

// DefineMissing is Define for a command beside the service: boards that are stored
// already stay as the service has defined them.
func (c *Catalog) DefineMissing(ctx context.Context, defs []models.Board) error {
	return c.define(ctx, defs, false)
}

func (c *Catalog) define(ctx context.Context, defs []models.Board, update bool) error {
	boards := make([]*Board, len(defs))
	for i, def := range defs {
		b, err := NewBoard(def)
		if err != nil {
			return err
		}
		boards[i] = b
	}
	if err := c.store.define(ctx, boards, update); err != nil {
		return err
	}
	return c.Refresh(ctx)
}

// Add stores the definition of a new board. CodeValidationFailed for one that
// can't be, CodeBoardExists, CodeUnavailable. Other replicas know the board
// within refreshEvery.
func (c *Catalog) Add(ctx context.Context, def models.Board) (*Board, error) {
	b, err := NewBoard(def)
	if err != nil {
		return nil, models.Errorf(models.CodeValidationFailed, "%v", err)
	}
	added, err := c.store.add(ctx, b.Board)
	if err != nil {
		return nil, models.Unavailable("store board", err)
	}
	if !added {
		return nil, models.Errorf(models.CodeBoardExists, "there is a board %s already; GET /v1/admin/boards/%s shows it", def.Name, def.Name)
	}
	if err := c.Refresh(ctx); err != nil {
		return nil, models.Unavailable("load board", err)
	}
	return c.Board(def.Name)
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
// up those before that still take updates, so that they are at hand when
// Postgres is not; those are not made before somebody writes to them.
func (c *Catalog) prepare(ctx context.Context, b *Board) error {
	now := c.clock()
	var failed error
	for bucket := c.at(b, now); !bucket.StartsAt.After(now.Add(prepareAhead)); {
		_, err := c.ensure(ctx, bucket)
		failed = errors.Join(failed, err)
		next := c.at(b, bucket.EndsAt)
		if next.Name == bucket.Name {
			break
		}
		bucket = next
	}
	for bucket := c.at(b, now); ; {
		before := c.at(b, bucket.StartsAt.Add(-time.Millisecond))
		if before.Name == bucket.Name || before.Final(now) {
			return failed
		}
		if _, err := c.Bucket(ctx, b.Name, before.Name); err != nil && !errors.Is(err, ErrNoBucket) {
			failed = errors.Join(failed, err)
		}
		bucket = before
	}
}

// at is the bucket of a moment as the definition would make it.
func (c *Catalog) at(b *Board, now time.Time) *models.Bucket { return b.kind.at(b, now, c.hotDays) }

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

// Current is the board's current bucket, or what that would be made as; of a
// board with a single bucket that one, whenever it is. A bucket that exists
// decides when it begins and ends: after a change of the zone the definition
// says otherwise. No I/O.
func (c *Catalog) Current(b *Board, now time.Time) *models.Bucket {
	bucket := c.at(b, now)
	for _, t := range []time.Time{now, bucket.StartsAt.Add(-time.Millisecond), bucket.EndsAt} {
		found, ok := c.cached(b.Name, c.at(b, t).Name)
		if ok && !now.Before(found.StartsAt) && now.Before(found.EndsAt) {
			return found
		}
	}
	return c.known(bucket)
}

// known is the bucket that exists in the place of a proposed one, as far as
// memory tells.
func (c *Catalog) known(proposed *models.Bucket) *models.Bucket {
	if bucket, ok := c.cached(proposed.Board, proposed.Name); ok {
		return bucket
	}
	return proposed
}

// Resolve is the bucket that a reader asks for, or what it would be made as: of
// a day, or the current one where that is nil. CodeDateInFuture for a day that
// has not begun, CodeBoardKind where the board has no days. No I/O; Stored
// tells whether it exists.
func (c *Catalog) Resolve(b *Board, d *models.Date, now time.Time) (*models.Bucket, error) {
	if d == nil {
		return c.Current(b, now), nil
	}
	proposed, err := b.kind.on(b, *d, c.hotDays)
	if err != nil {
		return nil, err
	}
	bucket := c.known(proposed)
	return bucket, begun(bucket, *d, now)
}

// Load is the bucket that exists in the place of what Asked has answered:
// ErrNoBucket where nothing was ever written to it, CodeUnavailable where
// Postgres must be asked and is away. From memory once the bucket was seen,
// one query otherwise.
func (c *Catalog) Load(ctx context.Context, asked *models.Bucket) (*models.Bucket, error) {
	return c.Bucket(ctx, asked.Board, asked.Name)
}

// Find is Asked and Stored for a day.
func (c *Catalog) Find(ctx context.Context, b *Board, d models.Date) (*models.Bucket, error) {
	asked, err := c.Resolve(b, &d, c.clock())
	if err != nil {
		return nil, err
	}
	return c.Load(ctx, asked)
}

// ByName is the bucket that an operator names: a day as YYYY-MM-DD, or "event".
// CodeValidationFailed or CodeNotFound where no bucket of the board can have
// that name; otherwise as of Find.
func (c *Catalog) ByName(ctx context.Context, b *Board, name string) (*models.Bucket, error) {
	proposed, err := b.kind.named(b, name, c.hotDays)
	if err != nil {
		return nil, err
	}
	if d := b.Date(proposed); d != nil {
		return c.Find(ctx, b, *d)
	}
	return c.Load(ctx, proposed)
}

// HasDays is nil where the board's buckets are days, CodeBoardKind otherwise.
func (c *Catalog) HasDays(b *Board) error {
	_, err := b.kind.on(b, 0, c.hotDays)
	return err
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
	return c.remember(bucket), nil
}

func begun(bucket *models.Bucket, d models.Date, now time.Time) error {
	if now.Before(bucket.StartsAt) {
		return models.Errorf(models.CodeDateInFuture, "%v has not begun on this board", d)
	}
	return nil
}

// ForUpload is the day's bucket for a total accepted now; it is made on its
// first use. CodeDateInFuture or CodeDateClosed where it takes none,
// CodeBoardKind where the board takes increments, CodeUnavailable where
// Postgres must be asked and is away. From memory once the bucket was seen,
// two queries otherwise.
func (c *Catalog) ForUpload(ctx context.Context, b *Board, d models.Date, now time.Time) (*models.Bucket, error) {
	proposed, err := b.kind.on(b, d, c.hotDays)
	if err != nil {
		return nil, err
	}
	// Whether the day is open is asked before the row is made, so that refused
	// dates leave no rows behind.
	if err := accepts(c.known(proposed), d, now); err != nil {
		return nil, err
	}
	bucket, err := c.ensure(ctx, proposed)
	if err != nil {
		return nil, err
	}
	return bucket, accepts(bucket, d, now)
}

// ForIncrement is where increments count that are accepted now. CodeBoardNotFound;
// CodeBoardKind where the board takes none; CodeEventNotOpen, with the slot
// all the same, outside an event's time; CodeUnavailable where Postgres must
// be asked and is away. From memory once the bucket was seen, two queries
// otherwise.
func (c *Catalog) ForIncrement(ctx context.Context, board string, now time.Time) (models.TotalRange, error) {
	b, err := c.Board(board)
	if err != nil {
		return models.TotalRange{}, err
	}
	proposed := c.at(b, now)
	if slot, err := b.kind.totals(c.known(proposed), now); err != nil {
		return slot, err
	}
	bucket, err := c.ensure(ctx, proposed)
	if err != nil {
		return models.TotalRange{}, err
	}
	return b.kind.totals(bucket, now)
}

// TotalRanges lists where the running totals of increments may be missing from
// Redis: a slot for every board that takes increments, once its bucket exists
// and until the archive must have had it. CodeUnavailable where Postgres must be asked and is away.
func (c *Catalog) TotalRanges(ctx context.Context, now time.Time) ([]models.TotalRange, error) {
	return c.totalRanges(ctx, now, func(k kind, bucket *models.Bucket) (models.TotalRange, bool) {
		slot, err := k.totals(bucket, now)
		return slot, models.CodeOf(err) != models.CodeBoardKind && now.Before(bucket.ColdAt.Add(archiveGrace))
	})
}

// ExpiredTotals lists the running totals that nobody asks for any more, where
// increments are kept for so long: of each slot those from Since to Total.
// Errors as of Slots.
func (c *Catalog) ExpiredTotals(ctx context.Context, now time.Time, retain time.Duration) ([]models.TotalRange, error) {
	return c.totalRanges(ctx, now, func(k kind, bucket *models.Bucket) (models.TotalRange, bool) { return k.expired(bucket, now, retain) })
}

func (c *Catalog) totalRanges(ctx context.Context, now time.Time, slotOf func(kind, *models.Bucket) (models.TotalRange, bool)) ([]models.TotalRange, error) {
	var slots []models.TotalRange
	for _, b := range c.Boards() {
		proposed := c.at(b, now)
		if _, ok := slotOf(b.kind, proposed); !ok {
			continue
		}
		bucket, err := c.Load(ctx, proposed)
		if errors.Is(err, ErrNoBucket) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if slot, ok := slotOf(b.kind, bucket); ok {
			slots = append(slots, slot)
		}
	}
	return slots, nil
}

// ForTotal is the bucket that a running total raises; ErrNoBucket for one that
// raises none. Otherwise as of Bucket.
func (c *Catalog) ForTotal(ctx context.Context, board, total string) (*models.Bucket, error) {
	b, err := c.Board(board)
	if err != nil {
		return nil, err
	}
	name := b.kind.raised(total)
	if name == "" {
		return nil, ErrNoBucket
	}
	return c.Bucket(ctx, board, name)
}

// FirstDay is the first that can be imported: there is no older step count,
// and every store counts from here.
const FirstDay models.Date = 0

// ForImport is the day's bucket for an import: today or any day before it, whether
// or not uploads for it are closed. Errors as of Accepting.
func (c *Catalog) ForImport(ctx context.Context, b *Board, d models.Date, now time.Time) (*models.Bucket, error) {
	proposed, err := b.kind.on(b, d, c.hotDays)
	switch {
	case err != nil:
		return nil, err
	case d > b.Today(now):
		return nil, models.Errorf(models.CodeDateInFuture, "%v has not begun on this board", d)
	case d < FirstDay:
		return nil, models.Errorf(models.CodeDateClosed, "days before %v are not kept", FirstDay)
	}
	return c.ensure(ctx, proposed)
}

// accepts is the rule of when a bucket takes updates: from its start until
// its window for late uploads closes.
func accepts(bucket *models.Bucket, d models.Date, now time.Time) error {
	if err := begun(bucket, d, now); err != nil {
		return err
	}
	if !bucket.Open(now) {
		return models.Errorf(models.CodeDateClosed, "uploads for %v closed at %s", d,
			bucket.ClosesAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// ensure makes the proposed bucket unless it exists, and keeps what stands
// there then, which may be another replica's.
func (c *Catalog) ensure(ctx context.Context, proposed *models.Bucket) (*models.Bucket, error) {
	if bucket, ok := c.cached(proposed.Board, proposed.Name); ok {
		return bucket, nil
	}
	bucket, err := c.store.ensure(ctx, *proposed)
	if err != nil {
		return nil, models.Unavailable("make bucket", err)
	}
	return c.remember(bucket), nil
}

func (c *Catalog) cached(board, name string) (*models.Bucket, bool) {
	v, ok := c.buckets.Load(bucketKey{board, name})
	if !ok {
		return nil, false
	}
	return v.(*models.Bucket), true
}

func (c *Catalog) remember(bucket *models.Bucket) *models.Bucket {
	v, _ := c.buckets.LoadOrStore(bucketKey{bucket.Board, bucket.Name}, bucket)
	return v.(*models.Bucket)
}
