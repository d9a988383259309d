package catalog_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// countQueries counts the queries that gorm sends from now on.
func countQueries(t testing.TB, db *gorm.DB) *atomic.Int64 {
	t.Helper()
	var n atomic.Int64
	count := func(*gorm.DB) { n.Add(1) }
	err := errors.Join(db.Callback().Query().Before("gorm:query").Register("count", count), db.Callback().Row().Before("gorm:row").Register("count", count))
	if err != nil {
		t.Fatal(err)
	}
	return &n
}

// existing returns what a read finds of a day: true if its bucket exists.
func existing(t testing.TB, c *catalog.Catalog, b *catalog.Board, d models.Date, now time.Time) bool {
	t.Helper()
	expected, err := c.Buckets.Resolve(b, &d, now, models.UTCOffset{})
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := c.Buckets.Existing(t.Context(), expected)
	if errors.Is(err, catalog.ErrNoBucket) {
		return false
	}
	if err != nil || bucket.Day != d {
		t.Fatalf("%+v, %v", bucket, err)
	}
	return true
}

// However many past days without data are asked for, they cost a board one query between
// two refreshes. A day that another process imports is found after a refresh, and one that
// this process imports at once.
func TestPastDaysThatDoNotExist(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		other, otherB := newCatalog(t, env, steps())
		imported, own, absent := day(t, "2016-04-20"), day(t, "2016-04-21"), day(t, "2016-04-22")
		queries := countQueries(t, env.Gorm)
		for d := catalog.FirstDay; d < 20_000; d += 100 {
			if existing(t, c, b, d, env.Clock.Now()) {
				t.Errorf("%v exists", d)
			}
		}
		if n := queries.Load(); n != 1 {
			t.Errorf("%d queries for 200 days, want 1", n)
		}
		if _, err := other.Buckets.ForImport(t.Context(), otherB, imported, env.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Buckets.ForImport(t.Context(), b, own, env.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		if !existing(t, c, b, own, env.Clock.Now()) {
			t.Error("an own import is not found")
		}
		if err := c.Definitions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		queries.Store(0)
		for range 3 {
			if !existing(t, c, b, imported, env.Clock.Now()) || !existing(t, c, b, own, env.Clock.Now()) || existing(t, c, b, absent, env.Clock.Now()) {
				t.Error("the import of another process is not found after a refresh")
			}
		}
		if n := queries.Load(); n != 2 { // the names, and the imported bucket
			t.Errorf("%d queries after the refresh, want 2", n)
		}
	})
}

// A day that takes uploads is found as soon as another process has made it, also if it was
// asked for before.
func TestAnOpenDayIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		other, otherB := newCatalog(t, env, steps())
		yesterday := b.Today(env.Clock.Now()) - 1
		if existing(t, c, b, yesterday, env.Clock.Now()) {
			t.Fatal("yesterday exists")
		}
		if _, err := other.Buckets.ForUpload(t.Context(), otherB, yesterday, env.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		if !existing(t, c, b, yesterday, env.Clock.Now()) {
			t.Error("yesterday is not found")
		}
	})
}

// A day that closed a moment ago is found at once, too: another process may just have made it.
func TestADayThatHasJustClosedIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		other, otherB := newCatalog(t, env, steps())
		oldest := b.Today(env.Clock.Now()) - 2
		expected := testenv.Must(c.Buckets.Resolve(b, &oldest, env.Clock.Now(), models.UTCOffset{}))
		if existing(t, c, b, oldest, env.Clock.Now()) || existing(t, c, b, oldest-1, env.Clock.Now()) { // reads the names, too
			t.Fatal("it exists")
		}
		accepted := env.Clock.Now()
		env.Clock.Set(expected.ClosesAt)
		if _, err := other.Buckets.ForUpload(t.Context(), otherB, oldest, accepted); err != nil {
			t.Fatal(err)
		}
		if !existing(t, c, b, oldest, env.Clock.Now()) {
			t.Error("it is not found")
		}
	})
}

// A day that closed early under the definition by which it was made is found by one under
// which it would be open still.
func TestADayOfAnotherDefinitionIsFound(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, steps())
		closed := b.Today(env.Clock.Now()) - 10
		if _, err := c.Buckets.ForImport(t.Context(), b, closed, env.Clock.Now()); err != nil {
			t.Fatal(err)
		}
		longer := steps()
		longer.OpenDays = 30
		c, b = newCatalog(t, env, longer)
		if !existing(t, c, b, closed, env.Clock.Now()) {
			t.Error("it is not found")
		}
	})
}

// An event is as absent as a past day until it is made.
func TestAnEventThatIsNotMade(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		c, b := newCatalog(t, env, gifts())
		queries := countQueries(t, env.Gorm)
		for range 100 {
			expected, err := c.Buckets.Resolve(b, nil, env.Clock.Now(), models.UTCOffset{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Buckets.Existing(t.Context(), expected); !errors.Is(err, catalog.ErrNoBucket) {
				t.Fatal(err)
			}
		}
		if n := queries.Load(); n != 1 {
			t.Errorf("%d queries, want 1", n)
		}
	})
}
