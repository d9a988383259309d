package archive_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/results"
	"stepboard/services/boards/score"
	"stepboard/services/platform/outcomes"
)

// announceResults makes the archive write results to an outbox, which is returned.
func (f *fixture) announceResults() *outcomes.Outbox {
	outbox := outcomes.NewOutbox([]outcomes.Target{{URL: "https://example.com"}}, f.env.Clock.Now)
	f.store = archive.NewStore(archive.StoreOptions{Runs: f.env.Gorm, Pool: f.env.Pool, Outbox: outbox})
	f.archive = f.archiveOver(f.boards)
	return outbox
}

// results returns the results in the outbox, oldest first.
func (f *fixture) results() []results.Final {
	f.t.Helper()
	payloads := f.column(`SELECT payload FROM webhook_deliveries WHERE type = 'board.final' ORDER BY id`)
	list := make([]results.Final, len(payloads))
	for i, payload := range payloads {
		if err := json.Unmarshal([]byte(payload), &list[i]); err != nil {
			f.t.Fatal(err)
		}
	}
	return list
}

// resultOf returns the result that the entries of a bucket have.
func resultOf(b *models.Bucket, kind models.Kind, revision int, entries []models.Entry) results.Final {
	r := results.Final{Board: b.Board, Kind: kind, Revision: revision, Total: int64(len(entries)), Top: []results.TopEntry{}}
	if kind == models.KindDaily {
		date := b.Day.String()
		r.Date = &date
	}
	for i, e := range entries {
		points, reachedAt := score.Of(b).Decode(e.Composite)
		r.ScoreSum += b.Score(points)
		if i < 100 {
			r.Top = append(r.Top, results.TopEntry{User: e.User, Score: b.Score(points), ReachedAt: reachedAt})
		}
	}
	return r
}

func (f *fixture) checkResults(when string, want ...results.Final) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.results()); diff != "" {
		f.t.Errorf("%s: results (-want +got):\n%s", when, diff)
	}
}

// The first run of a day writes its result, and each later one that changes it the next
// revision. A run that changes nothing writes none.
func TestResultsOfDays(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 2)
		f.announceResults()
		b, entries := f.dueBucket(150)
		f.mustArchive(b)
		first := resultOf(b, models.KindDaily, 1, ranked(entries))
		f.checkResults("after the first run", first)
		f.raiseLate(b, entries[:50]...)
		if run := f.mustArchive(b); run.Run != 2 && env.Redis != nil { // in hot_scores nothing is new
			t.Fatalf("no run has merged: %+v", run)
		}
		f.checkResults("after a run that changes nothing", first)
		late := []models.Entry{entry(t, b, 9999, 0, b.StartsAt.Add(time.Minute))} // the last of all
		f.raiseLate(b, late...)
		f.mustArchive(b)
		f.checkResults("after a late score", first, resultOf(b, models.KindDaily, 2, ranked(entries, late)))
	})
}

// A run that fails writes no result.
func TestAFailedRunHasNoResult(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		f.announceResults()
		b, entries := f.dueBucket(10)
		damage := `CREATE TRIGGER damage BEFORE INSERT ON webhook_deliveries BEGIN SELECT RAISE(ABORT, 'damaged'); END`
		repair := `DROP TRIGGER damage`
		if env.Pool != nil {
			damage = `ALTER TABLE webhook_deliveries ADD CONSTRAINT damage CHECK (type <> 'board.final')`
			repair = `ALTER TABLE webhook_deliveries DROP CONSTRAINT damage`
		}
		if err := env.Gorm.Exec(damage).Error; err != nil {
			t.Fatal(err)
		}
		_ = f.mustFail(b)
		f.checkResults("after a failed run", []results.Final{}...)
		if done, err := f.archive.Complete(t.Context(), b); done || err != nil {
			t.Errorf("complete without its result: %v, %v", done, err)
		}
		if err := env.Gorm.Exec(repair).Error; err != nil {
			t.Fatal(err)
		}
		f.mustArchive(b)
		f.checkResults("after the next run", resultOf(b, models.KindDaily, 1, ranked(entries)))
	})
}

// The result of an event is written from the ledger once it is final, and again by its archival only
// if it has changed.
func TestResultsOfEvents(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		outbox := f.announceResults()
		b, entries := f.runningEvent(150)
		events := results.NewEvents(outbox, env.Gorm, env.Clock.Now)
		announce := func(at time.Time, want int64) {
			t.Helper()
			env.Clock.Set(at)
			if n, err := events.Announce(t.Context()); n != want || err != nil {
				t.Errorf("%v: announced %d, %v, want %d", at, n, err, want)
			}
		}
		announce(b.EndsAt.Add(time.Minute), 0)
		f.checkResults("before it is final", []results.Final{}...)
		testenv.Finish(f.t, f.catalog.Buckets, b)
		announce(b.EndsAt.Add(time.Minute), 1)
		first := resultOf(b, models.KindEvent, 1, ranked(entries))
		f.checkResults("final", first)
		announce(b.EndsAt.Add(time.Hour), 0)
		late := models.ScoreTotal{Board: b.Board, User: 777, Total: b.Name, Score: 5, ReachedAt: b.StartsAt}
		if err := env.Gorm.Create(&late).Error; err != nil {
			t.Fatal(err)
		}
		f.makeDue(b)
		f.mustArchive(b)
		changed := ranked(entries, []models.Entry{entry(t, b, 777, 5, b.StartsAt)})
		f.checkResults("after the archival", first, resultOf(b, models.KindEvent, 2, changed))
	})
}

// Without a target that wants results, nothing is written.
func TestNoResultsWithoutATarget(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		targets := []outcomes.Target{{URL: "https://example.com", Types: []models.OutcomeType{models.OutcomeFriendAccepted}}}
		f.store = archive.NewStore(archive.StoreOptions{Runs: env.Gorm, Pool: env.Pool, Outbox: outcomes.NewOutbox(targets, env.Clock.Now)})
		f.archive = f.archiveOver(f.boards)
		b, _ := f.dueBucket(10)
		f.mustArchive(b)
		f.checkResults("with other targets", []results.Final{}...)
		if rows := f.column(`SELECT board FROM board_results`); len(rows) != 0 {
			t.Errorf("%v is stored", rows)
		}
	})
}
