package archive_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/platform/lease"
)

// dueBuckets returns buckets of consecutive days with n users each, all of which
// may be archived, and their entries.
func (f *fixture) dueBuckets(days, n int) (buckets []*models.Bucket, entries [][]models.Entry) {
	f.t.Helper()
	for i := range days {
		b := f.today()
		buckets, entries = append(buckets, b), append(entries, randomEntries(f.t, b, n, uint64(i)))
		f.raise(b, entries[i]...)
		f.env.Clock.Advance(24 * time.Hour)
	}
	f.makeDue(buckets[days-1])
	return buckets, entries
}

// gatedStore is a hot store that calls gate before it reads a second chunk of a
// part.
type gatedStore struct {
	*board.Store
	gate func(ctx context.Context)
}

func (s *gatedStore) ReadFrozen(ctx context.Context, b *models.Bucket, p models.FrozenPart, from int64, n int) ([]models.Entry, error) {
	if from > 0 {
		s.gate(ctx)
	}
	return s.Store.ReadFrozen(ctx, b, p, from, n)
}

// Runs that report their progress while they hold every connection of the pool
// don't wait for each other.
func TestConcurrentRunsWithASmallPool(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	buckets, entries := f.dueBuckets(4, 2000)
	cfg := env.Config
	cfg.Postgres.MaxConns = 10 // two of them in the pool that the runs use
	small := testenv.Must(stores.Open(t.Context(), cfg, env.Clock.Now, nil))
	defer small.Close()
	allTaken := make(chan struct{})
	var once sync.Once
	gate := func(ctx context.Context) {
		select {
		case <-allTaken:
			return
		default:
		}
		for ctx.Err() == nil && small.Pool.Stat().AcquiredConns() < small.Pool.Stat().MaxConns() {
			runtime.Gosched()
		}
		once.Do(func() { close(allTaken) })
	}
	s := archive.New(archive.NewStore(archive.StoreOptions{Runs: small.Gorm, Pool: small.Pool, Reads: env.Gorm}), archive.FromRedis(&gatedStore{f.inRedis(), gate}, nil), f.leases, env.Clock.Now, env.Log)
	defer s.Close()
	s.SetLimits(100, time.Hour)
	ended := make(chan error, len(buckets))
	for _, b := range buckets {
		go func() {
			_, err := s.Archive(t.Context(), b, func(int64) {})
			ended <- err
		}()
	}
	testenv.Eventually(t, "every run ends", func() bool { return len(ended) == len(buckets) })
	for range buckets {
		if err := testenv.Receive(t, "a run ends", ended); err != nil {
			t.Error(err)
		}
	}
	for i, b := range buckets {
		f.checkArchived(b, ranked(entries[i]))
	}
}

// A process makes two runs at a time. Archive waits for one of them to end; Start
// does not wait.
func TestTwoRunsAtATime(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	buckets, entries := f.dueBuckets(5, 50)
	var mu sync.Mutex
	running, most := 0, 0
	count := func(change int) {
		mu.Lock()
		defer mu.Unlock()
		running += change
		most = max(most, running)
	}
	goOn := make(chan struct{})
	s := f.archiveOver(&hookedStore{f.inRedis(), func(step string) error {
		switch step {
		case "read":
			count(1)
			<-goOn
		case "dropped":
			count(-1)
		}
		return nil
	}})
	var callers sync.WaitGroup
	for _, b := range buckets {
		callers.Go(func() {
			if _, err := s.Archive(context.WithoutCancel(t.Context()), b, func(int64) {}); err != nil {
				t.Error(err)
			}
		})
	}
	testenv.Eventually(t, "two runs are under way", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return running == 2
	})
	for _, b := range buckets {
		if _, err := s.Start(t.Context(), b); models.CodeOf(err) != models.CodeArchiveRunning {
			t.Errorf("Start of a third run: %v", err)
		}
	}
	close(goOn)
	testenv.Wait(t, "the callers end", &callers)
	if most != 2 {
		t.Errorf("%d runs at a time", most)
	}
	for i, b := range buckets {
		f.checkArchived(b, ranked(entries[i]))
	}
}

// A run that passes its deadline fails, and the next call resumes it.
func TestTheDeadlineOfARun(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	b, entries := f.dueBucket(1200)
	s := archive.New(f.store, archive.FromRedis(&gatedStore{f.inRedis(), func(ctx context.Context) { <-ctx.Done() }}, nil), lease.NewLocal(), env.Clock.Now, env.Log)
	defer s.Close()
	s.SetLimits(100, 50*time.Millisecond)
	if _, err := s.Archive(t.Context(), b, func(int64) {}); err == nil {
		t.Error("the run did not fail")
	}
	if run := f.lastRun(); run.State != models.ArchiveFailed || !strings.Contains(run.Error, "deadline") {
		t.Errorf("the run is %+v", run)
	}
	f.mustArchive(b)
	f.checkArchived(b, ranked(entries))
}

// Runs are listed newest first, in pages, and those of a board, a bucket or a state.
func TestRuns(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		run := func(board, bucket string, state models.ArchiveState) models.ArchiveRun {
			return models.ArchiveRun{Board: board, Bucket: bucket, Run: 1, Shards: 1, State: state, Attempts: 1, StartedAt: env.Clock.Now()}
		}
		runs := []models.ArchiveRun{
			run("steps", "20261120", models.ArchiveComplete), run("walk", "20261120", models.ArchiveComplete), run("steps", "20261121", models.ArchiveFailed),
		}
		if err := env.Gorm.Create(&runs).Error; err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			query archive.RunsQuery
			want  []int // places in runs
		}{
			{archive.RunsQuery{Limit: 9}, []int{2, 1, 0}},
			{archive.RunsQuery{Limit: 2}, []int{2, 1}},
			{archive.RunsQuery{Limit: 2, Before: runs[1].ID}, []int{0}},
			{archive.RunsQuery{Limit: 9, Board: "steps"}, []int{2, 0}},
			{archive.RunsQuery{Limit: 9, Bucket: "20261120"}, []int{1, 0}},
			{archive.RunsQuery{Limit: 9, Board: "steps", State: models.ArchiveComplete}, []int{0}},
			{archive.RunsQuery{Limit: 9, State: models.ArchiveRunning}, nil},
		} {
			var want, got []int64
			for _, place := range tt.want {
				want = append(want, runs[place].ID)
			}
			for _, r := range testenv.Must(f.archive.Runs(t.Context(), tt.query)) {
				got = append(got, r.ID)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v: runs %v, want %v", tt.query, got, want)
			}
		}
	})
}
