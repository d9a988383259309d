package archive_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
)

// Of two concurrent callers one archives the bucket; the other gets
// CodeArchiveRunning.
func TestTwoArchivers(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		b, entries := f.dueBucket(100)
		begun, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var first sync.WaitGroup
		first.Go(func() {
			_, err := f.archive.Archive(context.WithoutCancel(t.Context()), b, func(int64) { once.Do(func() { close(begun); <-goOn }) })
			if err != nil {
				t.Error(err)
			}
		})
		testenv.Receive(t, "the first run begins", begun)
		if _, err := f.archiveOver(f.boards).Archive(t.Context(), b, func(int64) {}); models.CodeOf(err) != models.CodeArchiveRunning {
			t.Errorf("the second one: %v", err)
		}
		close(goOn)
		testenv.Wait(t, "the first run ends", &first)
		f.checkArchived(b, ranked(entries))
	})
}

// A process that stands still in the middle of a run, and has lost its lease, does not
// keep the next one from archiving the bucket. When it continues, its run fails and
// changes nothing.
func TestAnArchiverThatStandsStill(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	b, entries := f.dueBucket(2000)
	reading, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hot := &gatedStore{f.inRedis(), func(context.Context) { once.Do(func() { close(reading); <-goOn }) }}
	stopped := archive.New(f.store, archive.FromRedis(hot, nil), unguardedLeases{}, env.Clock.Now, env.Log)
	defer stopped.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := stopped.Archive(context.WithoutCancel(t.Context()), b, func(int64) {})
		failed <- err
	}()
	testenv.Receive(t, "the run reads", reading)
	// It reads ahead. If it locked the bucket only now, it would end the session of the next run.
	testenv.Eventually(t, "the bucket is locked", func() bool {
		var locks int
		err := env.Pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32) | objid::bigint =
			hashtextextended(current_schema() || '/archive/' || $1 || '/' || $2, 0)`, b.Board, b.Name).Scan(&locks)
		return err == nil && locks == 1
	})
	if run := f.mustArchive(b); run.State != models.ArchiveComplete || run.Moved != int64(len(entries)) {
		t.Errorf("the next run is %+v", run)
	}
	close(goOn)
	if err := testenv.Receive(t, "the run ends", failed); err == nil {
		t.Error("the run of the stopped process has not failed")
	}
	f.checkArchived(b, ranked(entries))
}

// hookedStore is a hot store that calls after behind each step of a run.
type hookedStore struct {
	*board.Store
	after func(step string) error
}

func (s *hookedStore) Freeze(ctx context.Context, b *models.Bucket, run int) error {
	return errors.Join(s.Store.Freeze(ctx, b, run), s.after("frozen"))
}

func (s *hookedStore) FrozenParts(ctx context.Context, b *models.Bucket, upto int) ([]models.FrozenPart, error) {
	parts, err := s.Store.FrozenParts(ctx, b, upto)
	return parts, errors.Join(err, s.after("listed"))
}

func (s *hookedStore) ReadFrozen(ctx context.Context, b *models.Bucket, p models.FrozenPart, from int64, n int) ([]models.Entry, error) {
	entries, err := s.Store.ReadFrozen(ctx, b, p, from, n)
	return entries, errors.Join(err, s.after("read"))
}

func (s *hookedStore) DropFrozen(ctx context.Context, b *models.Bucket, parts []models.FrozenPart) error {
	if err := s.after("stored"); err != nil {
		return err
	}
	return errors.Join(s.Store.DropFrozen(ctx, b, parts), s.after("dropped"))
}

// After whichever step a run stops, the next run finds all entries, those written
// meanwhile included.
func TestARunIsResumedAfterEachStep(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 3)
	start := env.Clock.Now()
	for i, step := range []string{"frozen", "listed", "read", "stored", "dropped"} {
		env.Clock.Set(start.AddDate(0, 0, i+1))
		b := f.today()
		entries, late, stale := randomEntries(t, b, 1200, uint64(i)), randomEntries(t, b, 40, uint64(i+10)), randomEntries(t, b, 40, uint64(i+20))
		f.raise(b, entries...)
		f.makeDue(b)
		broken := errors.New("stopped after " + step)
		var once sync.Once
		failing := f.archiveOver(&hookedStore{f.inRedis(), func(at string) (err error) {
			if at == step {
				once.Do(func() {
					f.raise(b, late...)
					f.raiseLate(b, stale...)
				})
				return broken
			}
			return nil
		}})
		if _, err := failing.Archive(t.Context(), b, func(int64) {}); !errors.Is(err, broken) {
			t.Errorf("%s: %v", step, err)
		}
		runs, err := f.archive.Runs(t.Context(), archive.RunsQuery{Limit: 1})
		if err != nil || len(runs) != 1 || runs[0].Bucket != b.Name {
			t.Fatalf("%s: runs %+v, %v", step, runs, err)
		}
		committed := step == "stored" || step == "dropped"
		if committed != (runs[0].State == models.ArchiveComplete) || committed != (runs[0].Error == "") {
			t.Errorf("%s: the run is %+v", step, runs[0])
		}
		due, err := f.archive.Due(t.Context())
		if err != nil || !slices.ContainsFunc(due, func(d *models.Bucket) bool { return d.Name == b.Name }) {
			t.Fatalf("%s: due %v, %v", step, due, err)
		}
		for range 2 { // once for the bucket, once for the entries written since
			f.mustArchive(b)
		}
		f.checkArchived(b, ranked(entries, late, stale))
	}
}

// unguardedLeases grants every lease to every caller, like a server that has
// failed over.
type unguardedLeases struct{}

func (unguardedLeases) Hold(ctx context.Context, _ string, fn func(context.Context) error) error {
	return fn(ctx)
}

// A complete run stays complete, even if a process that has lost its lease
// completes it while another process is about to resume it. Otherwise readers
// would turn to Redis, which has no entries any more.
func TestACompleteRunStaysComplete(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	b, entries := f.dueBucket(100)
	calls := 0
	clock := func() time.Time {
		if calls++; calls == 2 { // it has seen that no run exists
			f.mustArchive(b)
		}
		return env.Clock.Now()
	}
	// Should it go on with the run, it fails at the first step.
	broken := errors.New("stopped")
	second := archive.New(f.store, archive.FromRedis(&hookedStore{f.inRedis(), func(string) error { return broken }}, nil), unguardedLeases{}, clock, env.Log)
	defer second.Close()
	if run, err := second.Archive(t.Context(), b, func(int64) {}); err != nil || run.State != models.ArchiveComplete || run.Attempts != 1 {
		t.Errorf("run %+v, %v", run, err)
	}
	if calls < 2 {
		t.Fatalf("the clock was read %d times", calls)
	}
	if done, err := f.archiveOver(f.boards).Complete(t.Context(), b); err != nil || !done {
		t.Errorf("complete: %v, %v", done, err)
	}
	f.checkArchived(b, ranked(entries))
}

// A run that fails again counts its attempts and leaves the runs of other buckets
// unchanged.
func TestARunThatFailsAgain(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	b, entries := f.dueBucket(10)
	// Another process died while it archived another bucket.
	dead := models.ArchiveRun{Board: "steps", Bucket: "20260101", Run: 1, Shards: 1, State: models.ArchiveRunning, Attempts: 1, StartedAt: env.Clock.Now()}
	if err := env.Gorm.Create(&dead).Error; err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	failing := f.archiveOver(&hookedStore{f.inRedis(), func(step string) error {
		if step == "read" {
			return broken
		}
		return nil
	}})
	for attempt := 1; attempt <= 3; attempt++ {
		if _, err := failing.Archive(t.Context(), b, func(int64) {}); !errors.Is(err, broken) {
			t.Errorf("it fails with %v", err)
		}
		runs, err := f.archive.Runs(t.Context(), archive.RunsQuery{Limit: 10})
		if err != nil || len(runs) != 2 {
			t.Fatalf("runs %+v, %v", runs, err)
		}
		if r := runs[0]; r.Bucket != b.Name || r.State != models.ArchiveFailed || r.Attempts != attempt || !strings.Contains(r.Error, "broken") {
			t.Errorf("attempt %d: %+v", attempt, r)
		}
		if r := runs[1]; r.Bucket != dead.Bucket || r.State != models.ArchiveRunning || r.Error != "" || r.FinishedAt != nil {
			t.Errorf("attempt %d: the other bucket's run is %+v", attempt, r)
		}
	}
	if run := f.mustArchive(b); run.Run != 1 || run.Attempts != 4 {
		t.Errorf("run %+v", run)
	}
	f.checkArchived(b, ranked(entries))
}
