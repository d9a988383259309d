package crash_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// A process is killed at each step of counting increments, and of restoring them after Redis
// was emptied. Another one goes on: nothing that was acknowledged is lost, and nothing counts
// twice.
func TestSoakLedgerKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for round := range testenv.Rounds(1, 5) {
		for _, step := range testenv.Forms(t, 0, testenv.Failpoints(t, "ledger")) {
			t.Run(fmt.Sprintf("%d/%s", round, step), func(t *testing.T) {
				t.Parallel()
				testKilledLedger(t, step)
			})
		}
	}
}

func testKilledLedger(t *testing.T, step string) {
	t.Helper()
	env, _, rdb := withRedis(t)
	boards := giftBoards(2)
	first := testenv.Serve(t, env.Config, boards)
	g := startGivers(t, first.URL)
	g.awaitMore(20)
	harness.AwaitCheckpoint(t, rdb, env.Keys, "ledger")
	first.Stop()
	times := 1 + rand.N(20)
	if step == "ledger.some_reconciled" || step == "ledger.loss_replayed" {
		times = 1 // once in a pass
	}
	p := testenv.ServeUntil(t, fmt.Sprintf("%s#%d", step, times), env.Config, boards)
	g.redirect(p.URL)
	if step == "ledger.loss_replayed" {
		g.awaitMore(20)
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p.Killed()
	last := testenv.Serve(t, env.Config, boards)
	g.redirect(last.URL)
	g.awaitMore(20)
	g.end()
	g.check(&stores.Stores{Redis: rdb, Database: env.Database}, env.Keys)
	last.Stop()
}
