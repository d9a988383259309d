package board

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

// localChunk is how many entries change while a bucket is locked, so that readers wait for less
// than a millisecond.
const localChunk = 256

// Local keeps buckets in the memory of the only process that serves them: each in a table by user
// and an order list. What was reported for days is in HotScores before anybody sees it, and Load
// reads it back. Events and rolling boards come from the ledger, which has them. So memory may be
// lost at any time.
//
// There are no shards here, no late and no reported entries: HotScores has the largest composite
// that a user has reported for a day, whatever became of it, and the bucket in memory what is
// shown of it.
type Local struct {
	buckets *sync.Map // from bucketKey to *localBucket; shared by copies with other clocks
	hot     *HotScores
	clock   models.Clock
	routes  Routes
}

type bucketKey struct{ board, name string }

// localBucket holds the entries of a bucket.
type localBucket struct {
	mu sync.RWMutex
	// shown are the entries that readers see; in a rolling bucket the sums.
	shown flat
	// hours has the totals of each hour of a rolling bucket, and latest is the latest hour
	// that it has seen.
	hours  map[models.Hour]*flat
	latest models.Hour
}

// NewLocal returns empty buckets. If routes is nil, all updates go to the boards.
func NewLocal(hot *HotScores, clock models.Clock, routes Routes) *Local {
	return &Local{buckets: new(sync.Map), hot: hot, clock: clock, routes: routes}
}

// With returns the same buckets with another clock and other routes.
func (l *Local) With(clock models.Clock, routes Routes) *Local {
	return &Local{buckets: l.buckets, hot: l.hot, clock: clock, routes: routes}
}

// EntriesAt implements Writer.
func (l *Local) EntriesAt(moment time.Time) Entries { return l.at(moment) }

func (l *Local) at(moment time.Time) *Local {
	return l.With(func() time.Time { return moment }, l.routes)
}

// Server implements Entries. There is one, without a name.
func (l *Local) Server(context.Context, models.Raise) string { return "" }

// stored returns a bucket, or nil if nothing was raised in it.
func (l *Local) stored(bucket *models.Bucket) *localBucket {
	b, _ := l.buckets.Load(bucketKey{bucket.Board, bucket.Name})
	stored, _ := b.(*localBucket)
	return stored
}

// find returns a bucket to read or to lower, an empty one if nothing was raised in it.
func (l *Local) find(bucket *models.Bucket) *localBucket {
	if b := l.stored(bucket); b != nil {
		return b
	}
	return &localBucket{}
}

// ensure returns a bucket to raise, and adds it if nothing was raised in it.
func (l *Local) ensure(bucket *models.Bucket) *localBucket {
	if b := l.stored(bucket); b != nil {
		return b
	}
	b, _ := l.buckets.LoadOrStore(bucketKey{bucket.Board, bucket.Name}, &localBucket{hours: make(map[models.Hour]*flat)})
	return b.(*localBucket)
}

// Drop forgets a bucket that was archived. What is raised in it from then on waits in HotScores.
func (l *Local) Drop(bucket *models.Bucket) { l.buckets.Delete(bucketKey{bucket.Board, bucket.Name}) }

// Settle moves what waits to table hot_scores, where the archive reads it.
func (l *Local) Settle(ctx context.Context) error {
	return models.Public("settle scores", l.hot.settle(ctx))
}

// Load shows what HotScores has of the buckets that are not archived, as if it had been reported
// before they turned cold. It is called before anything is served. A query for the buckets, and one
// for each hotPage scores.
func (l *Local) Load(ctx context.Context) error {
	buckets, err := l.hot.buckets(ctx, false)
	if err != nil {
		return err
	}
	for _, bucket := range buckets {
		then := l.at(bucket.StartsAt)
		err := l.hot.each(ctx, bucket, func(entries []models.Entry) error {
			then.show(raisesOf(bucket, entries))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read calls fn with what a bucket shows.
func (l *Local) read(bucket *models.Bucket, fn func(*flat)) {
	b := l.find(bucket)
	b.mu.RLock()
	defer b.mu.RUnlock()
	fn(&b.shown)
}

// Composites implements Entries.
func (l *Local) Composites(_ context.Context, bucket *models.Bucket, users []models.RowID) (composites []models.Composite, err error) {
	l.read(bucket, func(f *flat) { composites = f.ofAll(users) })
	return composites, nil
}

// CompositesOf implements Entries.
func (l *Local) CompositesOf(ctx context.Context, buckets []*models.Bucket, users []models.RowID) ([][]models.Composite, error) {
	lists := make([][]models.Composite, len(buckets))
	for i, bucket := range buckets {
		lists[i], _ = l.Composites(ctx, bucket, users)
	}
	return lists, nil
}

// CompositesBefore implements Entries.
func (l *Local) CompositesBefore(_ context.Context, raises []models.Raise) ([]models.Composite, error) {
	stored := make([]models.Composite, len(raises))
	for i, r := range raises {
		l.read(r.Bucket, func(f *flat) { stored[i] = f.of(r.User) })
	}
	return stored, nil
}

// CompositesAndPosition implements Entries. Both are of the same moment.
func (l *Local) CompositesAndPosition(
	_ context.Context, bucket *models.Bucket, users []models.RowID, user models.RowID,
) (composites []models.Composite, position Position, err error) {
	l.read(bucket, func(f *flat) { composites, position = f.ofAll(users), f.position(user) })
	return composites, position, nil
}

// Positions implements Entries.
func (l *Local) Positions(_ context.Context, buckets []*models.Bucket, user models.RowID) ([]Position, error) {
	positions := make([]Position, len(buckets))
	for i, bucket := range buckets {
		l.read(bucket, func(f *flat) { positions[i] = f.position(user) })
	}
	return positions, nil
}

// Window implements Entries.
func (l *Local) Window(_ context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (w Window, err error) {
	l.read(bucket, func(f *flat) {
		w = MergeShards([]ShardWindow{WindowIn(&f.order, at, back, forward)}, back, forward)
	})
	return w, nil
}

// Counts implements Entries.
func (l *Local) Counts(_ context.Context, buckets []*models.Bucket) ([]int64, error) {
	counts := make([]int64, len(buckets))
	for i, bucket := range buckets {
		l.read(bucket, func(f *flat) { counts[i] = int64(f.order.Len()) })
	}
	return counts, nil
}

// Raise implements Entries. What is reported for days is on the disk before anybody sees it. One
// transaction.
func (l *Local) Raise(ctx context.Context, raises []models.Raise) []error {
	if len(raises) == 0 {
		return nil
	}
	if _, err := l.raise(ctx, raises); err != nil {
		return slices.Repeat([]error{models.Unavailable("raise", err)}, len(raises))
	}
	return nil
}

// RaiseAll implements Entries. One transaction for each raiseAllChunk.
func (l *Local) RaiseAll(ctx context.Context, raises []models.Raise) (changed int64, err error) {
	for chunk := range slices.Chunk(raises, raiseAllChunk) {
		n, err := l.raise(ctx, chunk)
		changed += n
		if err != nil {
			return changed, models.Unavailable("raise all", err)
		}
	}
	return changed, nil
}

// raise stores what is reported for days, and then shows it all, which can't fail.
func (l *Local) raise(ctx context.Context, raises []models.Raise) (changed int64, err error) {
	for _, r := range raises {
		if r.User > maxRow {
			return 0, fmt.Errorf("row id %v is too large", r.User)
		}
	}
	if err := l.hot.store(ctx, raises); err != nil {
		return 0, err
	}
	changed = l.show(raises)
	failpoint.Hit("flush.shown")
	return changed, nil
}

// show raises what readers see, and returns how many entries have changed.
func (l *Local) show(raises []models.Raise) (changed int64) {
	now := l.clock()
	for len(raises) > 0 {
		bucket, n := raises[0].Bucket, 1
		for n < min(len(raises), localChunk) && raises[n].Bucket == bucket {
			n++
		}
		if !takenOver(bucket, now) {
			changed += l.showIn(bucket, raises[:n], now)
		}
		raises = raises[n:]
	}
	return changed
}

// showIn is show for some updates of one bucket.
func (l *Local) showIn(bucket *models.Bucket, raises []models.Raise, now time.Time) (changed int64) {
	b := l.ensure(bucket)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range raises {
		if key, ok := route(l.routes, bucket, r.User); !ok || key != models.KeyBoard {
			continue
		}
		if bucket.WindowHours > 0 {
			if b.raiseHour(bucket, r.Entry, now) {
				changed++
			}
		} else if r.Composite > b.shown.of(r.User) {
			b.shown.set(r.User, r.Composite)
			changed++
		}
	}
	return changed
}

// Parts implements Entries: one part, or the hours of a rolling bucket.
func (l *Local) Parts(_ context.Context, bucket *models.Bucket) (parts []models.BoardPart, err error) {
	if bucket.WindowHours == 0 {
		return []models.BoardPart{{Bucket: bucket}}, nil
	}
	b := l.find(bucket)
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, hour := range b.hoursUpTo(maxHour) {
		parts = append(parts, models.BoardPart{Bucket: bucket, Hour: hour})
	}
	return parts, nil
}

// ReadPart implements Entries.
func (l *Local) ReadPart(_ context.Context, p models.BoardPart, behind models.Entry, n int) (entries []models.Entry, err error) {
	b := l.find(p.Bucket)
	b.mu.RLock()
	defer b.mu.RUnlock()
	if f := b.part(p); f != nil {
		entries = WindowIn(&f.order, behind, 0, n+1).behind(behind, n)
	}
	return entries, nil
}

// part returns the entries of a part; nil if a rolling bucket lacks the hour.
func (b *localBucket) part(p models.BoardPart) *flat {
	if p.Bucket.WindowHours > 0 {
		return b.hours[p.Hour]
	}
	return &b.shown
}

// Lower implements Entries.
func (l *Local) Lower(_ context.Context, p models.BoardPart, lowerings []models.Lowering) (lowered int64, err error) {
	for chunk := range slices.Chunk(lowerings, localChunk) {
		lowered += l.lower(p, chunk)
	}
	return lowered, nil
}

func (l *Local) lower(p models.BoardPart, lowerings []models.Lowering) (lowered int64) {
	b := l.find(p.Bucket)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, lowering := range lowerings {
		f, user := b.part(p), lowering.Stored.User
		if f == nil || f.of(user) != lowering.Stored.Composite {
			continue
		}
		if f.set(user, lowering.Composite); p.Bucket.WindowHours > 0 {
			b.addUp(p.Bucket, user)
		}
		lowered++
	}
	return lowered
}
