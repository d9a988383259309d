package board_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
)

// rollingBucket returns the bucket of a rolling board.
func rollingBucket(window, shards int, maxScore int64) *models.Bucket {
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	end := start.Add((1<<30 - 1) * time.Second)
	return &models.Bucket{
		Board: fmt.Sprintf("active-%dh", window), Name: "live",
		StartsAt: start, EndsAt: end, ClosesAt: end, ColdAt: end,
		TickMS: 1000, TimeBits: 30, MaxScore: maxScore, Order: models.OrderHigh, Shards: shards, WindowHours: window,
	}
}

// place is a user's position on a rolling board, decoded.
type place struct {
	User         string
	Score        int64
	LastIncrease time.Time
}

// ledger holds every user's total of every hour, as Postgres does. It is the
// brute-force model of a rolling board.
type ledger struct {
	bucket *models.Bucket
	totals map[models.RowID]map[models.Hour]total
}

type total struct {
	score     int64
	reachedAt time.Time // whole seconds
}

func newLedger(bucket *models.Bucket) *ledger {
	return &ledger{bucket, make(map[models.RowID]map[models.Hour]total)}
}

// first returns the first hour of the window.
func (l *ledger) first(now time.Time) models.Hour {
	return models.HourOf(now) - models.Hour(l.bucket.WindowHours) + 1
}

// add counts an increment at a moment of a replica's clock, and returns the
// raises that follow. If the user's sum since the window's first hour would
// exceed the largest score, the increment is cut; if that leaves none, nothing
// is raised.
func (l *ledger) add(user models.RowID, delta int64, at time.Time) []models.Raise {
	hour := models.HourOf(at)
	totals := l.totals[user]
	if totals == nil {
		totals = make(map[models.Hour]total)
		l.totals[user] = totals
	}
	var sum int64
	for h, t := range totals {
		if h >= l.first(at) {
			sum += t.score
		}
	}
	was := totals[hour]
	t := total{was.score + min(delta, l.bucket.MaxScore-sum), at.Truncate(time.Second)}
	if t.score <= was.score {
		return nil
	}
	if t.reachedAt.Before(was.reachedAt) {
		t.reachedAt = was.reachedAt
	}
	totals[hour] = t
	return []models.Raise{l.raise(user, t)}
}

// raise returns the update that carries a user's total.
func (l *ledger) raise(user models.RowID, t total) models.Raise {
	composite := testenv.Must(score.Of(l.bucket).Encode(models.Points(t.score), models.TimestampOf(t.reachedAt)))
	return models.Raise{Bucket: l.bucket, Entry: models.Entry{User: user, Composite: composite}}
}

// ranked returns the board at a moment, best first.
func (l *ledger) ranked(now time.Time) []place {
	places := []place{}
	for user, totals := range l.totals {
		p := place{User: user.String()}
		for hour, t := range totals {
			if hour >= l.first(now) && hour <= models.HourOf(now) {
				p.Score += t.score
				if t.reachedAt.After(p.LastIncrease) {
					p.LastIncrease = t.reachedAt
				}
			}
		}
		if p.Score > 0 {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.LastIncrease.Compare(b.LastIncrease), cmp.Compare(b.User, a.User))
	})
	return places
}

// check compares the board with the ledger.
func (l *ledger) check(ctx context.Context, t *testing.T, store board.Reader, now time.Time) {
	t.Helper()
	window, err := store.Window(ctx, l.bucket, board.Top, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]place, len(window.Behind))
	for i, e := range window.Behind {
		points, reachedAt := score.Of(l.bucket).Decode(e.Composite)
		got[i] = place{e.User.String(), l.bucket.Score(points), reachedAt.Time()}
	}
	if diff := gocmp.Diff(l.ranked(now), got); diff != "" {
		t.Fatalf("%s at %v (-want +got):\n%s", l.bucket.Board, now, diff)
	}
}

// checkSums checks what holds at every moment: each sum is that of the stored
// hours, and not larger than allowed.
func checkSums(ctx context.Context, t *testing.T, store board.Entries, bucket *models.Bucket) {
	t.Helper()
	codec := score.Of(bucket)
	sums, last := make(map[models.RowID]int64), make(map[models.RowID]models.Timestamp)
	for _, part := range testenv.Must(store.Parts(ctx, bucket)) {
		for _, e := range testenv.Must(store.ReadPart(ctx, part, board.Top, 1_000_000)) {
			points, reachedAt := codec.Decode(e.Composite)
			if models.HourOf(reachedAt.Time()) != part.Hour {
				t.Fatalf("%v has a total of %v in hour %v", e.User, reachedAt.Time(), part.Hour)
			}
			sums[e.User] += bucket.Score(points)
			last[e.User] = max(last[e.User], reachedAt)
		}
	}
	want, got := make(map[models.RowID]models.Composite), make(map[models.RowID]models.Composite)
	for user, sum := range sums {
		if sum > bucket.MaxScore {
			t.Fatalf("%v has %d, the largest score is %d", user, sum, bucket.MaxScore)
		}
		want[user] = testenv.Must(codec.Encode(models.Points(sum), last[user]))
	}
	for _, e := range testenv.Must(store.Window(ctx, bucket, board.Top, 0, 1_000_000)).Behind {
		got[e.User] = e.Composite
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("the sums are not those of the hours (-want +got):\n%s", diff)
	}
}

func raise(ctx context.Context, t testing.TB, store board.Writer, raises ...models.Raise) {
	t.Helper()
	for _, err := range store.Raise(ctx, raises) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func settling(ctx context.Context, t *testing.T, store board.Reader, bucket *models.Bucket) bool {
	t.Helper()
	return testenv.Must(store.Settling(ctx, bucket))
}

// week simulates a week of a rolling board: two replicas, one with a clock that
// is two seconds behind, a queue that reorders and repeats, and an outage.
type week struct {
	*ledger
	env       *testenv.Env
	open      opener
	replicas  [2]board.Entries
	clocks    [2]models.Clock
	rnd       *rand.Rand
	queue     []models.Raise
	sent      []models.Raise
	down      bool
	refused   bool // the outage lasted longer than the window
	settled   int  // hours that had to be drained
	gone      int  // users who have left
	increases int
}

func newWeek(env *testenv.Env, open opener, bucket *models.Bucket) *week {
	w := &week{ledger: newLedger(bucket), env: env, open: open, rnd: rand.New(rand.NewPCG(1, uint64(bucket.WindowHours)))}
	w.clocks = [2]models.Clock{env.Clock.Now, func() time.Time { return env.Clock.Now().Add(-2 * time.Second) }}
	for i, clock := range w.clocks {
		w.replicas[i] = open(clock)
	}
	return w
}

// minute simulates one minute. The first of an hour drains; the last compares.
func (w *week) minute(t *testing.T, start time.Time) {
	t.Helper()
	at := func(d time.Duration) { w.env.Clock.Set(start.Add(d)) }
	hour := int(start.Sub(testenv.Noon.Truncate(24*time.Hour)) / time.Hour)
	w.down = hour >= 70 && hour < 77 || hour == 77 && start.Minute() < 20
	switch {
	case hour == 77 && start.Minute() == 20:
		at(0)
		w.recover(t)
	case start.Minute() == 0 && !w.down:
		w.turn(t, at)
	}
	if hour%24 < 6 && w.rnd.IntN(20) > 0 {
		return // at night
	}
	for second := 6; second < 57; second += 1 + w.rnd.IntN(80) {
		at(time.Duration(second) * time.Second)
		w.increase(w.rnd.IntN(2), 1+w.rnd.IntN(1+w.rnd.IntN(6)))
	}
	if start.Minute()%15 == 0 || start.Minute() == 59 {
		w.flush(t)
	}
	if start.Minute() == 59 && !w.down {
		at(57 * time.Second)
		w.check(t.Context(), t, w.replicas[w.rnd.IntN(2)], w.env.Clock.Now())
	}
}

// increase counts n increments at a replica.
func (w *week) increase(replica, n int) {
	for range n {
		user := models.RowID(1 + w.rnd.IntN(1+w.rnd.IntN(120))) // some are often there, others are not
		if w.rnd.IntN(50) == 0 {
			user += 1000 * models.RowID(w.rnd.IntN(1000)) // and others once
		}
		w.queue = append(w.queue, w.add(user, 1+w.rnd.Int64N(40), w.clocks[replica]())...)
		w.increases++
	}
}

// flush sends the queued raises in any order, some of them twice, and an old
// one.
func (w *week) flush(t *testing.T) {
	t.Helper()
	if w.down {
		return
	}
	w.sent = append(w.sent, w.queue...)
	for range min(len(w.sent), 4) {
		w.queue = append(w.queue, w.sent[w.rnd.IntN(len(w.sent))], w.sent[len(w.sent)-1-w.rnd.IntN(min(len(w.sent), 500))])
	}
	w.rnd.Shuffle(len(w.queue), func(i, j int) { w.queue[i], w.queue[j] = w.queue[j], w.queue[i] })
	for len(w.queue) > 0 {
		n := min(len(w.queue), 1+w.rnd.IntN(200))
		raise(t.Context(), t, w.replicas[w.rnd.IntN(2)], w.queue[:n]...)
		w.queue = w.queue[n:]
	}
}

// turn simulates the turn of an hour: a second in which only one replica has
// seen it, a few in which the expired hour is still stored, and its end.
func (w *week) turn(t *testing.T, at func(time.Duration)) {
	t.Helper()
	w.flush(t)
	at(time.Second)
	leader := w.add(1+models.RowID(w.rnd.IntN(50)), 1, w.clocks[0]())
	raise(t.Context(), t, w.replicas[0], leader...)
	w.increase(1, 3) // in the hour that has just ended
	w.flush(t)
	at(4 * time.Second)
	w.increase(0, 2)
	w.increase(1, 2)
	w.flush(t)
	w.drainAndCompare(t)
}

// drainAndCompare drains the board and compares it with the model.
func (w *week) drainAndCompare(t *testing.T) {
	t.Helper()
	ctx, now := t.Context(), w.env.Clock.Now()
	left, stays := false, make(map[models.RowID]bool)
	for user, totals := range w.totals {
		for hour := range totals {
			if hour >= w.first(now) {
				stays[user] = true
			}
		}
		if _, ok := totals[w.first(now)-1]; ok {
			left = true
			if !stays[user] {
				w.gone++
			}
		}
	}
	checkSums(ctx, t, w.replicas[0], w.bucket)
	if left && !w.refused && !settling(ctx, t, w.replicas[w.rnd.IntN(2)], w.bucket) {
		t.Fatalf("%v: not settling, although an hour has left the window", now)
	}
	drained, err := w.replicas[w.rnd.IntN(2)].Drain(ctx, w.bucket)
	if err != nil {
		t.Fatal(err)
	}
	if drained > 0 {
		w.settled++
	}
	w.refused = false
	if settling(ctx, t, w.replicas[w.rnd.IntN(2)], w.bucket) {
		t.Fatalf("%v: settling, although everything is drained", now)
	}
	w.check(ctx, t, w.replicas[w.rnd.IntN(2)], now)
	checkSums(ctx, t, w.replicas[0], w.bucket)
	if _, drifted, err := w.replicas[0].Drift(ctx, w.bucket, 20); err != nil || drifted > 0 {
		t.Fatalf("%d users have drifted, %v", drifted, err)
	}
}

// rebuild loses the board, and fills it again from all totals of the ledger.
func (w *week) rebuild(t *testing.T) {
	t.Helper()
	ctx, now := t.Context(), w.env.Clock.Now()
	lose(t, w.env, w.replicas[0], w.bucket)
	raises := make(map[models.Hour][]models.Raise)
	for user, totals := range w.totals {
		for hour, total := range totals {
			raises[hour] = append(raises[hour], w.raise(user, total))
		}
	}
	for hour, of := range raises { // in any order
		want := int64(len(of))
		if hour < w.first(now) {
			want = 0
		}
		if changed, err := w.replicas[0].RaiseAll(ctx, of); err != nil || changed != want {
			t.Errorf("%v: %d of %d totals changed, %v, want %d", hour, changed, len(of), err, want)
		}
	}
	w.check(ctx, t, w.replicas[0], now)
	checkSums(ctx, t, w.replicas[0], w.bucket)
}

// recover simulates the end of an outage: increments that were counted
// meanwhile are still queued, some of them for hours that have left the window
// since.
func (w *week) recover(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	w.down, w.refused = false, w.bucket.WindowHours < 7
	if !settling(ctx, t, w.replicas[0], w.bucket) {
		t.Fatal("not settling after an outage")
	}
	w.flush(t)
	w.drainAndCompare(t)
}
