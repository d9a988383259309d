package archive_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/platform/lease"
	"stepboard/services/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is an archive over a test's stores.
type fixture struct {
	t       testing.TB
	env     *testenv.Env
	catalog *catalog.Catalog
	boards  board.Entries
	leases  *lease.Service
	store   *archive.Store
	archive *archive.Service
}

func newFixture(t testing.TB, env *testenv.Env, shards int) *fixture {
	t.Helper()
	f := &fixture{
		t: t, env: env,
		catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log),
		boards:  servicetest.Entries(env, env.Clock.Now, nil),
	}
	defs := env.Config.BoardDefinitions()
	defs[0].Shards = shards
	if err := f.catalog.Definitions.Define(t.Context(), defs); err != nil {
		t.Fatal(err)
	}
	f.store, f.leases = archive.NewStore(archive.StoreOptions{Runs: env.Gorm, Pool: env.Pool}), lease.NewLocal()
	if env.Pool != nil {
		f.leases = lease.NewPostgres(env.Pool.Config().ConnConfig)
	}
	f.archive = f.archiveOver(f.boards)
	return f
}

// inRedis returns the hot store of a test with real servers.
func (f *fixture) inRedis() *board.Store { return f.boards.(*board.Store) }

// archiveOver returns an archive that uses another hot store.
func (f *fixture) archiveOver(hot board.Writer) *archive.Service {
	s := archive.New(f.store, servicetest.Source(hot), f.leases, f.env.Clock.Now, f.env.Log)
	f.t.Cleanup(s.Close)
	return s
}

// today returns the bucket of the current day.
func (f *fixture) today() *models.Bucket {
	f.t.Helper()
	b := testenv.Must(f.catalog.Definitions.Board("steps"))
	now := f.env.Clock.Now()
	bucket, err := f.catalog.Buckets.ForUpload(f.t.Context(), b, b.Today(now), now)
	if err != nil {
		f.t.Fatal(err)
	}
	return bucket
}

// makeDue moves the clock to the time when the bucket may be archived.
func (f *fixture) makeDue(b *models.Bucket) {
	f.t.Helper()
	f.env.Clock.Set(b.ColdAt.Add(time.Hour))
	testenv.Finish(f.t, f.catalog.Buckets, b)
}

func (f *fixture) raise(b *models.Bucket, entries ...models.Entry) {
	f.t.Helper()
	raise(f.t, f.boards, b, entries)
}

func raise(t testing.TB, boards board.Entries, b *models.Bucket, entries []models.Entry) {
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

// dueBucket returns a bucket with n users that may be archived, and its entries.
func (f *fixture) dueBucket(n int) (*models.Bucket, []models.Entry) {
	f.t.Helper()
	b := f.today()
	entries := randomEntries(f.t, b, n, 1)
	f.raise(b, entries...)
	f.makeDue(b)
	return b, entries
}

// raiseLate raises entries as a process does that has not noticed that the bucket
// is cold.
func (f *fixture) raiseLate(b *models.Bucket, entries ...models.Entry) {
	f.t.Helper()
	suspended := f.boards.EntriesAt(b.StartsAt)
	raise(f.t, suspended, b, entries)
}

// mustArchive archives the bucket.
func (f *fixture) mustArchive(b *models.Bucket) models.ArchiveRun {
	f.t.Helper()
	run, err := f.archive.Archive(f.t.Context(), b, func(int64) {})
	if err != nil {
		f.t.Fatal(err)
	}
	return run
}

// entry returns the entry of a score reached at the given time.
func entry(t testing.TB, b *models.Bucket, user models.RowID, points int64, at time.Time) models.Entry {
	t.Helper()
	c, err := score.Of(b).Encode(b.Points(points), models.TimestampOf(at))
	if err != nil {
		t.Fatal(err)
	}
	return models.Entry{User: user, Composite: c}
}

// randomEntries returns entries of n users with few distinct scores and times, so
// that many are equal.
func randomEntries(t testing.TB, b *models.Bucket, n int, seed uint64) []models.Entry {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	entries := make([]models.Entry, 0, n)
	seen := make(map[models.RowID]bool)
	for len(entries) < n {
		user := models.RowID(1 + rng.Int64N(int64(3*n)))
		if !seen[user] {
			seen[user] = true
			entries = append(entries, entry(t, b, user, rng.Int64N(20), b.StartsAt.Add(time.Duration(rng.IntN(3))*time.Second)))
		}
	}
	return entries
}

// ranked returns the best entry of each user, in ranking order.
func ranked(entries ...[]models.Entry) []models.Entry {
	best := make(map[models.RowID]models.Composite)
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

// checkArchived checks that the archive has exactly the wanted entries of a
// bucket, and that Redis has none.
func (f *fixture) checkArchived(b *models.Bucket, want []models.Entry) {
	f.t.Helper()
	ctx := f.t.Context()
	done, err := f.archive.Complete(ctx, b)
	if err != nil || !done {
		f.t.Fatalf("complete %v, %v", done, err)
	}
	got, err := f.archive.Window(ctx, b, board.Top, 0, len(want)+10)
	if err != nil {
		f.t.Fatal(err)
	}
	if got.Total != int64(len(want)) || got.Before != 0 || len(got.Ahead) != 0 {
		f.t.Errorf("total %d, before %d, want %d and 0", got.Total, got.Before, len(want))
	}
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got.Behind)); diff != "" {
		f.t.Errorf("archived entries:\n%s", diff)
	}
	due, err := f.archive.Due(ctx)
	if err != nil || slices.ContainsFunc(due, func(d *models.Bucket) bool { return d.Name == b.Name }) {
		f.t.Errorf("entries are not archived, %v", err)
	}
}

// column runs a query that returns one column of text.
func (f *fixture) column(query string) []string {
	f.t.Helper()
	var list []string
	if err := f.env.Gorm.WithContext(f.t.Context()).Raw(query).Scan(&list).Error; err != nil {
		f.t.Fatalf("%s: %v", query, err)
	}
	return list
}

// partitions lists the months that have a partition.
func (f *fixture) partitions() []string {
	f.t.Helper()
	names := f.column(`
		SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'archived_scores'::regclass ORDER BY 1`)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, "archived_scores_")
	}
	return names
}

// windowReader reads a bucket from Redis or from the archive.
type windowReader interface {
	Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error)
}

// checkWindow checks that from has exactly the wanted entries of a bucket.
func (f *fixture) checkWindow(when string, from windowReader, b *models.Bucket, want []models.Entry) {
	f.t.Helper()
	got, err := from.Window(f.t.Context(), b, board.Top, 0, len(want)+10)
	if err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got.Behind)); diff != "" || got.Total != int64(len(want)) {
		f.t.Errorf("%s: %d entries, want %d:\n%s", when, got.Total, len(want), diff)
	}
}

// lastRun returns the run that was begun last.
func (f *fixture) lastRun() models.ArchiveRun {
	f.t.Helper()
	runs, err := f.archive.Runs(f.t.Context(), archive.RunsQuery{Limit: 1})
	if err != nil || len(runs) != 1 {
		f.t.Fatalf("runs %+v, %v", runs, err)
	}
	return runs[0].ArchiveRun
}

// mustFail archives a bucket, expects that to fail, and returns the error.
func (f *fixture) mustFail(b *models.Bucket) error {
	f.t.Helper()
	_, err := f.archive.Archive(f.t.Context(), b, func(int64) {})
	if err == nil {
		f.t.Fatal("the archival did not fail")
	}
	return err
}
