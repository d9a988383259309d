package archive_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/platform/lease"
	"stepboard/services/servicetest"
)

// exec runs a statement in the test's schema.
func (f *fixture) exec(statement string) {
	f.t.Helper()
	if _, err := f.env.Pool.Exec(f.t.Context(), statement); err != nil {
		f.t.Fatalf("%s: %v", statement, err)
	}
}

// Several processes may create the same partition at the same time.
func TestEnsurePartitionsConcurrently(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	b, entries := f.dueBucket(50)
	for range 2 {
		var callers sync.WaitGroup
		for i := range 8 {
			// Each service stands for another process.
			s := archive.New(f.store, servicetest.Source(f.boards), lease.NewLocal(), env.Clock.Now, env.Log)
			t.Cleanup(s.Close)
			callers.Go(func() {
				if err := s.EnsurePartitions(t.Context()); err != nil {
					t.Error(err)
				}
				if i == 0 {
					if _, err := f.archive.Archive(t.Context(), b, func(int64) {}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		testenv.Wait(t, "the callers end", &callers)
		if got, want := f.partitions(), []string{"202611", "202612"}; !slices.Equal(got, want) {
			t.Errorf("partitions %v, want %v", got, want)
		}
	}
	f.checkArchived(b, ranked(entries))
	var rows float64 // of the statistics
	err := env.Pool.QueryRow(t.Context(), `SELECT reltuples FROM pg_class WHERE oid = 'archived_scores_202611'::regclass`).Scan(&rows)
	if err != nil || rows != 50 {
		t.Errorf("the new partition has statistics of %v rows, %v", rows, err)
	}
	// A transaction that reads the table does not block the new partition.
	tx, err := env.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM archived_scores`).Scan(&n); err != nil || n != len(entries) {
		t.Errorf("%d rows, %v", n, err)
	}
	env.Clock.Advance(31 * 24 * time.Hour)
	if err := f.archive.EnsurePartitions(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := f.partitions(), []string{"202611", "202612", "202701"}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// A day is stored in the month that it has in the board's time zone.
func TestDaysAtTheEndsOfMonths(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	days := []string{"2026-11-30", "2026-12-01", "2026-12-31", "2027-01-01", "2027-01-31", "2027-02-01", "2028-02-28", "2028-02-29", "2028-03-01"}
	stored := make(map[*models.Bucket][]models.Entry)
	var want []string
	for i, day := range days {
		date := testenv.Must(models.ParseDate(day))
		env.Clock.Set(date.UTC().Add(time.Duration(16*(i%2)-8) * time.Hour)) // its first moment in Shanghai, or its end
		if i%2 == 1 {
			env.Clock.Advance(8*time.Hour - time.Millisecond)
		}
		b := f.today()
		if b.Day != date {
			t.Fatalf("%v is the bucket of %v", env.Clock.Now(), b.Day)
		}
		stored[b] = randomEntries(t, b, i+1, uint64(i))
		f.raise(b, stored[b]...)
		f.makeDue(b)
		f.mustArchive(b)
		want = append(want, fmt.Sprintf("archived_scores_%s %s %d", strings.ReplaceAll(day[:7], "-", ""), day, i+1))
	}
	got := f.column(`SELECT tableoid::regclass || ' ' || day || ' ' || count(*) FROM archived_scores GROUP BY tableoid, day ORDER BY day`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for b, entries := range stored {
		f.checkArchived(b, ranked(entries))
	}
}

// DropExpired drops whole months, and none too early.
func TestDropExpired(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		empty := f.today() // was created with the fixture
		f.makeDue(empty)
		f.mustArchive(empty)
		months := []string{"2026-08", "2026-09", "2026-10", "2026-11"}
		stored := make(map[string][]*models.Bucket)
		for _, month := range months {
			first := testenv.Must(time.Parse("2006-01", month))
			for _, noon := range []time.Time{first.Add(4 * time.Hour), first.AddDate(0, 1, -1).Add(4 * time.Hour)} {
				env.Clock.Set(noon)
				b := f.today()
				f.raise(b, randomEntries(t, b, 5, 1)...)
				f.makeDue(b)
				f.mustArchive(b)
				stored[month] = append(stored[month], b)
			}
		}
		for _, tt := range []struct {
			now    string
			months int
			drops  int // months
			left   []string
			needed *models.Date
		}{
			{"2026-12-15T12:00:00Z", 0, 0, months, nil},
			{"2026-12-15T12:00:00Z", 1200, 0, months, nil},
			{"2026-12-15T12:00:00Z", 4, 0, months, nil},
			{"2026-11-30T23:59:59Z", 3, 0, months, nil},
			{"2026-12-01T00:00:00Z", 3, 0, months, new(testenv.Must(models.ParseDate("2026-08-31")))},
			{"2026-12-01T00:00:00Z", 3, 1, months[1:], nil},
			{"2026-12-31T23:59:59Z", 3, 0, months[1:], nil},
			{"2026-12-31T23:59:59Z", 1, 2, months[3:], nil},
			{"2026-12-31T23:59:59Z", 1, 0, months[3:], nil},
			{"2027-02-28T00:00:00Z", 1, 1, nil, nil},
		} {
			env.Clock.Set(testenv.Must(time.Parse(time.RFC3339, tt.now)))
			dropped, err := f.archive.DropExpired(t.Context(), tt.months, tt.needed)
			want := tt.drops
			if env.Pool == nil {
				want *= 10 // it counts rows
			}
			if err != nil || dropped != want {
				t.Errorf("%s, %d months: %d dropped, %v, want %d", tt.now, tt.months, dropped, err, want)
			}
			for month, buckets := range stored {
				for _, b := range buckets {
					var entries []models.Entry
					if slices.Contains(tt.left, month) {
						entries = randomEntries(t, b, 5, 1)
					}
					// A dropped day is empty, and still counts as archived.
					f.checkArchived(b, ranked(entries))
				}
			}
			if due, err := f.archive.Due(t.Context()); err != nil || len(due) != 0 {
				t.Errorf("%s: due %v, %v", tt.now, due, err)
			}
		}
		user := randomEntries(t, stored["2026-08"][0], 5, 1)[0].User
		days, err := f.archive.Days(t.Context(), "steps", user, stored["2026-08"][0].Day, stored["2026-11"][1].Day)
		if err != nil || len(days) < 8 {
			t.Fatalf("%d days, %v", len(days), err)
		}
		for _, d := range days {
			if d.Rank != 0 || d.Points != 0 {
				t.Errorf("a dropped day: %+v", d)
			}
		}
	})
}

// DropExpired does not drop tables that an operator has detached or named
// differently. It drops a month that is being read in its next call.
func TestTablesThatAreNotDropped(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	for _, now := range []time.Time{testenv.Noon.AddDate(0, -6, 0), testenv.Noon.AddDate(0, -4, 0), testenv.Noon} {
		env.Clock.Set(now)
		if err := f.archive.EnsurePartitions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.exec(`ALTER TABLE archived_scores DETACH PARTITION archived_scores_202605`)
	f.exec(`CREATE TABLE archived_scores_2020 PARTITION OF archived_scores FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')`)

	tx, err := env.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM archived_scores_202607`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	dropped, err := f.archive.DropExpired(t.Context(), 1, nil)
	if dropped != 1 || err == nil || !strings.Contains(err.Error(), "drop partition archived_scores_202607: ") {
		t.Errorf("while a month is read: %d dropped, %v", dropped, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dropped, err := f.archive.DropExpired(t.Context(), 1, nil); dropped != 2 || err != nil {
		t.Errorf("%d dropped, %v", dropped, err)
	}
	if got, want := f.partitions(), []string{"2020", "202611", "202612"}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	if got := f.column(`SELECT to_regclass('archived_scores_202605')::text`); len(got) != 1 || got[0] == "" {
		t.Errorf("the detached table is gone: %v", got)
	}
	// Archiving a day of a detached month fails with an explanation.
	env.Clock.Set(testenv.Noon.AddDate(0, -6, 0))
	b := f.today()
	f.raise(b, randomEntries(t, b, 5, 1)...)
	f.makeDue(b)
	for range 2 {
		err := f.mustFail(b)
		if !strings.Contains(err.Error(), "table archived_scores_202605 is no partition of archived_scores: attach it, or rename it") {
			t.Errorf("it fails with %v", err)
		}
		if run := f.lastRun(); run.State != models.ArchiveFailed || !strings.Contains(run.Error, "archived_scores_202605") {
			t.Errorf("the run is %+v", run)
		}
	}
	f.checkWindow("failed", f.boards, b, ranked(randomEntries(t, b, 5, 1)))
	f.exec(`ALTER TABLE archived_scores ATTACH PARTITION archived_scores_202605 FOR VALUES FROM ('2026-05-01') TO ('2026-06-01')`)
	f.mustArchive(b)
	f.checkArchived(b, ranked(randomEntries(t, b, 5, 1)))
}
