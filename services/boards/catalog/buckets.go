package catalog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/column"
	"stepboard/internal/reading"
	"stepboard/models"
)

// prepareAhead is how long before its day begins a bucket is made, so that
// uploads go on if Postgres is away at midnight. It is short because an edited
// definition only applies to buckets that are not made yet.
const prepareAhead = 2 * time.Hour

// Buckets finds and makes the buckets of boards. A bucket stays in memory once it was read. Only
// those of events change until they are final, so they are read again with the definitions. Safe
// for concurrent use.
//
// Methods that take updates (ForUpload, ForImport, ForIncrement) make the bucket
// on its first use, and Make makes several. All others only find buckets that exist.
type Buckets struct {
	store *Store
	// boards has the boards of the definitions, by name.
	boards atomic.Pointer[map[string]*Board]
	clock  models.Clock
	// hotDays is how many days after its own a new bucket stays in Redis at least.
	hotDays int
	// cache maps bucketKey to *models.Bucket. It grows by a few hundred bytes
	// for each bucket that is read or written.
	cache sync.Map
	// opened reads buckets that take uploads.
	opened *reading.Shared
}

type bucketKey struct{ board, name string }

// board returns the board of this name, or CodeBoardNotFound.
func (s *Buckets) board(name string) (*Board, error) {
	b, ok := (*s.boards.Load())[name]
	if !ok {
		return nil, models.Errorf(models.CodeBoardNotFound, "there is no board of this name; GET /v1/boards lists them")
	}
	return b, nil
}

// list returns all boards, ordered by name.
func (s *Buckets) list() []*Board {
	return slices.SortedFunc(maps.Values(*s.boards.Load()), func(a, b *Board) int { return strings.Compare(a.Name, b.Name) })
}

// Load returns the bucket of this name, whatever the time. Errors: ErrNoBucket
// if nothing was ever written to it, CodeUnavailable if Postgres must be asked
// and is away. One query the first time, none afterwards.
func (s *Buckets) Load(ctx context.Context, board, name string) (*models.Bucket, error) {
	if bucket, ok := s.cached(board, name); ok {
		return bucket, nil
	}
	bucket, err := s.store.bucket(ctx, board, name)
	if errors.Is(err, ErrNoBucket) {
		return nil, ErrNoBucket
	}
	if err != nil {
		return nil, models.Unavailable("find bucket", err)
	}
	return s.remember(bucket), nil
}

// Current returns the board's current bucket, or the bucket that would be made
// now if it does not exist. A board with a single bucket always has that one. If
// days are each user's own, it is the day at the offset, or CodeOffsetRequired if
// that is not known. No I/O.
//
// An existing bucket decides itself when it begins and ends: once
// the board has another time zone, the definition gives other times, and other names. If two
// buckets are in progress then, the one of the definition's day is current, and
// otherwise the later day.
func (s *Buckets) Current(b *Board, now time.Time, offset models.UTCOffset) (*models.Bucket, error) {
	if !b.local {
		return s.current(b, now), nil
	}
	d, ok := offset.Today(now)
	if !ok {
		return nil, models.Errorf(models.CodeOffsetRequired,
			"the days of %s are each user's own: name a date, or the offset of the user's clock, such as utc_offset=+08:00", b.Name)
	}
	bucket, err := b.kind.bucketForDay(b, d, s.hotDays)
	if err != nil {
		return nil, err
	}
	return s.cachedOr(bucket), nil
}

// CurrentIn is Current for a user whose clock is that of a time zone. It also returns when the bucket
// ends for the user. Only for boards whose buckets are days; CodeBoardKind otherwise. No I/O.
func (s *Buckets) CurrentIn(b *Board, now time.Time, zone *time.Location) (bucket *models.Bucket, ends time.Time, err error) {
	if err := b.RequireDays(); err != nil {
		return nil, time.Time{}, err
	}
	if !b.local {
		bucket = s.current(b, now)
		return bucket, bucket.EndsAt, nil
	}
	day := dayAt(now, zone)
	if bucket, err = b.kind.bucketForDay(b, day, s.hotDays); err != nil {
		return nil, time.Time{}, err
	}
	return s.cachedOr(bucket), startOfDay(day+1, zone), nil
}

// current returns the current bucket of a board with a time zone of its own.
func (s *Buckets) current(b *Board, now time.Time) *models.Bucket {
	bucket := s.propose(b, now)
	if found := s.covering(bucket, now); found != nil {
		return found
	}
	next := s.propose(b, bucket.EndsAt)
	for _, proposed := range []*models.Bucket{s.propose(b, next.EndsAt), next} {
		if found := s.covering(proposed, now); found != nil {
			return found
		}
	}
	for before, day := bucket, 0; day < zoneDays; day++ {
		before = s.propose(b, before.StartsAt.Add(-time.Millisecond))
		if found := s.covering(before, now); found != nil {
			return found
		}
	}
	return s.cachedOr(bucket)
}

// CurrentAndNext returns the buckets that exist, of all boards, which are current or have
// not begun. If days are each user's own, all dates that it is somewhere are current. No
// I/O.
func (s *Buckets) CurrentAndNext(now time.Time) []*models.Bucket {
	var found []*models.Bucket
	for _, b := range s.list() {
		for _, current := range s.currentAnywhere(b, now) {
			if bucket, ok := s.cached(current.Board, current.Name); ok && !now.Before(bucket.StartsAt) {
				found = append(found, bucket)
			}
		}
	}
	s.cache.Range(func(_, v any) bool {
		if bucket := v.(*models.Bucket); now.Before(bucket.StartsAt) {
			found = append(found, bucket)
		}
		return true
	})
	return found
}

// currentAnywhere returns the buckets that Current returns, one for each date that it is
// somewhere on Earth if days are each user's own.
func (s *Buckets) currentAnywhere(b *Board, now time.Time) []*models.Bucket {
	if !b.local {
		return []*models.Bucket{s.current(b, now)}
	}
	var current []*models.Bucket
	newest := models.DateOf(now.UTC().Add(models.FarthestEast))
	for d := models.DateOf(now.UTC().Add(models.FarthestWest)); d <= newest; d++ {
		current = append(current, s.cachedOr(s.propose(b, d.UTC())))
	}
	return current
}

// Resolve returns the bucket of a day, or the current one if d is nil; if it does
// not exist, the bucket that would be made. Errors: CodeDateInFuture if the day
// has not begun, CodeBoardKind if the board's buckets are not days, those of Current
// if d is nil. No I/O; Load reports whether the bucket exists.
func (s *Buckets) Resolve(b *Board, d *models.Date, now time.Time, offset models.UTCOffset) (*models.Bucket, error) {
	if d == nil {
		return s.Current(b, now, offset)
	}
	proposed, err := b.kind.bucketForDay(b, *d, s.hotDays)
	if err != nil {
		return nil, err
	}
	bucket := s.cachedOr(proposed)
	return bucket, checkBegun(bucket, *d, now)
}

// Days returns the buckets of the days from one to another, both included, that have begun,
// oldest first, as Resolve does. exist reports for each whether this process has it in
// memory; if not, it may exist all the same. Errors: those of Resolve for the first day.
// No I/O.
func (s *Buckets) Days(b *Board, from, to models.Date, now time.Time) (days []*models.Bucket, exist []bool, err error) {
	for d := from; d <= to; d++ {
		day, err := s.Resolve(b, &d, now, models.UTCOffset{})
		if models.CodeOf(err) == models.CodeDateInFuture && d > from {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		_, cached := s.cached(day.Board, day.Name)
		days, exist = append(days, day), append(exist, cached)
	}
	return days, exist, nil
}

// Find returns the existing bucket of a day. Errors: those of Resolve and Load.
func (s *Buckets) Find(ctx context.Context, b *Board, d models.Date) (*models.Bucket, error) {
	asked, err := s.Resolve(b, &d, s.clock(), models.UTCOffset{})
	if err != nil {
		return nil, err
	}
	return s.Load(ctx, asked.Board, asked.Name)
}

// ByName returns the bucket that an operator names: a day as YYYY-MM-DD, or
// "event". Errors: CodeValidationFailed or CodeNotFound if no bucket of the
// board can have that name, otherwise those of Find.
func (s *Buckets) ByName(ctx context.Context, b *Board, name string) (*models.Bucket, error) {
	if b.RequireDays() == nil {
		d, err := models.ParseDate(name)
		if err != nil {
			return nil, models.Errorf(models.CodeValidationFailed, "%v", err)
		}
		return s.Find(ctx, b, d)
	}
	only := b.kind.bucketAt(b, time.Time{}, s.hotDays)
	if name != only.Name {
		return nil, models.Errorf(models.CodeNotFound, "the only bucket of %s is %q", b.Name, only.Name)
	}
	return s.Load(ctx, b.Name, name)
}

// Hot returns the buckets of a board that have begun and are not cold yet: those that take
// updates, and those whose last updates may still wait in a queue. CodeUnavailable if
// Postgres is away. One query.
func (s *Buckets) Hot(ctx context.Context, b *Board, now time.Time) ([]*models.Bucket, error) {
	found, err := s.store.hot(ctx, b.Name, now)
	if err != nil {
		return nil, models.Unavailable("find buckets", err)
	}
	return column.Of(found, func(b models.Bucket) *models.Bucket { return s.remember(&b) }), nil
}

// DaysHot returns the largest number of days after its own for which a day of any
// daily board stays in Redis. No I/O.
func (s *Buckets) DaysHot() int {
	longest := s.hotDays
	for _, b := range s.list() {
		longest = max(longest, daysHot(b, s.hotDays))
	}
	return longest
}

// loadOpen loads the buckets of all boards that take uploads, did so a minute ago, or have not
// begun, so that they are in memory when Postgres is away, and so that they decide about
// their days whatever the definition proposes by now. It also loads the events that were not final
// before. One query.
func (s *Buckets) loadOpen(ctx context.Context) error {
	var events []string
	for _, b := range s.list() {
		if event, ok := s.cached(b.Name, eventName); ok && event.FinalAt == nil {
			events = append(events, b.Name)
		}
	}
	open, err := s.store.open(ctx, s.clock().Add(-settles), events)
	if err != nil {
		return err
	}
	for i := range open {
		s.remember(&open[i])
	}
	return nil
}

// prepare makes the board's buckets that are current or will be soon.
func (s *Buckets) prepare(ctx context.Context, b *Board) error {
	now := s.clock()
	soon := now.Add(prepareAhead)
	var failed error
	current, bucket := s.current(b, now), s.propose(b, now)
	if b.local { // the first of the dates that it is somewhere
		bucket = s.propose(b, now.Add(models.FarthestWest))
		current = bucket
	}
	if !current.StartsAt.After(soon) {
		_, failed = s.ensure(ctx, current)
	}
	for {
		next := s.propose(b, bucket.EndsAt)
		if next.Name == bucket.Name || next.StartsAt.After(soon) {
			return failed
		}
		_, err := s.ensure(ctx, next)
		failed = errors.Join(failed, err)
		bucket = next
	}
}

// zoneDays is how many days the dates of two time zones may be apart. Current
// looks as far in both directions.
const zoneDays = 2

// covering returns the cached bucket of the proposed one's name if a moment is in
// it, otherwise nil.
func (s *Buckets) covering(proposed *models.Bucket, now time.Time) *models.Bucket {
	found, ok := s.cached(proposed.Board, proposed.Name)
	if !ok || now.Before(found.StartsAt) || !now.Before(found.EndsAt) {
		return nil
	}
	return found
}

// propose returns the bucket of a moment as the definition would make it. It keeps the last
// one: nearly every request asks for the same day. Days of each user's own overlap, so they
// are not kept.
func (s *Buckets) propose(b *Board, now time.Time) *models.Bucket {
	if last := b.proposed.Load(); last != nil && !now.Before(last.StartsAt) && now.Before(last.EndsAt) {
		return last
	}
	bucket := b.kind.bucketAt(b, now, s.hotDays)
	if !b.local {
		b.proposed.Store(bucket)
	}
	return bucket
}

// ensure makes the proposed bucket unless it exists, and returns the stored one.
func (s *Buckets) ensure(ctx context.Context, proposed *models.Bucket) (*models.Bucket, error) {
	if bucket, ok := s.cached(proposed.Board, proposed.Name); ok {
		return bucket, nil // as for nearly each upload
	}
	made, err := s.Make(ctx, []*models.Bucket{proposed})
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

// cachedOr returns the cached bucket of the proposed one's name, or the proposed
// one.
func (s *Buckets) cachedOr(proposed *models.Bucket) *models.Bucket {
	if bucket, ok := s.cached(proposed.Board, proposed.Name); ok {
		return bucket
	}
	return proposed
}

func (s *Buckets) cached(board, name string) (*models.Bucket, bool) {
	v, ok := s.cache.Load(bucketKey{board, name})
	if !ok {
		return nil, false
	}
	return v.(*models.Bucket), true
}

// remember keeps a bucket that was read, and returns the one to use: an event's with the latest end
// that was read.
func (s *Buckets) remember(bucket *models.Bucket) *models.Bucket {
	key := bucketKey{bucket.Board, bucket.Name}
	for {
		v, _ := s.cache.LoadOrStore(key, bucket)
		known := v.(*models.Bucket)
		if !known.EndsAt.Before(bucket.EndsAt) && (known.FinalAt != nil || bucket.FinalAt == nil) || !bucket.Event() {
			return known
		}
		if s.cache.CompareAndSwap(key, v, bucket) {
			return bucket
		}
	}
}
