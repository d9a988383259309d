package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/ledger"
	"stepboard/services/platform/recovery"
	"stepboard/services/servicetest"
)

// detector reports the loss that the test sets.
type detector struct {
	found       recovery.Loss
	checkpoints []time.Time
	err         error
}

func (d *detector) Detect(context.Context) (recovery.Loss, error) { return d.found, d.err }

func (d *detector) Checkpoint(_ context.Context, r recovery.Loss, upto time.Time) error {
	if !cmp.Equal(r, d.found) {
		return fmt.Errorf("checkpoint of %+v", r)
	}
	d.checkpoints = append(d.checkpoints, upto)
	d.found = recovery.Loss{Servers: r.Servers, CheckpointedAt: upto}
	return nil
}

func (p *fixture) reconciler() *ledger.Reconciler {
	return ledger.NewReconciler(ledger.ReconcilerOptions{
		Store: p.store, Totals: p.catalog.Buckets, Entries: p.boards, Clock: p.env.Clock.Now, Log: p.env.Log, Rewind: 10 * time.Minute,
	})
}

// recovery runs passes of a reconciler.
func (d *detector) recovery(r *ledger.Reconciler) *recovery.Recovery {
	return &recovery.Recovery{Detector: d, Replay: r.Replay}
}

// An empty Redis gets every total, and a second pass changes nothing.
func TestAnEmptyRedisGetsEverything(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100_000)
		for hour := range 4 { // the first of them has left the window in the end
			env.Clock.Set(testenv.Noon.Add(time.Duration(hour) * time.Hour))
			var items []ledger.Increment
			for user := range 50 {
				items = append(items, inc(models.RowID(user+1), int64(1+user*hour), fmt.Sprintf("%d-%d", hour, user)))
			}
			p.add("gifts", items...)
			p.add("active", items...)
		}
		for _, board := range []string{"active"} {
			if _, err := p.boards.Drain(t.Context(), p.bucket(board)); err != nil {
				t.Fatal(err)
			}
		}
		gifts, active := p.inRedis("gifts"), p.inRedis("active")
		if len(gifts) != 50 || gifts[2] != "10 at 16:00:00.000" || active[2] != "9 at 16:00:00.000" {
			t.Fatalf("%v, %v", gifts, active)
		}
		m := &detector{found: recovery.Loss{Extent: recovery.EverythingLost, Servers: []recovery.ServerState{{ID: "new"}}}}
		r := p.reconciler()
		servicetest.Forget(t, p.env)
		env.Clock.Advance(time.Minute)
		for pass, want := range []int64{50 + 3*50, 0} {
			m.found.Extent = recovery.EverythingLost
			restored, err := m.recovery(r).Run(t.Context())
			if err != nil || restored != want {
				t.Errorf("pass %d restored %d, %v, want %d", pass, restored, err, want)
			}
			if diff := cmp.Diff(gifts, p.inRedis("gifts")); diff != "" {
				t.Errorf("gifts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(active, p.inRedis("active")); diff != "" {
				t.Errorf("active (-want +got):\n%s", diff)
			}
		}
		if len(m.checkpoints) != 2 || !m.checkpoints[0].Equal(env.Clock.Now()) {
			t.Errorf("checkpoints %v", m.checkpoints)
		}
		servicetest.Forget(t, p.env)
		var told int64
		if n, err := r.Rebuild(t.Context(), func(n int64) { told = n }); err != nil || n != (ledger.Rebuilt{Totals: 200}) || told != 200 {
			t.Errorf("rebuilt %+v, reported %d, %v", n, told, err)
		}
		if !maps.Equal(gifts, p.inRedis("gifts")) || !maps.Equal(active, p.inRedis("active")) {
			t.Errorf("rebuilt %v and %v", p.inRedis("gifts"), p.inRedis("active"))
		}
	})
}

// Totals that did not reach Redis after they were counted are raised by the
// next pass, however long Redis was away. Totals that Redis is known to have
// are not raised again.
func TestMissingTotalsAreRestored(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 1000)
		boards := &faultyBoards{Writer: p.boards, away: true}
		s := p.replica(boards, env.Clock.Now)
		add := func(user models.RowID, id string) {
			t.Helper()
			for _, board := range []string{"gifts", "active"} {
				if results, err := s.Add(t.Context(), board, []ledger.Increment{inc(user, 5, id)}); err != nil || results[0].Status != ledger.Applied {
					t.Fatalf("%v, %v", results, err)
				}
			}
		}
		want := func(what string, users ...models.RowID) {
			t.Helper()
			for _, board := range []string{"gifts", "active"} {
				if got := slices.Sorted(maps.Keys(p.inRedis(board))); !slices.Equal(got, users) {
					t.Errorf("%s: %v on %s, want %v", what, got, board, users)
				}
			}
		}
		m := &detector{found: recovery.Loss{Servers: []recovery.ServerState{{ID: "one"}}, CheckpointedAt: env.Clock.Now()}}
		pass := func(restored int64) {
			t.Helper()
			if n, err := m.recovery(p.reconciler()).Run(t.Context()); err != nil || n != restored {
				t.Errorf("restored %d, %v, want %d", n, err, restored)
			}
		}
		add(1, "a")
		env.Clock.Advance(9 * time.Minute)
		add(2, "b")
		want("nothing was raised")
		pass(4)
		want("what was left behind", 1, 2)
		pass(0)

		// Redis is away for half an hour, and has lost nothing.
		env.Clock.Advance(5 * time.Minute)
		add(3, "c")
		env.Clock.Advance(25 * time.Minute)
		pass(2)
		want("after an outage", 1, 2, 3)

		// Totals before the checkpoint are not raised again.
		servicetest.Forget(t, p.env)
		env.Clock.Advance(10*time.Minute + time.Second)
		add(4, "d")
		pass(2)
		want("the same server", 4)

		// A server that has restarted lacks totals from shortly before its last
		// checkpoint.
		servicetest.Forget(t, p.env)
		m.found = recovery.Loss{Extent: recovery.LastWritesLost, Servers: []recovery.ServerState{{ID: "two"}}, CheckpointedAt: env.Clock.Now().Add(-30 * time.Minute)}
		pass(4)
		want("a restarted server", 3, 4)

		// A checkpoint in the future does not hide new totals.
		servicetest.Forget(t, p.env)
		m.found = recovery.Loss{Servers: []recovery.ServerState{{ID: "two"}}, CheckpointedAt: env.Clock.Now().Add(time.Hour)}
		pass(2)
		want("a clock that was set back", 4)
	})
}

// Most passes go back for the last minute. Every few minutes one goes back for
// all of Rewind, for increments of a replica whose clock is behind.
func TestIncrementsOfASlowClockAreRestored(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Local(t), 1000)
	slow := testenv.NewClock(p.env.Clock.Now())
	s := p.replica(&faultyBoards{Writer: p.boards, away: true}, slow.Now)
	add := func(behind time.Duration, user models.RowID) {
		t.Helper()
		slow.Set(p.env.Clock.Now().Add(-behind))
		if results, err := s.Add(t.Context(), "gifts", []ledger.Increment{inc(user, 1, fmt.Sprint(user))}); err != nil || results[0].Status != ledger.Applied {
			t.Fatalf("%v, %v", results, err)
		}
	}
	m := &detector{found: recovery.Loss{Servers: []recovery.ServerState{{ID: "one"}}, CheckpointedAt: p.env.Clock.Now()}}
	passes := m.recovery(p.reconciler())
	var restored []int64
	for pass := range 7 { // one a minute
		if pass == 2 {
			add(4*time.Minute, 1)
			add(time.Minute, 2)
		}
		n, err := passes.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		restored = append(restored, n)
		p.env.Clock.Advance(time.Minute)
	}
	if want := []int64{0, 0, 1, 0, 0, 1, 0}; !slices.Equal(restored, want) {
		t.Errorf("restored %v, want %v", restored, want)
	}
}

// After a failed pass there is no checkpoint.
func TestAPassThatFails(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Local(t), 1000)
	p.add("gifts", inc(1, 1, "a"))
	m := &detector{found: recovery.Loss{Extent: recovery.EverythingLost}}
	broken := errors.New("broken")
	r := ledger.NewReconciler(ledger.ReconcilerOptions{
		Store: p.store, Totals: p.catalog.Buckets, Entries: failingRaiser{err: broken}, Clock: p.env.Clock.Now, Log: p.env.Log,
	})
	if _, err := m.recovery(r).Run(t.Context()); !errors.Is(err, broken) || len(m.checkpoints) != 0 {
		t.Errorf("%v, checkpoints %v", err, m.checkpoints)
	}
	m.err = broken
	if _, err := m.recovery(p.reconciler()).Run(t.Context()); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// failingRaiser fails every raise.
type failingRaiser struct {
	board.Entries
	err error
}

func (m failingRaiser) RaiseAll(context.Context, []models.Raise) (int64, error) { return 0, m.err }

// Invalid rows do not keep the others from Redis.
func TestInvalidRowsAreSkipped(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 1000)
		p.add("gifts", inc(1, 1, "a"), inc(5, 2, "b"), inc(6, 1, "c"))
		for _, change := range []string{
			`UPDATE score_totals SET score = 9007199254740993 WHERE user_id = 1`,
			`INSERT INTO score_events SELECT 'nix', event_id, total, user_id, delta, accepted_at, score, reached_at FROM score_events WHERE event_id = 'a'`,
			`INSERT INTO score_totals SELECT 'nix', user_id, total, score, reached_at FROM score_totals WHERE user_id = 5`,
			`DELETE FROM score_totals WHERE user_id = 6`,
		} {
			if err := env.Gorm.Exec(change).Error; err != nil {
				t.Fatal(err)
			}
		}
		for _, lost := range []recovery.Extent{recovery.EverythingLost, recovery.LastWritesLost} {
			servicetest.Forget(t, p.env)
			m := &detector{found: recovery.Loss{Extent: lost, CheckpointedAt: env.Clock.Now()}}
			if n, err := m.recovery(p.reconciler()).Run(t.Context()); err != nil || n != 1 {
				t.Errorf("restored %d, %v", n, err)
			}
			if got := p.inRedis("gifts"); len(got) != 1 || got[5] == "" {
				t.Errorf("on the board: %v", got)
			}
		}
	})
}

// More totals than a page are read page by page, without a gap.
func TestManyTotalsAreRestored(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env, 1000)
	p.bucket("gifts")
	const users = 45_001
	for _, fill := range []string{
		`INSERT INTO score_totals SELECT 'gifts', u, 'event', 1 + u % 7, '2026-11-20 12:30:00Z' FROM generate_series(1, 45001) u`,
		`INSERT INTO score_events SELECT 'gifts', u::text, 'event', u, 1 + u % 7, '2026-11-20 12:55:00Z', 1 + u % 7, '2026-11-20 12:30:00Z' FROM generate_series(1, 45001) u`,
	} {
		if err := env.Gorm.Exec(fill).Error; err != nil {
			t.Fatal(err)
		}
	}
	for _, lost := range []recovery.Extent{recovery.EverythingLost, recovery.LastWritesLost} {
		servicetest.Forget(t, p.env)
		m, r := &detector{found: recovery.Loss{Extent: lost, CheckpointedAt: env.Clock.Now()}}, p.reconciler()
		r.ReadPages(20_000)
		if n, err := m.recovery(r).Run(t.Context()); err != nil || n != users {
			t.Errorf("restored %d, %v", n, err)
		}
		if got := p.inRedis("gifts"); len(got) != users {
			t.Errorf("%d users on the board", len(got))
		}
	}
	if rows, err := p.purger().Purge(t.Context(), 4*time.Minute); err != nil || rows != users {
		t.Errorf("purged %d rows, %v", rows, err)
	}
	env.Clock.Set(start.AddDate(0, 0, 14)) // the event is cold
	if rows, err := p.purger().Purge(t.Context(), 24*time.Hour); err != nil || rows != users {
		t.Errorf("purged %d rows, %v", rows, err)
	}
}

// expiries expires the hours of the rolling board two days after they have left
// the window, and the event after the time for which increments are kept.
type expiries struct {
	*catalog.Buckets
	end time.Time
}

func (e expiries) ExpiredTotals(ctx context.Context, now time.Time, retain time.Duration) (expired []models.TotalRange, err error) {
	ranges, err := e.TotalRanges(ctx, now)
	for _, r := range ranges {
		if r.Bucket.WindowHours > 0 {
			first, err := time.Parse("2006010215", r.Since)
			if err != nil {
				return nil, err
			}
			r.Since, r.Total = "", (models.HourOf(first) - 49).String()
			expired = append(expired, r)
		} else if retain > 0 && now.After(e.end.Add(retain)) {
			expired = append(expired, r)
		}
	}
	return expired, err
}

func (p *fixture) purger() *ledger.Reconciler {
	r := p.reconciler()
	r.Totals, r.Archived = expiries{p.catalog.Buckets, start.AddDate(0, 0, 10)}, alwaysArchived
	return r
}

// Expired rows are deleted, and no others.
func TestPurge(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 1000)
		at := func(d time.Duration) { env.Clock.Set(testenv.Noon.Add(d)) }
		for i := range 5 { // one a day
			at(time.Duration(i) * 24 * time.Hour)
			p.add("gifts", inc(1, 1, fmt.Sprint("g-", i)), inc(2, 1, fmt.Sprint("h-", i)))
			p.add("active", inc(1, 1, fmt.Sprint("a-", i)))
		}
		names := func() (events, totals []string) {
			for _, board := range []string{"active", "gifts"} {
				for _, e := range p.events(board) {
					events = append(events, e.EventID)
				}
				for _, t := range p.totals(board) {
					totals = append(totals, fmt.Sprint(t.Board, " ", t.User, " ", t.Total, " ", t.Score))
				}
			}
			return events, totals
		}
		purge := func(retain time.Duration, rows int64, wantEvents, wantTotals []string) {
			t.Helper()
			if n, err := p.purger().Purge(t.Context(), retain); err != nil || n != rows {
				t.Errorf("%d rows, %v, want %d", n, err, rows)
			}
			events, totals := names()
			if diff := cmp.Diff([][]string{wantEvents, wantTotals}, [][]string{events, totals}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		events, totals := names()
		if len(events) != 15 || len(totals) != 5+1+2 {
			t.Fatalf("%v, %v", events, totals)
		}
		left := []string{"active 1 2026112213 1", "active 1 2026112313 1", "active 1 2026112413 1", "active 1 live 5", "gifts 1 event 5", "gifts 2 event 5"}
		purge(0, 2, events, left) // hours only
		purge(48*time.Hour, 6, []string{"a-2", "a-3", "a-4", "g-2", "g-3", "g-4", "h-2", "h-3", "h-4"}, left)
		if got := brief(p.add("gifts", inc(1, 1, "g-2"))[0]); got != "g-2 duplicate 3 at 13:00:00.000" {
			t.Error(got)
		}
		at(20 * 24 * time.Hour)
		purge(48*time.Hour, 9+3+2, nil, []string{"active 1 live 5"})
		purge(48*time.Hour, 0, nil, []string{"active 1 live 5"})
	})
}

func alwaysArchived(context.Context, *models.Bucket) (bool, error) { return true, nil }

// An event that is cold is restored where readers see it, until it is archived.
func TestAColdEvent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100_000)
		began := env.Clock.Now()
		p.add("gifts", inc(1, 5, "a"), inc(2, 6, "b"))
		bucket := p.bucket("gifts")
		env.Clock.Set(bucket.ColdAt.Add(time.Minute))
		for _, lost := range []recovery.Loss{{Extent: recovery.EverythingLost}, {Extent: recovery.LastWritesLost, CheckpointedAt: began}} {
			for _, archived := range []bool{false, true} {
				servicetest.Forget(t, p.env)
				r := p.reconciler()
				r.Archived = func(_ context.Context, b *models.Bucket) (bool, error) { return archived && b.Board == "gifts", nil }
				if _, err := (&detector{found: lost}).recovery(r).Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				want := 2
				if archived {
					want = 0
				}
				if got := p.inRedis("gifts"); len(got) != want {
					t.Errorf("lost %v, archived %v: readers see %v", lost.Extent, archived, got)
				}
			}
		}
	})
}

// The totals of an event are kept until it is archived.
func TestTotalsAreKeptForTheArchive(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 1000)
		p.add("gifts", inc(1, 5, "a"))
		env.Clock.Set(testenv.Noon.AddDate(0, 0, 20))
		for _, archived := range []bool{false, true} {
			purger := p.purger()
			purger.Archived = func(context.Context, *models.Bucket) (bool, error) { return archived, nil }
			if _, err := purger.Purge(t.Context(), 24*time.Hour); err != nil {
				t.Fatal(err)
			}
			if left := len(p.totals("gifts")); (left == 0) != archived {
				t.Errorf("archived %v: %d totals", archived, left)
			}
		}
	})
}
