package board_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
)

// hourly returns the update that carries a user's total of the hour at a
// moment.
func hourly(bucket *models.Bucket, user models.RowID, points int64, at time.Time) models.Raise {
	composite := testenv.Must(score.Of(bucket).Encode(bucket.Points(points), models.TimestampOf(at)))
	return models.Raise{Bucket: bucket, Entry: models.Entry{User: user, Composite: composite}}
}

// scoreOf returns a user's score on a rolling board.
func scoreOf(ctx context.Context, t *testing.T, store board.Reader, bucket *models.Bucket, user models.RowID) int64 {
	t.Helper()
	composites, err := store.Composites(ctx, bucket, []models.RowID{user})
	if err != nil {
		t.Fatal(err)
	}
	points, _ := score.Of(bucket).Decode(composites[0])
	return bucket.Score(points)
}

func drain(ctx context.Context, t *testing.T, store board.Maintainer, bucket *models.Bucket) int64 {
	t.Helper()
	return testenv.Must(store.Drain(ctx, bucket))
}

// cutter is a go-redis hook that cancels a context after each script.
type cutter struct{ cut context.CancelFunc }

func (c *cutter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *cutter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if name := cmd.Name(); err == nil && (name == "evalsha" || name == "eval") {
			c.cut()
		}
		return err
	}
}

func (c *cutter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A drain that is cut off after every chunk leaves a board on which each sum is
// that of the stored hours, and the next drain continues.
func TestDrainContinuesAfterACut(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	ctx, hook := t.Context(), &cutter{cut: func() {}}
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket := rollingBucket(24, 2, 1000)
	l := newLedger(bucket)
	var raises []models.Raise
	for hour := range 3 {
		for user := range 900 {
			if user%(hour+2) > 0 { // some leave with the first hour, others stay
				raises = append(raises, l.add(models.RowID(user+1), int64(1+user%50), env.Clock.Now().Add(time.Duration(user)*time.Second))...)
			}
		}
		raise(ctx, t, store, raises...)
		env.Clock.Advance(time.Hour)
	}
	env.Clock.Set(testenv.Noon.Add(25 * time.Hour)) // two of the three have left
	if !settling(ctx, t, store, bucket) {
		t.Fatal("not settling, although two hours have left the window")
	}
	env.Redis.AddHook(hook)
	var drained int64
	cuts := 0
	for err := error(nil); cuts == 0 || err != nil; cuts++ {
		var (
			cutCtx context.Context
			n      int64
		)
		cutCtx, hook.cut = context.WithCancel(ctx)
		n, err = store.Drain(cutCtx, bucket)
		hook.cut()
		hook.cut = func() {}
		drained += n
		if err != nil && models.CodeOf(err) != models.CodeUnavailable {
			t.Fatal(err)
		}
		if n > 250 {
			t.Fatalf("%d users were drained at once", n)
		}
		checkSums(ctx, t, store, bucket)
		if err != nil {
			// Meanwhile other users are raised. Updates that are too late change nothing.
			raise(ctx, t, store, l.add(models.RowID(1+cuts*7), 1, env.Clock.Now())...)
			raise(ctx, t, store, raises[cuts*5:cuts*5+5]...)
			checkSums(ctx, t, store, bucket)
		}
	}
	if want := int64(450 + 600); drained != want || cuts < 6 {
		t.Errorf("%d drained in %d parts, want %d in several", drained, cuts, want)
	}
	if settling(ctx, t, store, bucket) {
		t.Error("settling, although everything is drained")
	}
	l.check(ctx, t, store, env.Clock.Now())

	env.Clock.Advance(48 * time.Hour)
	drain(ctx, t, store, bucket)
	l.check(ctx, t, store, env.Clock.Now())
	for shard := range bucket.Shards {
		if n := testenv.Must(env.Redis.Exists(ctx, env.Keys.Board(bucket, shard), env.Keys.BoardHours(bucket, shard)).Result()); n > 0 {
			t.Errorf("shard %d has keys after its last user has left", shard)
		}
	}
}

func TestTurnOfAnHour(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, env *testenv.Env, open opener) {
		ctx, bucket := t.Context(), rollingBucket(3, 1, 1000)
		noon := testenv.Noon
		env.Clock.Set(noon.Add(3*time.Hour + time.Second))
		ahead := open(env.Clock.Now)
		behind := open(func() time.Time { return env.Clock.Now().Add(-2 * time.Second) })

		// To the lagging replica the first hour is still in the window, and the
		// last one is the current one.
		raise(ctx, t, behind, hourly(bucket, 1, 5, noon), hourly(bucket, 1, 7, noon.Add(time.Hour)))
		if settling(ctx, t, behind, bucket) {
			t.Error("settling before the turn")
		}
		if !settling(ctx, t, ahead, bucket) {
			t.Error("not settling after the turn")
		}
		raise(ctx, t, ahead, hourly(bucket, 2, 1, noon.Add(3*time.Hour)))
		if !settling(ctx, t, behind, bucket) {
			t.Error("not settling for a replica that is behind, although the shard has seen the next hour")
		}
		raise(ctx, t, behind, hourly(bucket, 1, 9, noon.Add(3*time.Hour-time.Second)))
		if got := scoreOf(ctx, t, ahead, bucket, 1); got != 21 {
			t.Errorf("score %d before the drain, want 21", got)
		}
		raise(ctx, t, behind, hourly(bucket, 1, 6, noon), hourly(bucket, 3, 6, noon))
		if got := scoreOf(ctx, t, ahead, bucket, 1); got != 21 {
			t.Errorf("score %d after a late raise, want 21", got)
		}
		if n := drain(ctx, t, ahead, bucket); n != 1 {
			t.Errorf("%d drained, want 1", n)
		}
		raise(ctx, t, behind, hourly(bucket, 1, 6, noon), hourly(bucket, 3, 6, noon))
		if got := scoreOf(ctx, t, behind, bucket, 1); got != 16 {
			t.Errorf("score %d after the drain and a late raise, want 16", got)
		}
		if got := scoreOf(ctx, t, behind, bucket, 3); got != 0 {
			t.Errorf("score %d of a user who came too late, want none", got)
		}
		for _, store := range []board.Entries{ahead, behind} {
			if settling(ctx, t, store, bucket) {
				t.Error("settling after the drain")
			}
		}
		// A replica that is behind can't raise an hour that one ahead has drained.
		env.Clock.Set(noon.Add(4*time.Hour + time.Second))
		if n := drain(ctx, t, ahead, bucket); n != 1 {
			t.Errorf("%d drained, want 1", n)
		}
		raise(ctx, t, behind, hourly(bucket, 1, 7, noon.Add(time.Hour)))
		if got := scoreOf(ctx, t, behind, bucket, 1); got != 9 {
			t.Errorf("score %d after the second drain, want 9", got)
		}
		// A replica that is behind may apply updates that one ahead has accepted.
		env.Clock.Set(noon.Add(5 * time.Hour))
		raise(ctx, t, behind, hourly(bucket, 4, 1, env.Clock.Now()))
		if !settling(ctx, t, behind, bucket) {
			t.Error("not settling, although the shard was raised in the next hour")
		}
		checkSums(ctx, t, ahead, bucket)

		// The shard has seen no hour yet, so the caller's clock decides.
		empty := rollingBucket(4, 1, 1000)
		raise(ctx, t, ahead, hourly(empty, 1, 5, noon.Add(time.Hour)), hourly(empty, 2, 5, noon.Add(2*time.Hour)))
		if late, early := scoreOf(ctx, t, ahead, empty, 1), scoreOf(ctx, t, ahead, empty, 2); late != 0 || early != 5 {
			t.Errorf("scores %d outside of the window and %d in it, want 0 and 5", late, early)
		}
	})
}

// The largest sum fits while hours are still to be drained, and no composite
// exceeds what a double holds.
func TestLargestRollingScore(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, env *testenv.Env, open opener) {
		const largest = 1<<23 - 1
		ctx, bucket := t.Context(), rollingBucket(2, 1, largest)
		store := open(env.Clock.Now)
		noon := testenv.Noon
		raise(ctx, t, store,
			hourly(bucket, 1, largest-1, noon), hourly(bucket, 1, 1, noon.Add(time.Hour)), // as much as can be
			hourly(bucket, 2, largest, noon.Add(time.Hour)), hourly(bucket, 3, 5, noon))
		env.Clock.Set(noon.Add(2 * time.Hour))
		raise(ctx, t, store, hourly(bucket, 1, largest-1, env.Clock.Now()), hourly(bucket, 3, 7_654_321, env.Clock.Now()))
		if got := scoreOf(ctx, t, store, bucket, 1); got != largest {
			t.Errorf("score %d, want %d", got, largest)
		}
		checkSums(ctx, t, store, bucket)
		env.Clock.Set(noon.Add(3*time.Hour + 30*time.Minute)) // two hours to drain, one for some
		raise(ctx, t, store, hourly(bucket, 1, 1, env.Clock.Now()), hourly(bucket, 2, largest, env.Clock.Now()))
		for _, user := range []models.RowID{1, 2} {
			if got := scoreOf(ctx, t, store, bucket, user); got != largest {
				t.Errorf("score %d of %v, want %d", got, user, largest)
			}
		}
		checkSums(ctx, t, store, bucket)
		if n := drain(ctx, t, store, bucket); n != 1 {
			t.Errorf("%d drained, want only user 3, who was not full", n)
		}
		checkSums(ctx, t, store, bucket)
		if got := scoreOf(ctx, t, store, bucket, 3); got != 7_654_321 {
			t.Errorf("score %d of 3, want 7,654,321", got)
		}
	})
}

func TestDrift(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	ctx, bucket := t.Context(), rollingBucket(24, 2, 1000)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	const everybody = 1000 // users, at random
	expect := func(what string, least, drifted int) {
		t.Helper()
		n, wrong, err := store.Drift(ctx, bucket, everybody)
		if err != nil {
			t.Fatal(err)
		}
		if n < least || wrong != drifted {
			t.Errorf("%s: %d checked and %d drifted, want %d or more and %d", what, n, wrong, least, drifted)
		}
	}
	expect("an empty board", 0, 0)
	for hour := range 3 {
		for user := models.RowID(1); user <= 40; user++ {
			raise(ctx, t, store, hourly(bucket, user, int64(user), env.Clock.Now().Add(time.Duration(hour)*time.Hour)))
		}
	}
	expect("as it should be", 40, 0)
	key := env.Keys.Board(bucket, 1)
	was := testenv.Must(env.Redis.ZScore(ctx, key, "7").Result())
	for what, tamper := range map[string]func(){
		"a point more":         func() { env.Redis.ZIncrBy(ctx, key, 1<<30, "7") },
		"a second later":       func() { env.Redis.ZIncrBy(ctx, key, -1, "7") },
		"missing on the board": func() { env.Redis.ZRem(ctx, key, "7") },
		"nothing in the hours": func() { env.Redis.ZAdd(ctx, key, redis.Z{Score: 1 << 30, Member: "1001"}) },
	} {
		tamper()
		if _, wrong, err := store.Drift(ctx, bucket, everybody); err != nil || wrong == 0 {
			t.Errorf("%s: %d drifted, %v", what, wrong, err)
		}
		env.Redis.ZAdd(ctx, key, redis.Z{Score: was, Member: "7"})
		env.Redis.ZRem(ctx, key, "1001")
		expect("restored after "+what, 40, 0)
	}
}

// RaiseAll returns how many entries were missing in Redis, not how many were in
// its batch.
func TestRaiseAll(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, env *testenv.Env, open opener) {
		ctx := t.Context()
		store := open(env.Clock.Now)
		for _, bucket := range []*models.Bucket{testenv.Bucket(3), rollingBucket(24, 3, 1000)} {
			raiseAll := func(what string, want int64, raises []models.Raise) {
				t.Helper()
				if changed, err := store.RaiseAll(ctx, raises); err != nil || changed != want {
					t.Errorf("%s, %s: %d changed, %v, want %d", bucket.Board, what, changed, err, want)
				}
			}
			var raises []models.Raise
			for user := models.RowID(1); user <= 600; user++ {
				raises = append(raises, hourly(bucket, user, 5, env.Clock.Now()))
			}
			raiseAll("nothing", 0, nil)
			raiseAll("all is missing", 600, append(raises, raises[:10]...))
			raiseAll("nothing is missing", 0, raises)
			better := hourly(bucket, 7, 6, env.Clock.Now())
			raiseAll("one is larger", 1, append(raises[:100:100], better, better))
			raiseAll("one is smaller", 0, []models.Raise{hourly(bucket, 7, 4, env.Clock.Now())})
			if got := scoreOf(ctx, t, store, bucket, 7); got != 6 {
				t.Errorf("%s: score %d, want 6", bucket.Board, got)
			}
			if _, local := store.(*board.Local); local {
				continue
			}
			if err := env.Redis.Set(ctx, env.Keys.Board(bucket, 1), "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := store.RaiseAll(ctx, []models.Raise{hourly(bucket, 3, 6, env.Clock.Now()), hourly(bucket, 4, 6, env.Clock.Now())}); models.CodeOf(err) != models.CodeUnavailable {
				t.Errorf("%s: %v", bucket.Board, err)
			}
		}
	})
}

// If a shard can't be written to, only its own updates get an error. A script
// that fails has changed nothing.
func TestRollingRaiseReportsWhatFailed(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	ctx, bucket := t.Context(), rollingBucket(24, 2, 1000)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	if err := env.Redis.Set(ctx, env.Keys.Board(bucket, 1), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	daily := testenv.Bucket(1)
	var raises []models.Raise
	for user := models.RowID(1); user <= 300; user++ {
		raises = append(raises, hourly(bucket, user, 5, env.Clock.Now()), hourly(daily, user, 5, env.Clock.Now()))
	}
	raises = append(raises, raises...)
	errs := store.Raise(ctx, raises)
	for i, r := range raises {
		if failed := r.Bucket == bucket && r.User%2 == 1; failed != (errs[i] != nil) {
			t.Fatalf("%v of %s: %v", r.User, r.Bucket.Board, errs[i])
		}
	}
	if got := scoreOf(ctx, t, store, bucket, 2); got != 5 {
		t.Errorf("score %d, want 5", got)
	}
	hour := models.HourOf(env.Clock.Now())
	if n := testenv.Must(env.Redis.Exists(ctx, env.Keys.BoardHour(bucket, 1, hour)).Result()); n > 0 {
		t.Error("the hour was raised and the sums were not")
	}
}

// Any number of hours, shards and users costs one round trip, except for
// thousands of updates.
func TestRollingRoundTrips(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	counter := &testenv.RoundTrips{}
	env.Redis.AddHook(counter)
	ctx := t.Context()
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket := rollingBucket(24, 4, 1000)
	var raises []models.Raise
	for user := models.RowID(1); user <= 500; user++ {
		for hour := range 3 {
			raises = append(raises, hourly(bucket, user, 9, env.Clock.Now().Add(-time.Duration(hour)*time.Hour)))
		}
	}
	for what, do := range map[string]func(){
		"raise":    func() { raise(ctx, t, store, raises...) },
		"settling": func() { settling(ctx, t, store, bucket) },
		"drain":    func() { drain(ctx, t, store, bucket) },
	} {
		do() // may connect
		counter.Reset()
		do()
		if counter.Trips() != 1 {
			t.Errorf("%s: %d round trips, want 1", what, counter.Trips())
		}
	}
	raises = raises[:0]
	for user := models.RowID(1001); user <= 13_000; user++ {
		raises = append(raises, hourly(bucket, user, 9, env.Clock.Now()))
	}
	counter.Reset()
	if changed, err := store.RaiseAll(ctx, raises); err != nil || changed != 12_000 || counter.Trips() != 3 {
		t.Errorf("%d changed, %v, in %d round trips, want 12,000 in 3", changed, err, counter.Trips())
	}
}
