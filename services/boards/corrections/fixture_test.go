package corrections_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/score"
	"stepboard/services/platform/lease"
	"stepboard/services/platform/outcomes"
	"stepboard/services/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a process with a board of days, and further ones on the same stores.
type fixture struct {
	t       testing.TB
	env     *testenv.Env
	catalog *catalog.Catalog
	archive *archive.Service
	outbox  *outcomes.Outbox
	*process
}

// process has its own knowledge of the corrections.
type process struct {
	f           *fixture
	boards      board.Entries
	erased      *models.RowSet
	rules       *corrections.Rules
	corrections *corrections.Service
	reconciler  *ledger.Reconciler
	increments  *ledger.Service
}

func newFixture(t testing.TB, env *testenv.Env, boards ...models.Board) *fixture {
	t.Helper()
	testenv.NumberUsers(t, env, 20)
	f := &fixture{
		t: t, env: env, catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log),
	}
	if err := f.catalog.Definitions.Define(t.Context(), append(env.Config.BoardDefinitions(), boards...)); err != nil {
		t.Fatal(err)
	}
	hot := servicetest.Entries(env, env.Clock.Now, nil)
	leases := lease.NewLocal()
	f.outbox = outcomes.NewOutbox([]outcomes.Target{{URL: "https://example.com"}}, env.Clock.Now)
	f.archive = archive.New(archive.NewStore(archive.StoreOptions{Runs: env.Gorm, Pool: env.Pool, Outbox: f.outbox}), servicetest.Source(hot), leases, env.Clock.Now, env.Log)
	t.Cleanup(f.archive.Close)
	f.process = f.newProcess()
	return f
}

// newProcess returns another process, which knows the corrections that exist.
func (f *fixture) newProcess() *process {
	f.t.Helper()
	p := &process{f: f, erased: new(models.RowSet)}
	p.rules = corrections.NewRules(p.erased)
	p.boards = servicetest.Entries(f.env, f.env.Clock.Now, p.rules)
	totals := ledger.NewStore(f.env.Gorm, f.env.Gorm, f.env.Pool)
	p.increments = ledger.New(totals, f.catalog.Buckets, testenv.Numbers{}, p.boards, f.env.Clock.Now, f.env.Log)
	f.t.Cleanup(p.increments.Close)
	p.reconciler = ledger.NewReconciler(ledger.ReconcilerOptions{
		Store: totals, Totals: f.catalog.Buckets, Entries: p.boards, Archived: f.archive.Complete, Clock: f.env.Clock.Now,
		Log: f.env.Log, Rewind: 10 * time.Minute,
	})
	p.corrections = corrections.New(corrections.Options{
		Store: corrections.NewStore(f.env.Gorm, f.env.Gorm, nil), Rules: p.rules, Catalog: f.catalog, Entries: p.boards, Archive: f.archive,
		Ledger: p.reconciler, Directory: testenv.Numbers{DB: f.env.Gorm}, Clock: f.env.Clock.Now, Log: f.env.Log,
	})
	p.refresh()
	return p
}

func (p *process) refresh() {
	p.f.t.Helper()
	if err := p.corrections.Refresh(p.f.t.Context()); err != nil {
		p.f.t.Fatal(err)
	}
}

// today returns the bucket of the day that the clock shows.
func (f *fixture) today() *models.Bucket { return f.day(0) }

// day returns the bucket of a day, counted from the clock's.
func (f *fixture) day(n int) *models.Bucket {
	f.t.Helper()
	b := testenv.Must(f.catalog.Definitions.Board("steps"))
	now := f.env.Clock.Now()
	bucket, err := f.catalog.Buckets.ForImport(f.t.Context(), b, b.Today(now)+models.Date(n), now)
	if err != nil {
		f.t.Fatal(err)
	}
	return bucket
}

// raise reports a total that is reached now, or when the bucket closed.
func (p *process) raise(b *models.Bucket, user models.RowID, points int64) {
	p.f.t.Helper()
	composite := p.f.composite(b, points)
	if errs := p.boards.Raise(p.f.t.Context(), []models.Raise{{
		Bucket: b, Entry: models.Entry{User: user, Composite: composite},
	}}); errs != nil {
		p.f.t.Fatal(errs)
	}
}

// composite returns the entry of a score that is reached now.
func (f *fixture) composite(b *models.Bucket, points int64) models.Composite {
	f.t.Helper()
	at := min(models.TimestampOf(f.env.Clock.Now()), models.TimestampOf(b.ClosesAt)-1)
	return testenv.Must(score.Of(b).Encode(b.Points(points), at))
}

// shown returns the score of a user on the board in Redis; -1 for none.
func (f *fixture) shown(b *models.Bucket, user models.RowID) int64 {
	f.t.Helper()
	composites, err := f.boards.Composites(f.t.Context(), b, []models.RowID{user})
	if err != nil {
		f.t.Fatal(err)
	}
	return points(b, composites[0])
}

// scores returns the content of all sorted sets in Redis, if there is one.
func (f *fixture) scores() map[string][]redis.Z {
	f.t.Helper()
	all := make(map[string][]redis.Z)
	if f.env.Redis == nil {
		return all
	}
	iter := f.env.Redis.ScanType(f.t.Context(), 0, f.env.Keys.Prefix+"*", 1000, "zset").Iterator()
	for iter.Next(f.t.Context()) {
		entries, err := f.env.Redis.ZRangeWithScores(f.t.Context(), iter.Val(), 0, -1).Result()
		if err != nil {
			f.t.Fatal(err)
		}
		all[iter.Val()] = entries
	}
	if err := iter.Err(); err != nil {
		f.t.Fatal(err)
	}
	return all
}

// restore makes Redis have these sorted sets, and no other keys.
func (f *fixture) restore(sets map[string][]redis.Z) {
	f.t.Helper()
	f.forget()
	for key, entries := range sets {
		if err := f.env.Redis.ZAdd(f.t.Context(), key, entries...).Err(); err != nil {
			f.t.Fatal(err)
		}
	}
}

// points returns the score of an entry; -1 for none.
func points(b *models.Bucket, composite models.Composite) int64 {
	if composite == 0 {
		return -1
	}
	n, _ := score.Of(b).Decode(composite)
	return b.Score(n)
}

// exclude returns the request to exclude a user from a day.
func exclude(user models.RowID, date models.Date) corrections.Request {
	return corrections.Request{
		Board: "steps", Date: &date, User: testenv.ID(user), Kind: models.CorrectionExclude, Reason: "shaken", Actor: "ann",
	}
}

// set returns the request to lower a user's score of a day.
func set(user models.RowID, date models.Date, points int64) corrections.Request {
	r := exclude(user, date)
	r.Kind, r.Score = models.CorrectionSet, &points
	return r
}

// excludeFromNow returns the request to exclude a user until that is lifted.
func excludeFromNow(user models.RowID) corrections.Request {
	r := exclude(user, 0)
	r.Date = nil
	return r
}

func (p *process) create(r corrections.Request) corrections.Entry {
	p.f.t.Helper()
	c, err := p.corrections.Create(p.f.t.Context(), r)
	if err != nil {
		p.f.t.Fatal(err)
	}
	return c
}

func (p *process) lift(id int64) corrections.Entry {
	p.f.t.Helper()
	c, err := p.corrections.Lift(p.f.t.Context(), corrections.Lifting{ID: id, Reason: "a mistake", Actor: "bob"})
	if err != nil {
		p.f.t.Fatal(err)
	}
	return c
}

// apply is a run of the job.
func (p *process) apply() int64 {
	p.f.t.Helper()
	changed, err := p.corrections.Apply(p.f.t.Context())
	if err != nil {
		p.f.t.Fatal(err)
	}
	return changed
}

// later moves the clock.
func (f *fixture) later(d time.Duration) { f.env.Clock.Advance(d) }
