package corrections_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/results"
)

// results returns the results in the outbox, oldest first: revision, entries, sum, and the
// rank, user and score of each.
func (f *fixture) results() (list []string) {
	f.t.Helper()
	var payloads []string
	err := f.env.Gorm.Raw(`SELECT payload FROM webhook_deliveries WHERE type = 'board.final' ORDER BY id`).Scan(&payloads).Error
	if err != nil {
		f.t.Fatal(err)
	}
	for _, payload := range payloads {
		var r struct {
			Revision, Total int
			ScoreSum        int64 `json:"score_sum"`
			Top             []results.TopEntry
		}
		if err := json.Unmarshal([]byte(payload), &r); err != nil {
			f.t.Fatal(err)
		}
		var rows []string
		for i, e := range r.Top {
			rows = append(rows, fmt.Sprintf("%d. %s %d", i+1, e.User, e.Score))
		}
		list = append(list, fmt.Sprint("revision ", r.Revision, ": ", r.Total, " entries, sum ", r.ScoreSum, " ", rows))
	}
	return list
}

func (f *fixture) checkResults(when string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.results()); diff != "" {
		f.t.Errorf("%s: results (-want +got):\n%s", when, diff)
	}
}

// A correction of an archived day, and its lifting, send the next revision of its result, in
// the transaction of the run. It has the figures of the archive.
func TestResultOfACorrectedDay(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		b := f.today()
		for user := range models.RowID(3) {
			f.raise(b, user+1, 1_000*int64(user+1))
		}
		f.archiveDay(b)
		const first = "revision 1: 3 entries, sum 6000 [1. 3 3000 2. 2 2000 3. 1 1000]"
		f.checkResults("archived", first)
		c := f.create(set(3, b.Day, 1_500))

		damage := `CREATE TRIGGER damage BEFORE INSERT ON webhook_deliveries BEGIN SELECT RAISE(ABORT, 'damaged'); END`
		repair := `DROP TRIGGER damage`
		if env.Pool != nil {
			damage = `ALTER TABLE webhook_deliveries ADD CONSTRAINT damage CHECK (state <> 'waiting') NOT VALID`
			repair = `ALTER TABLE webhook_deliveries DROP CONSTRAINT damage`
		}
		exec := func(statement string) {
			t.Helper()
			if err := env.Gorm.Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
		exec(damage)
		if _, err := f.archive.Archive(t.Context(), b, func(int64) {}); err == nil {
			t.Error("a run has succeeded without its result")
		}
		exec(repair)
		f.checkArchived("after a run without its result", b, "1. 3 3000", "2. 2 2000", "3. 1 1000")
		if due := testenv.Must(f.corrections.PendingBuckets(t.Context())); len(due) != 1 {
			t.Errorf("pending are %v", due)
		}

		run := f.archiveDay(b)
		f.checkArchived("corrected", b, "1. 2 2000", "2. 3 1500", "3. 1 1000")
		second := fmt.Sprintf("revision 2: %d entries, sum %d %v", run.Entries, run.PointsSum, f.archived(b))
		f.checkResults("corrected", first, second)
		f.lift(c.ID)
		f.archiveDay(b)
		f.checkResults("lifted", first, second, "revision 3"+first[len("revision 1"):])
	})
}

// The result of an event has the corrections. One that is made or lifted after it was
// announced sends the next revision, before the archival and after it.
func TestResultOfACorrectedEvent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newLedgerFixture(t, env)
		b := f.only("gifts")
		for user := range models.RowID(3) {
			f.add("gifts", user+1, 100*int64(user+1), fmt.Sprint(user))
		}
		lowered, excluded := f.create(on("gifts", set(3, 0, 50))), f.create(on("gifts", exclude(1, 0)))
		events := results.NewEvents(f.outbox, env.Gorm, env.Clock.Now)
		announce := func(when string, due int64, want ...string) {
			t.Helper()
			if n, err := events.Announce(t.Context()); n != due || err != nil {
				t.Errorf("%s: announced %d, %v, want %d", when, n, err, due)
			}
			f.checkResults(when, want...)
		}
		env.Clock.Set(b.EndsAt)
		testenv.Finish(f.t, f.catalog.Buckets, b)
		first := "revision 1: 2 entries, sum 250 [1. 2 200 2. 3 50]"
		announce("final", 1, first)
		announce("again", 0, first)
		f.lift(lowered.ID)
		second := "revision 2: 2 entries, sum 500 [1. 3 300 2. 2 200]"
		announce("lifted", 1, first, second)
		announce("lifted, again", 0, first, second)
		f.create(on("gifts", set(3, 0, 300))) // only the time changes
		third := "revision 3: 2 entries, sum 500 [1. 3 300 2. 2 200]"
		announce("the score is the same", 1, first, second, third)
		f.archiveDay(b)
		f.checkResults("archived", first, second, third)
		f.lift(excluded.ID)
		f.archiveDay(b)
		f.checkResults("lifted in the archive", first, second, third, "revision 4: 3 entries, sum 600 [1. 3 300 2. 2 200 3. 1 100]")
	})
}
