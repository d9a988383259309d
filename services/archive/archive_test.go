package archive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/lease"
	"stepboard/services/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an archive over a test's stores.
type fixture struct {
	t       testing.TB
	env     *testenv.Env
	catalog *catalog.Catalog
	boards  *board.Store
	leases  *lease.Service
	store   *archive.Store
	archive *archive.Service
}

func newFixture(t testing.TB, env *testenv.Env, shards int) *fixture {
	t.Helper()
	w := &fixture{
		t: t, env: env,
		catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log),
		boards:  board.NewStore(env.Redis, env.Keys, env.Clock.Now),
	}
	defs := env.Config.BoardDefinitions()
	defs[0].Shards = shards
	if err := w.catalog.Define(t.Context(), defs); err != nil {
		t.Fatal(err)
	}
	w.store, w.leases = archive.NewStore(env.Gorm, env.Pool), lease.NewLocal()
	if env.Pool != nil {
		w.leases = lease.NewPostgres(env.Pool.Config().ConnConfig)
	}
	w.archive = w.with(w.boards)
	return w
}

// with is the archive over another view of Redis.
func (w *fixture) with(hot archive.HotStore) *archive.Service {
	s := archive.New(w.store, hot, w.leases, w.env.Clock.Now, w.env.Log)
	w.t.Cleanup(s.Close)
	return s
}

// today is a bucket that takes updates now.
func (w *fixture) today() *models.Bucket {
	w.t.Helper()
	b := testenv.Must(w.catalog.Board("steps"))
	now := w.env.Clock.Now()
	bucket, err := w.catalog.ForUpload(w.t.Context(), b, b.Today(now), now)
	if err != nil {
		w.t.Fatal(err)
	}
	return bucket
}

// due moves the clock to when the bucket may be archived.
func (w *fixture) due(b *models.Bucket) { w.env.Clock.Set(b.ColdAt.Add(time.Hour)) }

func (w *fixture) raise(b *models.Bucket, entries ...models.Entry) {
	w.t.Helper()
	raise(w.t, w.boards, b, entries)
}

func raise(t testing.TB, boards *board.Store, b *models.Bucket, entries []models.Entry) {
	t.Helper()
	raises := make([]models.Raise, len(entries))
	for i, e := range entries {
		raises[i] = models.Raise{Bucket: b, Entry: e}
	}
	for _, err := range boards.Raise(t.Context(), raises) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// filled is a bucket of n users that may be archived, and what it holds.
func (w *fixture) filled(n int) (*models.Bucket, []models.Entry) {
	w.t.Helper()
	b := w.today()
	entries := crowd(w.t, b, n, 1)
	w.raise(b, entries...)
	w.due(b)
	return b, entries
}

// oversleep raises a bucket as a process does that has not noticed that it is
// cold.
func (w *fixture) oversleep(b *models.Bucket, entries ...models.Entry) {
	w.t.Helper()
	asleep := board.NewStore(w.env.Redis, w.env.Keys, func() time.Time { return b.StartsAt })
	raise(w.t, asleep, b, entries)
}

// move archives the bucket.
func (w *fixture) move(b *models.Bucket) models.ArchiveRun {
	w.t.Helper()
	run, err := w.archive.Archive(w.t.Context(), b, func(int64) {})
	if err != nil {
		w.t.Fatal(err)
	}
	return run
}

// entry packs a score.
func entry(t testing.TB, b *models.Bucket, user models.UserID, points int64, at time.Time) models.Entry {
	t.Helper()
	c, err := score.Of(b).Encode(points, models.TimestampOf(at))
	if err != nil {
		t.Fatal(err)
	}
	return models.Entry{User: user, Composite: c}
}

// crowd is n users with few scores and few times, so that many tie.
func crowd(t testing.TB, b *models.Bucket, n int, seed uint64) []models.Entry {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	entries := make([]models.Entry, 0, n)
	seen := make(map[models.UserID]bool)
	for len(entries) < n {
		user := models.UserID(1 + rng.Int64N(int64(3*n)))
		if !seen[user] {
			seen[user] = true
			entries = append(entries, entry(t, b, user, rng.Int64N(20), b.StartsAt.Add(time.Duration(rng.IntN(3))*time.Second)))
		}
	}
	return entries
}

// ranked is the entries as a bucket holds them: the best of each user, in
// order.
func ranked(entries ...[]models.Entry) []models.Entry {
	best := make(map[models.UserID]models.Composite)
	for _, e := range slices.Concat(entries...) {
		best[e.User] = max(best[e.User], e.Composite)
	}
	list := make([]models.Entry, 0, len(best))
	for user, c := range best {
		list = append(list, models.Entry{User: user, Composite: c})
	}
	slices.SortFunc(list, models.Entry.Compare)
	return list
}

// check compares the archive with what it should hold, and Redis with nothing.
func (w *fixture) check(b *models.Bucket, want []models.Entry) {
	w.t.Helper()
	ctx := w.t.Context()
	done, err := w.archive.Complete(ctx, b)
	if err != nil || !done {
		w.t.Fatalf("complete %v, %v", done, err)
	}
	got, err := w.archive.Window(ctx, b, board.Top, 0, len(want)+10)
	if err != nil {
		w.t.Fatal(err)
	}
	if got.Total != int64(len(want)) || got.Before != 0 || len(got.Ahead) != 0 {
		w.t.Errorf("total %d, before %d, want %d and 0", got.Total, got.Before, len(want))
	}
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got.Behind)); diff != "" {
		w.t.Errorf("archived entries:\n%s", diff)
	}
	left, err := w.boards.Unarchived(ctx, []*models.Bucket{b}, []int{9})
	if err != nil || left[0] {
		w.t.Errorf("left in Redis: %v, %v", left, err)
	}
}

// A bucket moves whole, with its ranks, however many shards it has.
func TestABucketMoves(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, shards := range []int{1, 3, 16} {
			w := newFixture(t, env, shards)
			env.Clock.Advance(24 * time.Hour) // a day of its own for each
			b := w.today()
			if b.Shards != shards {
				t.Fatalf("%d shards", b.Shards)
			}
			entries := crowd(t, b, 2500, uint64(shards))
			w.raise(b, entries...)
			start := env.Clock.Now()
			w.due(b)
			run := w.move(b)
			want := ranked(entries)
			w.check(b, want)
			if run.Run != 1 || run.State != models.ArchiveComplete || run.Moved != 2500 || run.Entries != 2500 || run.Attempts != 1 || run.Shards != shards {
				t.Errorf("run %+v", run)
			}
			// Archiving it again finds nothing to do.
			if again := w.move(b); again.Run != 1 || again.Attempts != 1 {
				t.Errorf("again: %+v", again)
			}
			env.Clock.Set(start)
		}
	})
}

// What comes late is merged: the larger composite of a user wins, and ranks
// are right again.
func TestLateUpdatesAreMerged(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newFixture(t, env, 3)
		b := w.today()
		first, second, third := crowd(t, b, 300, 1), crowd(t, b, 200, 2), crowd(t, b, 50, 3)
		w.raise(b, first...)
		w.due(b)
		w.raise(b, second...) // before the move, but late: no reader sees them
		if got, err := w.boards.Window(t.Context(), b, board.Top, 0, 1000); err != nil || len(got.Behind) != 300 {
			t.Errorf("readers see %d entries, %v", len(got.Behind), err)
		}
		w.move(b)
		w.check(b, ranked(first, second))

		w.raise(b, third...)
		due, err := w.archive.Due(t.Context())
		if err != nil || len(due) != 1 || due[0].Name != b.Name {
			t.Fatalf("due %v, %v", due, err)
		}
		if run := w.move(b); run.Run != 2 || run.Moved != 50 {
			t.Errorf("run %+v", run)
		}
		w.check(b, ranked(first, second, third))
		if due, err := w.archive.Due(t.Context()); err != nil || len(due) != 0 {
			t.Errorf("due %v, %v", due, err)
		}
	})
}

// A process that slept through the hour writes where the bucket was.
func TestALiveKeyThatAppearsAfterwards(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newFixture(t, env, 2)
		b := w.today()
		entries, late := crowd(t, b, 100, 1), crowd(t, b, 100, 2)
		w.raise(b, entries...)
		w.due(b)
		w.move(b)
		w.oversleep(b, late...)
		w.move(b)
		w.check(b, ranked(entries, late))
	})
}

// A day on which nobody walked is archived too, so that it is not looked at
// for ever.
func TestAnEmptyBucket(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newFixture(t, env, 1)
		b := w.today()
		w.due(b)
		if run := w.move(b); run.Entries != 0 || run.State != models.ArchiveComplete {
			t.Errorf("run %+v", run)
		}
		w.check(b, nil)
	})
}

func TestABucketIsLeftAloneBeforeItsTime(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	w := newFixture(t, env, 1)
	b := w.today()
	for _, at := range []time.Time{env.Clock.Now(), b.ColdAt, b.ColdAt.Add(time.Hour - time.Second)} {
		env.Clock.Set(at)
		if _, err := w.archive.Archive(t.Context(), b, func(int64) {}); models.CodeOf(err) != models.CodeBucketHot {
			t.Errorf("at %v: %v", at, err)
		}
		if due, err := w.archive.Due(t.Context()); err != nil || len(due) != 0 {
			t.Errorf("at %v: due %v, %v", at, due, err)
		}
	}
}

// Of two archivers one works, and the other is told so.
func TestTwoArchivers(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newFixture(t, env, 1)
		b, entries := w.filled(100)
		begun, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var working sync.WaitGroup
		working.Go(func() {
			_, err := w.archive.Archive(context.WithoutCancel(t.Context()), b, func(int64) { once.Do(func() { close(begun); <-goOn }) })
			if err != nil {
				t.Error(err)
			}
		})
		<-begun
		if _, err := w.with(w.boards).Archive(t.Context(), b, func(int64) {}); models.CodeOf(err) != models.CodeArchiveRunning {
			t.Errorf("the second one: %v", err)
		}
		close(goOn)
		working.Wait()
		w.check(b, ranked(entries))
	})
}

// stopper is a Redis that does something after each step of a move.
type stopper struct {
	*board.Store
	after func(step string) error
}

func (s *stopper) Freeze(ctx context.Context, b *models.Bucket, run int) error {
	return errors.Join(s.Store.Freeze(ctx, b, run), s.after("set aside"))
}

func (s *stopper) FrozenParts(ctx context.Context, b *models.Bucket, upto int) ([]models.FrozenPart, error) {
	pieces, err := s.Store.FrozenParts(ctx, b, upto)
	return pieces, errors.Join(err, s.after("listed"))
}

func (s *stopper) ReadFrozen(ctx context.Context, b *models.Bucket, p models.FrozenPart, from int64, n int) ([]models.Entry, error) {
	entries, err := s.Store.ReadFrozen(ctx, b, p, from, n)
	return entries, errors.Join(err, s.after("read"))
}

func (s *stopper) DropFrozen(ctx context.Context, b *models.Bucket, pieces []models.FrozenPart) error {
	if err := s.after("stored"); err != nil {
		return err
	}
	return errors.Join(s.Store.DropFrozen(ctx, b, pieces), s.after("dropped"))
}

// Wherever a move stops and whatever is written there, in time or late, the
// next run finds all of it.
func TestAMoveIsTakenUpAfterEachStep(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newFixture(t, env, 3)
		start := env.Clock.Now()
		for i, step := range []string{"set aside", "listed", "read", "stored", "dropped"} {
			env.Clock.Set(start.AddDate(0, 0, i+1))
			b := w.today()
			entries, late, asleep := crowd(t, b, 1200, uint64(i)), crowd(t, b, 40, uint64(i+10)), crowd(t, b, 40, uint64(i+20))
			w.raise(b, entries...)
			w.due(b)
			broken := errors.New("stopped after " + step)
			var once sync.Once
			dying := w.with(&stopper{w.boards, func(at string) (err error) {
				if at == step {
					once.Do(func() {
						w.raise(b, late...)
						w.oversleep(b, asleep...)
					})
					return broken
				}
				return nil
			}})
			if _, err := dying.Archive(t.Context(), b, func(int64) {}); !errors.Is(err, broken) {
				t.Errorf("%s: %v", step, err)
			}
			runs, err := w.archive.Runs(t.Context(), archive.RunsQuery{Limit: 1})
			if err != nil || len(runs) != 1 || runs[0].Bucket != b.Name {
				t.Fatalf("%s: runs %+v, %v", step, runs, err)
			}
			committed := step == "stored" || step == "dropped"
			if committed != (runs[0].State == models.ArchiveComplete) || committed != (runs[0].Error == "") {
				t.Errorf("%s: the run is %+v", step, runs[0])
			}
			due, err := w.archive.Due(t.Context())
			if err != nil || !slices.ContainsFunc(due, func(d *models.Bucket) bool { return d.Name == b.Name }) {
				t.Fatalf("%s: due %v, %v", step, due, err)
			}
			for range 2 { // once for the bucket, once for what came since
				w.move(b)
			}
			w.check(b, ranked(entries, late, asleep))
		}
	})
}

// freely gives every lease to everybody, as a server does that has failed
// over.
type freely struct{}

func (freely) Hold(ctx context.Context, _ string, fn func(context.Context) error) error {
	return fn(ctx)
}

// What is complete stays so, also where somebody who has lost the lease
// completes a run that another one is about to take up: readers must not be
// sent back to Redis, where nothing is left.
func TestWhatIsCompleteStaysSo(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newFixture(t, env, 1)
		b, entries := w.filled(100)
		calls := 0
		clock := func() time.Time {
			if calls++; calls == 2 { // it has seen that there is no run
				w.move(b)
			}
			return env.Clock.Now()
		}
		// Whatever it does then, it does not get far.
		broken := errors.New("stopped")
		second := archive.New(w.store, &stopper{w.boards, func(string) error { return broken }}, freely{}, clock, env.Log)
		defer second.Close()
		if run, err := second.Archive(t.Context(), b, func(int64) {}); err != nil || run.State != models.ArchiveComplete || run.Attempts != 1 {
			t.Errorf("run %+v, %v", run, err)
		}
		if calls < 2 {
			t.Fatalf("the clock was asked %d times", calls)
		}
		if done, err := w.with(w.boards).Complete(t.Context(), b); err != nil || !done {
			t.Errorf("complete: %v, %v", done, err)
		}
		w.check(b, ranked(entries))
	})
}
