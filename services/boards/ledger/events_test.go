package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ledger"
	"stepboard/services/platform/recovery"
)

// arrival is an increment of a user of a random world, without the user.
type arrival struct {
	amount   int64
	occurred time.Duration // since the start
}

// wanted returns the score that arrivals make up and when it was reached, by the definition; "" for
// none.
func wanted(board string, arrivals []arrival) string {
	var points int64
	var reached time.Duration
	slices.SortFunc(arrivals, func(a, b arrival) int { return int(a.occurred - b.occurred) })
	for i, a := range arrivals {
		switch {
		case i == 0, board == "contest" && a.amount > points:
			points, reached = a.amount, a.occurred
		case board != "contest" && a.amount > 0:
			points, reached = points+a.amount, a.occurred
		}
	}
	if len(arrivals) == 0 {
		return ""
	}
	return scoreAt(points, models.TimestampOf(start.Add(reached)))
}

// In whatever order, by whatever process and however often increments arrive, an event that takes them
// late has what they make up in the order in which they occurred.
func TestArrivalsInAnyOrder(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 1_000)
		replicas := []*ledger.Service{p.ledger, p.replica(p.boards, env.Clock.Now)}
		end := 240 * time.Hour
		env.Clock.Set(start.Add(end - time.Hour))
		for seed, board := range []string{"sales", "contest", "sales", "contest"} {
			rng := rand.New(rand.NewPCG(uint64(seed), 7))
			arrivals := make([]arrival, 1+rng.IntN(12))
			for i := range arrivals {
				arrivals[i] = arrival{int64(rng.IntN(4)), end - time.Duration(rng.IntN(30))*2*time.Hour}
				if rng.IntN(4) == 0 { // around the edges
					arrivals[i].occurred = []time.Duration{end - 1, end, end - 49*time.Hour, end - time.Hour + 30*time.Second}[rng.IntN(4)]
				}
				arrivals[i].occurred = arrivals[i].occurred.Truncate(time.Millisecond)
			}
			ages := func(a arrival) time.Duration { return end - time.Hour - a.occurred }
			counts := func(a arrival) bool {
				return a.occurred < end && ages(a) <= 48*time.Hour && ages(a) >= -30*time.Second
			}
			want := wanted(board, slices.DeleteFunc(slices.Clone(arrivals), func(a arrival) bool { return !counts(a) }))
			users := make(map[models.RowID]string)
			for permutation := range 8 {
				user := models.RowID(100*seed + permutation + 1)
				users[user] = want
				var items, counted []ledger.Increment
				for _, i := range rng.Perm(len(arrivals)) {
					at := models.TimestampOf(start.Add(arrivals[i].occurred))
					item := ledger.Increment{
						User: testenv.ID(user), Amount: arrivals[i].amount, Result: board == "contest", OccurredAt: &at,
						EventID: fmt.Sprint(seed, "-", permutation, "-", i),
					}
					if items = append(items, item); counts(arrivals[i]) {
						counted = append(counted, item)
					}
					if len(counted) > 0 && rng.IntN(2) == 0 { // another time changes nothing, once it is counted
						again, elsewhere := counted[rng.IntN(len(counted))], models.TimestampOf(start.Add(end-2*time.Hour))
						again.OccurredAt = &elsewhere
						items = append(items, again)
					}
				}
				for len(items) > 0 {
					n := min(len(items), 1+rng.IntN(5))
					if _, err := replicas[rng.IntN(2)].Add(t.Context(), board, items[:n]); err != nil {
						t.Fatal(err)
					}
					items = items[n:]
				}
			}
			got := p.inRedis(board)
			for user, want := range users {
				if got[user] != want {
					t.Errorf("%s, seed %d, user %d: %q, want %q of %v", board, seed, user, got[user], want, arrivals)
				}
			}
			p.checkTotals(board)
		}
	})
}

// Results of increments of each kind, one after the other.
func TestResultsOfEvents(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100)
		env.Clock.Set(start.Add(50 * time.Hour))
		ago := func(hours float64) *models.Timestamp {
			at := models.TimestampOf(env.Clock.Now().Add(-time.Duration(hours * float64(time.Hour))))
			return &at
		}
		result := func(user models.RowID, points int64, id string, at *models.Timestamp) ledger.Increment {
			return ledger.Increment{User: testenv.ID(user), Amount: points, Result: true, EventID: id, OccurredAt: at}
		}
		sale := func(user models.RowID, amount int64, id string, at *models.Timestamp) ledger.Increment {
			return ledger.Increment{User: testenv.ID(user), Amount: amount, EventID: id, OccurredAt: at}
		}
		for _, tt := range []struct {
			board string
			items []ledger.Increment
			want  []string
		}{
			{"contest", []ledger.Increment{result(1, 0, "a", nil), result(1, 0, "b", ago(1))}, []string{"a applied 0 at 13:00:00.000", "b applied 0 at 13:00:00.000"}},
			{"contest", []ledger.Increment{result(1, 50, "c", nil), result(1, 50, "d", ago(3)), result(1, 40, "e", ago(9))},
				[]string{"c applied 50 at 11:00:00.000", "d applied 50 at 11:00:00.000", "e applied 50 at 11:00:00.000"}},
			{"contest", []ledger.Increment{result(1, 50, "c", ago(7)), result(1, 51, "c", nil), result(1, 100, "f", ago(47)), result(1, 101, "g", nil)},
				[]string{"c duplicate 50 at 11:00:00.000", "c rejected event_id_conflict", "f applied 100 at 15:00:00.000", "g rejected score_out_of_range"}},
			{"contest", []ledger.Increment{inc(1, 1, "h"), result(1, -1, "i", nil), result(1, 1, "j", ago(48.001)), result(1, 1, "k", ago(-0.01))},
				[]string{"h rejected validation_failed", "i rejected score_out_of_range", "j rejected occurred_at_invalid", "k rejected occurred_at_invalid"}},
			{"sales", []ledger.Increment{sale(1, 0, "a", nil), sale(1, 0, "b", ago(1))}, []string{"a applied 0 at 13:00:00.000", "b applied 0 at 13:00:00.000"}},
			{"sales", []ledger.Increment{sale(1, 5, "c", ago(2)), sale(1, 0, "d", nil)}, []string{"c applied 5 at 12:00:00.000", "d applied 5 at 12:00:00.000"}},
			{"sales", []ledger.Increment{sale(1, 5, "e", ago(3)), sale(1, 0, "f", ago(5)), sale(1, 91, "g", nil)},
				[]string{"e applied 10 at 12:00:00.000", "f applied 10 at 12:00:00.000", "g rejected score_out_of_range"}},
			{"sales", []ledger.Increment{sale(1, 90, "g", nil), result(1, 1, "h", nil)}, []string{"g applied 100 at 14:00:00.000", "h rejected validation_failed"}},
			{"gifts", []ledger.Increment{sale(1, 1, "a", ago(0)), inc(1, 0, "b"), inc(2, 3, "c")},
				[]string{"a rejected occurred_at_invalid", "b applied 0 at 14:00:00.000", "c applied 3 at 14:00:00.000"}},
			{"active", []ledger.Increment{sale(1, 1, "a", ago(0)), inc(1, 0, "b"), inc(2, 3, "c")},
				[]string{"a rejected occurred_at_invalid", "b rejected validation_failed", "c applied 3 at 14:00:00.000"}},
		} {
			if diff := cmp.Diff(tt.want, briefs(p.add(tt.board, tt.items...))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.board, diff)
			}
		}
		for board, want := range map[string]map[models.RowID]string{
			"contest": {1: "100 at 15:00:00.000"}, "sales": {1: "100 at 14:00:00.000"}, "gifts": {1: "0 at 14:00:00.000", 2: "3 at 14:00:00.000"},
		} {
			if diff := cmp.Diff(want, p.inRedis(board)); diff != "" {
				t.Errorf("%s in Redis (-want +got):\n%s", board, diff)
			}
		}
		// A Redis that has lost all gets it from the ledger, entries of 0 too.
		before := p.inRedis("gifts")
		rebuilt := testenv.Must(p.reconciler().Rebuild(t.Context(), func(int64) {}))
		if rebuilt.Lowered != 0 || cmp.Diff(before, p.inRedis("gifts")) != "" {
			t.Errorf("rebuilt %+v: %v", rebuilt, p.inRedis("gifts"))
		}
	})
}

// Nothing is counted after an event is final, by processes whose clocks are a minute apart.
func TestNothingIsCountedAfterFinal(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 1_000_000)
		env.Clock.Set(start.AddDate(0, 0, 10).Add(-time.Second))
		p.add("gifts", inc(1, 1, "first")) // makes the bucket
		behind := p.replica(p.boards, func() time.Time { return env.Clock.Now().Add(-time.Minute) })
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		var applied, refused atomic.Int64
		for caller := range 4 {
			service := []*ledger.Service{p.ledger, behind}[caller%2]
			callers.Go(func() {
				for call := 0; ctx.Err() == nil || refused.Load() == 0; call++ {
					results, err := testenv.Available(t, func() ([]ledger.Result, error) {
						return service.Add(t.Context(), "gifts", []ledger.Increment{inc(models.RowID(caller+1), 1, fmt.Sprint(caller, "-", call))})
					})
					switch {
					case err != nil:
						t.Error(err)
						return
					case results[0].Status == ledger.Rejected:
						refused.Add(1)
					default:
						applied.Add(1)
					}
				}
			})
		}
		testenv.Eventually(t, "increments are counted", func() bool { return applied.Load() > 20 })
		env.Clock.Advance(time.Second)
		testenv.Eventually(t, "the event is final", func() bool {
			n, err := p.catalog.Buckets.Finish(t.Context())
			return n == 1 && err == nil
		})
		sum := func() (sum int64) {
			for _, total := range p.totals("gifts") {
				sum += total.Score
			}
			return sum
		}
		final := sum()
		stop()
		testenv.Wait(t, "the calls end", &callers)
		if after := sum(); after != final || after != applied.Load()+1 {
			t.Errorf("final with %d, then %d; %d were applied", final, after, applied.Load()+1)
		}
	})
}

// A late increment that is counted and does not reach the board, because its process dies, reaches it
// later.
func TestALateIncrementIsRaisedAfterwards(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100)
		env.Clock.Set(start.AddDate(0, 0, 11))
		at := models.TimestampOf(start.AddDate(0, 0, 10).Add(-time.Hour))
		away := p.replica(&faultyBoards{Writer: p.boards, away: true}, env.Clock.Now)
		late := ledger.Increment{User: testenv.ID(1), Amount: 7, Result: true, EventID: "a", OccurredAt: &at}
		if results, err := away.Add(t.Context(), "contest", []ledger.Increment{late}); err != nil || results[0].Status != ledger.Applied {
			t.Fatal(results, err)
		}
		if got := p.inRedis("contest"); len(got) != 0 {
			t.Fatalf("Redis has %v", got)
		}
		if _, _, err := p.reconciler().Replay(t.Context(), recovery.Loss{CheckpointedAt: env.Clock.Now()}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[models.RowID]string{1: scoreAt(7, at)}, p.inRedis("contest")); diff != "" {
			t.Errorf("in Redis (-want +got):\n%s", diff)
		}
	})
}
