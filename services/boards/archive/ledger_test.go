package archive_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
)

// endedEvent defines an event that is over, counts a total for n users in the
// ledger, and returns its bucket and the entries. Redis has nothing of it.
func (f *fixture) runningEvent(n int) (*models.Bucket, []models.Entry) {
	f.t.Helper()
	start, end := f.env.Clock.Now(), f.env.Clock.Now().Add(2*time.Hour)
	err := f.catalog.Definitions.Define(f.t.Context(), []models.Board{{
		Name: "gifts", Kind: models.KindEvent, TimeZone: "Asia/Shanghai", StartsAt: &start, EndsAt: &end,
		MaxScore: 1_000_000, Shards: 2, Global: models.AudienceUsers,
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	b := testenv.Must(f.catalog.Buckets.ForIncrement(f.t.Context(), "gifts", start)).Bucket
	entries := make([]models.Entry, n)
	totals := make([]models.ScoreTotal, 0, n)
	for i := range entries {
		points, at := int64(1+i%20), b.StartsAt.Add(time.Duration(i%3)*time.Second)
		entries[i] = entry(f.t, b, models.RowID(1+i), points, at)
		totals = append(totals, models.ScoreTotal{Board: "gifts", User: entries[i].User, Total: b.Name, Score: points, ReachedAt: at})
	}
	if err := f.env.Gorm.WithContext(f.t.Context()).CreateInBatches(totals, 100).Error; err != nil {
		f.t.Fatal(err)
	}
	return b, entries
}

// endedEvent is runningEvent for an event that the archive may take.
func (f *fixture) endedEvent(n int) (*models.Bucket, []models.Entry) {
	f.t.Helper()
	b, entries := f.runningEvent(n)
	f.makeDue(b)
	return b, entries
}

// An event is archived from the ledger, whatever Redis has: nothing, a part, or
// keys that were filled again afterwards.
func TestAnEventIsArchivedFromTheLedger(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		b, entries := f.endedEvent(300)
		f.raise(b, entries[:100]...) // Redis was emptied and gets everything again
		f.checkWindow("before", f.boards, b, ranked(entries[:100]))
		run := f.mustArchive(b)
		if run.Run != 1 || run.State != models.ArchiveComplete || run.Entries != 300 || run.Moved != 300 {
			t.Errorf("run %+v", run)
		}
		f.checkArchived(b, ranked(entries))

		f.raise(b, entries...) // by a process that does not know yet
		if due, err := f.archive.Due(t.Context()); err != nil || len(due) != 1 && env.Redis != nil {
			t.Errorf("due %v, %v", due, err)
		}
		if run := f.mustArchive(b); run.Run != 1 || run.Attempts != 1 {
			t.Errorf("again: run %+v", run)
		}
		f.checkArchived(b, ranked(entries))
	})
}

// replay is a Recovery: it is under way while it holds an error.
type replay struct{ underWay atomic.Pointer[error] }

func (r *replay) Complete(context.Context) error {
	if err := r.underWay.Load(); err != nil {
		return *err
	}
	return nil
}

// A day is not archived while updates that Redis has lost are being applied again,
// whether they were lost before the run or while it reads.
func TestADayIsNotArchivedDuringAReplay(t *testing.T) {
	t.Parallel()
	underWay := errors.New("a replay is under way")
	env := testenv.Real(t)
	f := newFixture(t, env, 2)
	b, entries := f.dueBucket(300)
	recovery := &replay{}
	lose := func() {
		recovery.underWay.Store(&underWay)
		for shard := range b.Shards {
			if err := env.Redis.Del(t.Context(), env.Keys.Board(b, shard), env.Keys.Frozen(b, shard, 1, models.KeyBoard)).Err(); err != nil {
				t.Error(err)
			}
		}
	}
	s := archive.New(f.store, archive.FromRedis(&hookedStore{f.inRedis(), func(step string) error {
		if step == "frozen" {
			lose()
		}
		return nil
	}}, recovery), f.leases, env.Clock.Now, env.Log)
	defer s.Close()
	for _, when := range []string{"while it reads", "before it begins"} {
		if _, err := s.Archive(t.Context(), b, func(int64) {}); !errors.Is(err, underWay) {
			t.Errorf("a loss %s: %v", when, err)
		}
		if done, err := s.Complete(t.Context(), b); done || err != nil {
			t.Errorf("a loss %s: complete %v, %v", when, done, err)
		}
	}
	f.raise(b, entries...)
	recovery.underWay.Store(nil)
	f.mustArchive(b)
	f.checkArchived(b, ranked(entries))
}
