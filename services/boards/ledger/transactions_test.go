package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ledger"
)

// Concurrent lists with the same ids in different orders, for the same users or for
// others, do not deadlock.
func TestOverlappingListsDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	for _, board := range []string{"gifts", "active"} {
		p := newFixture(t, env, 1_000_000)
		services := []*ledger.Service{p.ledger, p.replica(p.boards, env.Clock.Now), p.replica(p.boards, env.Clock.Now)}
		before := deadlocks(t, env)
		for round := range 10 {
			var items []ledger.Increment
			for i := range 200 {
				items = append(items, inc(models.RowID(1+i%150), 1, fmt.Sprintf("%d-%d", round, i)))
			}
			var wg sync.WaitGroup
			for c := range 9 {
				wg.Go(func() {
					own := slices.Clone(items)
					for i := range own { // in odd rounds they meet at the ids, not at the totals
						own[i].User = testenv.ID(rowOf(own[i].User) + models.RowID(c*1000*(round%2)))
					}
					rng := rand.New(rand.NewPCG(uint64(round), uint64(c)))
					rng.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
					if _, err := services[c%3].Add(t.Context(), board, own); err != nil {
						t.Error(err)
					}
				})
			}
			testenv.Wait(t, "the calls end", &wg)
		}
		if n := len(p.events(board)); n != 2000 {
			t.Errorf("%d increments are stored", n)
		}
		p.checkTotals(board)
		if n := deadlocks(t, env) - before; n > 0 {
			t.Errorf("%d deadlocks", n)
		}
	}
}

// deadlocks returns the number of deadlocks of the server so far.
func deadlocks(t *testing.T, env *testenv.Env) (n int64) {
	t.Helper()
	if err := env.Pool.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// At the turn of the hour no window passes the largest score, even if the clocks of
// replicas differ.
func TestTheTurnOfTheHour(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	const largest = 60
	p := newFixture(t, env, largest)
	env.Clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	for user := range models.RowID(20) {
		p.add("active", inc(user+1, 5, fmt.Sprint("before-", user)))
	}
	services := p.atTheTurn()
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for n := range 15 {
				for user := range models.RowID(20) {
					if _, err := services[c%2].Add(t.Context(), "active", []ledger.Increment{inc(user+1, 1, fmt.Sprintf("%d-%d-%d", c, n, user))}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	testenv.Wait(t, "the calls end", &wg)
	for user := range models.RowID(20) {
		// Clients of the faster replica were rejected only when the window was full.
		if sum := p.sumOf(user + 1); sum != largest {
			t.Errorf("user %d has %d in the window that begins at 13:00, and at most %d fit", user+1, sum, largest)
		}
	}
	p.checkTotals("active")
}

// atTheTurn returns two replicas. The clock of the second is in the next hour.
func (p *fixture) atTheTurn() [2]*ledger.Service {
	slow := testenv.NewClock(time.Date(2026, 11, 20, 14, 59, 59, 0, time.UTC))
	fast := testenv.NewClock(time.Date(2026, 11, 20, 15, 0, 1, 0, time.UTC))
	return [2]*ledger.Service{p.replica(p.boards, slow.Now), p.replica(p.boards, fast.Now)}
}

// sumOf returns the sum of a user's totals of the two hours around the turn.
func (p *fixture) sumOf(user models.RowID) (sum int64) {
	p.t.Helper()
	for _, total := range p.totals("active") {
		if total.User == user && (total.Total == "2026112014" || total.Total == "2026112015") {
			sum += total.Score
		}
	}
	return sum
}

// Increments of a user in different hours are serialized: the window of the second
// includes the first, even if that is not committed when the second begins.
func TestHoursTakeTurns(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env, 10)
	p.store.WaitForLocks(time.Hour)
	p.bucket("active")
	services := p.atTheTurn()
	results := make([]string, 2)
	var calls []chan struct{}
	add := func(tx *gorm.DB, i int, id string) {
		calls = append(calls, testenv.Behind(t, env, tx, i+1, func() {
			got, err := services[i].Add(t.Context(), "active", []ledger.Increment{inc(1, 6, id)})
			if err != nil {
				t.Error(err)
				return
			}
			results[i] = brief(got[0])
		}))
	}
	// An uncommitted row with the id of the first one blocks it at its last step.
	held := errors.New("never mind")
	err := env.Gorm.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&models.ScoreEvent{Board: "active", EventID: "slow", Total: "x", User: 2, Delta: 1}).Error; err != nil {
			return err
		}
		add(tx, 0, "slow")
		add(tx, 1, "fast")
		return held
	})
	for _, call := range calls {
		testenv.Receive(t, "the call ends", call)
	}
	if !errors.Is(err, held) {
		t.Fatal(err)
	}
	want := []string{"slow applied 6 at 14:59:59.000", "fast rejected score_out_of_range"}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Calls that arrive while the database is busy share one transaction.
func TestCallsShareTransactions(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env, 1000)
	p.store.WaitForLocks(time.Hour)
	p.add("gifts", inc(1, 1, "one"), inc(2, 1, "two"))
	const calls = 50
	var wg sync.WaitGroup
	add := func(user models.RowID, id string) {
		wg.Go(func() {
			if _, err := p.ledger.Add(t.Context(), "gifts", []ledger.Increment{inc(user, 1, id)}); err != nil {
				t.Error(err)
			}
		})
	}
	err := env.Gorm.Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(`SELECT FROM score_totals FOR UPDATE`).Error; err != nil {
			return err
		}
		add(1, "blocked")
		testenv.Eventually(t, "a transaction waits", func() bool { return testenv.Blocked(t, env, tx) == 1 })
		for i := range calls {
			add(1, fmt.Sprint("waiting-", i))
		}
		testenv.Eventually(t, "calls wait", func() bool { return p.ledger.Waiting() == calls })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Wait(t, "the calls end", &wg)
	if got := brief(p.add("gifts", inc(1, 1, "last"))[0]); got != "last applied 53 at 13:00:00.000" {
		t.Error(got)
	}
	// One before, one that was blocked, one for all that waited, and one after.
	if n := p.ledger.Stats().Flushes.Load(); n != 4 {
		t.Errorf("%d transactions for %d calls", n, calls)
	}
}

// If the database is away, nothing is acknowledged.
func TestADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100)
		p.add("gifts", inc(1, 1, "a"))
		if err := env.Close(); err != nil {
			t.Fatal(err)
		}
		if results, err := p.ledger.Add(t.Context(), "gifts", []ledger.Increment{inc(1, 1, "b")}); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("%v, %v", results, err)
		}
	})
}
