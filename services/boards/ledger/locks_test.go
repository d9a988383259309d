package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ledger"
)

// stuck runs fn while another session's transaction has run statements and does
// not end. Nothing of that transaction is stored.
func (p *fixture) stuck(fn func(tx *gorm.DB), statements ...string) {
	p.t.Helper()
	over := errors.New("over")
	err := p.env.Gorm.Transaction(func(tx *gorm.DB) error {
		for _, statement := range statements {
			if err := tx.Exec(statement).Error; err != nil {
				return err
			}
		}
		fn(tx)
		return over
	})
	if !errors.Is(err, over) {
		p.t.Fatal(err)
	}
}

// repeat sends an increment until it is counted.
func (p *fixture) repeat(board string, i ledger.Increment) {
	results, err := testenv.Available(p.t, func() ([]ledger.Result, error) {
		return p.ledger.Add(p.t.Context(), board, []ledger.Increment{i})
	})
	if err != nil || results[0].Status == ledger.Rejected {
		p.t.Errorf("%+v: %v, %v", i, results, err)
	}
}

// While another session has locked rows of some users, the increments of all
// others are counted. Those of the locked users are counted afterwards.
func TestLockedRowsHoldUpOnlyTheirUsers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// statement was executed by the other session for users 1 and 2. They have
		// a total unless new is true.
		statement string
		new       bool
	}{
		{"locked totals", `SELECT FROM score_totals WHERE user_id <= 2 FOR UPDATE`, false},
		{"totals that are being inserted", `
			INSERT INTO score_totals (board, user_id, total, score, reached_at)
			SELECT board, user_id, total, 1, now()
			FROM (VALUES ('gifts', 'event'), ('active', 'live'), ('active', '2026112013')) AS b (board, total),
				(VALUES (1), (2)) AS u (user_id)`, true},
		{"increments that are being inserted", `
			INSERT INTO score_events (board, event_id, total, user_id, delta, accepted_at, score, reached_at)
			SELECT board, 'locked-' || user_id, 'x', user_id, 1, now(), 1, now()
			FROM (VALUES ('gifts'), ('active')) AS b (board), (VALUES (1), (2)) AS u (user_id)`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, board := range []string{"gifts", "active"} {
				p := newFixture(t, testenv.Real(t), 1000)
				first := models.RowID(1)
				if tt.new {
					first = 3
				}
				for user := first; user <= 5; user++ {
					p.add(board, inc(user, 1, fmt.Sprint("before-", user)))
				}
				p.checkOthersGoOn(board, tt.statement)
			}
		})
	}
}

// checkOthersGoOn runs a statement on the rows of users 1 and 2 in a transaction
// that stays open until all increments of other users are counted.
func (p *fixture) checkOthersGoOn(board, statement string) {
	p.t.Helper()
	const users, calls = 20, 10
	var own, others sync.WaitGroup
	var counted atomic.Bool
	p.stuck(func(*gorm.DB) {
		for user := range models.RowID(2) {
			own.Go(func() {
				p.repeat(board, inc(user+1, 1, fmt.Sprint("locked-", user+1)))
				counted.Store(true)
			})
		}
		testenv.Eventually(p.t, "the increments of the locked users wait", func() bool { return p.ledger.Stats().Locked.Load() >= 2 })
		for user := range models.RowID(users) {
			others.Go(func() {
				for n := range calls {
					if _, err := p.ledger.Add(p.t.Context(), board, []ledger.Increment{inc(user+3, 1, fmt.Sprintf("%d-%d", user+3, n))}); err != nil {
						p.t.Error(err)
						return
					}
				}
			})
		}
		testenv.Wait(p.t, "the others' calls end", &others)
		if counted.Load() {
			p.t.Error("an increment was counted although its user's rows are locked")
		}
	}, statement)
	testenv.Wait(p.t, "the own calls end", &own)
	want := make(map[string]int64)
	for user := range models.RowID(users) {
		for n := range calls {
			want[fmt.Sprintf("%d-%d", user+3, n)] = 1
		}
	}
	want["locked-1"], want["locked-2"] = 1, 1
	got := make(map[string]int64)
	for _, e := range p.events(board) {
		if !strings.HasPrefix(e.EventID, "before") {
			got[e.EventID]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("%s: increments (-want +got):\n%s", board, diff)
	}
	p.checkTotals(board)
}

// behind returns the service of another process, whose connections to Postgres
// go through a proxy.
func (p *fixture) behind(link *testenv.Proxy) *ledger.Service {
	cfg := p.env.Config
	cfg.Postgres.DSN = testenv.WithAddress(cfg.Postgres.DSN, link.Addr())
	st := testenv.Must(stores.Open(p.t.Context(), cfg, p.env.Clock.Now, nil))
	p.t.Cleanup(func() {
		if err := st.Close(); err != nil {
			p.t.Error(err)
		}
	})
	s := ledger.New(ledger.NewStore(st.Gorm, st.Gorm, st.Pool), p.catalog.Buckets, testenv.Numbers{}, p.boards, p.env.Clock.Now, p.env.Log)
	p.t.Cleanup(s.Close)
	return s
}

// A call with a user whose rows are locked is refused in time. The increments of
// its other users are counted, and once more sending the call counts the rest.
func TestACallWithALockedUser(t *testing.T) {
	t.Parallel()
	for _, board := range []string{"gifts", "active"} {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			p := newFixture(t, testenv.Real(t), 1000)
			p.add(board, inc(1, 1, "a"), inc(2, 1, "b"))
			items := []ledger.Increment{inc(1, 2, "c"), inc(2, 3, "d"), inc(3, 4, "e"), inc(2, 3, "c"), inc(2, 1, "b")}
			p.stuck(func(*gorm.DB) {
				for range 2 { // the second time the user is remembered
					results, err := p.ledger.Add(t.Context(), board, items)
					if models.CodeOf(err) != models.CodeUnavailable || results != nil {
						t.Errorf("%v, %v", results, err)
					}
				}
			}, `SELECT FROM score_totals WHERE user_id = 1 FOR UPDATE`)
			want := []string{
				"c applied 3 at 13:00:00.000", "d duplicate 4 at 13:00:00.000", "e duplicate 4 at 13:00:00.000",
				"c rejected event_id_conflict", "b duplicate 1 at 13:00:00.000",
			}
			if diff := cmp.Diff(want, briefs(p.add(board, items...))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			p.checkTotals(board)
		})
	}
}

// Increments wait while their tables are locked, and are counted afterwards.
func TestALockedTable(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Real(t), 1000)
	p.add("gifts", inc(1, 1, "a"))
	var wg sync.WaitGroup
	p.stuck(func(*gorm.DB) {
		for user := range models.RowID(3) {
			wg.Go(func() { p.repeat("gifts", inc(user+1, 1, fmt.Sprint("b-", user))) })
		}
		testenv.Eventually(t, "the increments wait", func() bool { return p.ledger.Stats().Locked.Load() >= 3 })
	}, `LOCK TABLE score_totals`)
	testenv.Wait(t, "the calls end", &wg)
	if n := len(p.events("gifts")); n != 4 {
		t.Errorf("%d increments are stored", n)
	}
	p.checkTotals("gifts")
}

// Postgres ends the transaction of a process that stops between two statements,
// and its rows are free.
func TestTheTransactionOfAStoppedProcessEnds(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env, 1000)
	p.add("gifts", inc(1, 1, "a"))
	link := testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN))
	stopped := p.behind(link)
	link.HoldAt(0, "stopped", "stopped") // the id in the last step, which commits
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if results, err := stopped.Add(ctx, "gifts", []ledger.Increment{inc(1, 1, "stopped")}); err == nil {
			t.Errorf("%v", results)
		}
	})
	testenv.Eventually(t, "the transaction is held", func() bool { return link.Holding() })
	p.repeat("gifts", inc(1, 1, "stopped"))
	cancel()
	testenv.Wait(t, "the calls end", &wg)
	link.Cut()
	if got := briefs(p.add("gifts", inc(1, 1, "b"), inc(1, 1, "stopped"))); got[0] != "b applied 3 at 13:00:00.000" || got[1] != "stopped duplicate 2 at 13:00:00.000" {
		t.Error(got)
	}
	p.checkTotals("gifts")
}
