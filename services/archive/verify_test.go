package archive_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/board"
	"stepboard/services/lease"
	"stepboard/services/score"
)

// exec runs a statement in the test's schema.
func (w *fixture) exec(statement string) {
	w.t.Helper()
	if _, err := w.env.Pool.Exec(w.t.Context(), statement); err != nil {
		w.t.Fatalf("%s: %v", statement, err)
	}
}

// column runs a query that answers one column of text.
func (w *fixture) column(query string) []string {
	w.t.Helper()
	var list []string
	if err := w.env.Gorm.WithContext(w.t.Context()).Raw(query).Scan(&list).Error; err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return list
}

// partitions lists the months that there is room for.
func (w *fixture) partitions() []string {
	w.t.Helper()
	names := w.column(`
		SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'archived_scores'::regclass ORDER BY 1`)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, "archived_scores_")
	}
	return names
}

// spoil lets the database do something to every row of a user that is stored,
// until mend.
func (w *fixture) spoil(user models.UserID, how string) {
	w.t.Helper()
	w.exec(fmt.Sprintf(`
		CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.user_id = %d THEN %s; END IF;
			RETURN NEW;
		END $$`, user, how))
	w.exec(`CREATE TRIGGER spoil BEFORE INSERT ON archived_scores FOR EACH ROW EXECUTE FUNCTION spoil()`)
}

func (w *fixture) mend() {
	w.t.Helper()
	w.exec(`DROP TRIGGER spoil ON archived_scores`)
	w.exec(`DROP FUNCTION spoil`)
}

// aside is how many entries a run has set aside in Redis.
func (w *fixture) aside(b *models.Bucket, run int, late bool) (n int64) {
	w.t.Helper()
	for shard := range b.Shards {
		entries, err := w.env.Redis.ZCard(w.t.Context(), w.env.Keys.Frozen(b, shard, run, late)).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		n += entries
	}
	return n
}

// windows reads a bucket from one side.
type windows interface {
	Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error)
}

// reads compares what one side answers with what it should.
func (w *fixture) reads(when string, from windows, b *models.Bucket, want []models.Entry) {
	w.t.Helper()
	got, err := from.Window(w.t.Context(), b, board.Top, 0, len(want)+10)
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got.Behind)); diff != "" || got.Total != int64(len(want)) {
		w.t.Errorf("%s: %d entries, want %d:\n%s", when, got.Total, len(want), diff)
	}
}

// run is the run that was begun last of all.
func (w *fixture) run() models.ArchiveRun {
	w.t.Helper()
	runs, err := w.archive.Runs(w.t.Context(), archive.RunsQuery{Limit: 1})
	if err != nil || len(runs) != 1 {
		w.t.Fatalf("runs %+v, %v", runs, err)
	}
	return runs[0]
}

// fails expects the archival to fail.
func (w *fixture) fails(b *models.Bucket) error {
	w.t.Helper()
	_, err := w.archive.Archive(w.t.Context(), b, func(int64) {})
	if err == nil {
		w.t.Fatal("the archival did not fail")
	}
	return err
}

// sum adds up scores.
func sum(b *models.Bucket, entries []models.Entry) (total int64) {
	for _, e := range entries {
		points, _ := score.Of(b).Decode(e.Composite)
		total += points
	}
	return total
}

// bothFigures is how a run says that the two sides differ.
var bothFigures = regexp.MustCompile(`verification failed: read (\d+) rows, sum of scores (\d+), hash ([0-9a-f]{16}); the archive would hold (\d+) rows, sum of scores (\d+), hash ([0-9a-f]{16})$`)

// checkFigures compares what an error says of the two sides.
func checkFigures(t testing.TB, text string, rows, scores, keptRows, keptScores int64) {
	t.Helper()
	m := bothFigures.FindStringSubmatch(text)
	if m == nil {
		t.Errorf("%q does not say what differs", text)
		return
	}
	var got []int64
	for _, i := range []int{1, 2, 4, 5} {
		got = append(got, testenv.Must(strconv.ParseInt(m[i], 10, 64)))
	}
	if want := []int64{rows, scores, keptRows, keptScores}; !slices.Equal(got, want) || m[3] == m[6] {
		t.Errorf("%q, want %v and two hashes", text, want)
	}
}

// spoiled is what a database may do to a row, and by how much that changes the
// number of rows and the sum of the scores of what is kept.
var spoiled = []struct {
	name, how    string
	rows, scores func(old, points int64) int64
}{
	{"another score", "NEW.score := NEW.score + 1", nothing, func(int64, int64) int64 { return 1 }},
	{"another rank", "NEW.rank := NEW.rank + 1", nothing, nothing},
	{"another millisecond", "NEW.reached_at := NEW.reached_at + interval '1 millisecond'", nothing, nothing},
	{"another user", "NEW.user_id := NEW.user_id + 1000000", func(old, _ int64) int64 {
		if old > 0 {
			return 1 // beside the row that stands there
		}
		return 0
	}, func(old, _ int64) int64 { return old }},
	{"no row", "RETURN NULL", func(old, _ int64) int64 {
		if old > 0 {
			return 0 // the row stays that stands there
		}
		return -1
	}, func(old, points int64) int64 { return old - points }},
}

func nothing(int64, int64) int64 { return 0 }

// What is stored otherwise than it was read is not kept: a day stays in Redis,
// whole and readable, until it can be stored as it is.
func TestAMoveThatIsNotWhatWasRead(t *testing.T) {
	t.Parallel()
	for _, tt := range spoiled {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, testenv.Real(t), 3)
			b := w.today()
			const points = 50
			unlucky := entry(t, b, 5000, points, b.StartsAt.Add(time.Second))
			entries := append(crowd(t, b, 300, 1), unlucky)
			w.raise(b, entries...)
			w.due(b)
			if err := w.archive.EnsurePartitions(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.spoil(unlucky.User, tt.how)
			read, scores := int64(len(entries)), sum(b, entries)
			for attempt := 1; attempt <= 2; attempt++ {
				err := w.fails(b)
				if !errors.Is(err, archive.ErrVerification) {
					t.Errorf("it fails by %v", err)
				}
				run := w.run()
				for _, text := range []string{err.Error(), run.Error} {
					checkFigures(t, text, read, scores, read+tt.rows(0, points), scores+tt.scores(0, points))
				}
				if run.State != models.ArchiveFailed || run.Run != 1 || run.Attempts != attempt || run.Moved != read || run.Entries != 0 || run.FinishedAt == nil {
					t.Errorf("the run is %+v", run)
				}
				if n := w.aside(b, 1, false); n != read {
					t.Errorf("Redis has %d entries of %d", n, read)
				}
				if done, err := w.archive.Complete(t.Context(), b); done || err != nil {
					t.Errorf("complete: %v, %v", done, err)
				}
				w.reads("failed", w.boards, b, ranked(entries))
				w.reads("failed", w.archive, b, nil)
				if n := w.archive.Stats().Unverified.Load(); n != int64(attempt) {
					t.Errorf("%d runs were not verified, want %d", n, attempt)
				}
			}
			w.mend()
			if run := w.move(b); run.Run != 1 || run.Attempts != 3 || run.Error != "" || run.Entries != read || run.ScoreSum != scores {
				t.Errorf("mended: %+v", run)
			}
			if run := w.run(); run.State != models.ArchiveComplete || run.Error != "" || run.Entries != read || run.ScoreSum != scores {
				t.Errorf("mended, the run is %+v", run)
			}
			w.check(b, ranked(entries))
			stats := w.archive.Stats()
			if stats.Complete.Load() != 1 || stats.Failed.Load() != 2 || stats.Unverified.Load() != 2 || stats.Moved.Load() != read {
				t.Errorf("complete %d, failed %d, unverified %d, moved %d",
					stats.Complete.Load(), stats.Failed.Load(), stats.Unverified.Load(), stats.Moved.Load())
			}
		})
	}
}

// The embedded stores verify too.
func TestAnEmbeddedMoveThatIsNotWhatWasRead(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
	w := newFixture(t, env, 3)
	b, entries := w.filled(20)
	statement := fmt.Sprintf(`CREATE TRIGGER spoil BEFORE INSERT ON archived_scores WHEN NEW.user_id = %v BEGIN SELECT RAISE(IGNORE); END`, entries[0].User)
	if err := env.Gorm.Exec(statement).Error; err != nil {
		t.Fatal(err)
	}
	err := w.fails(b)
	if !errors.Is(err, archive.ErrVerification) || w.archive.Stats().Unverified.Load() != 1 {
		t.Errorf("it fails by %v", err)
	}
	checkFigures(t, err.Error(), 20, sum(b, entries), 19, sum(b, entries[1:]))
	w.reads("failed", w.boards, b, ranked(entries))
	w.reads("failed", w.archive, b, nil)
	if run := w.run(); run.State != models.ArchiveFailed || run.Error == "" || run.Moved != 20 {
		t.Errorf("the run is %+v", run)
	}
	if err := env.Gorm.Exec(`DROP TRIGGER spoil`).Error; err != nil {
		t.Fatal(err)
	}
	w.move(b)
	w.check(b, ranked(entries))
}

// A merge that goes wrong leaves the archive as it was, and what came late in
// Redis.
func TestAMergeThatIsNotWhatWasRead(t *testing.T) {
	t.Parallel()
	for _, tt := range spoiled {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(t, testenv.Real(t), 3)
			b := w.today()
			const old, points = 40, 50
			first := append(crowd(t, b, 300, 1), entry(t, b, 5000, old, b.StartsAt))
			w.raise(b, first...)
			w.due(b)
			w.move(b)

			late := append(crowd(t, b, 100, 2), entry(t, b, 5000, points, b.StartsAt.Add(time.Second)))
			w.raise(b, late...)
			w.spoil(5000, tt.how)
			err := w.fails(b)
			if !errors.Is(err, archive.ErrVerification) {
				t.Errorf("it fails by %v", err)
			}
			want := ranked(first, late)
			rows, scores := int64(len(want)), sum(b, want)
			run := w.run()
			for _, text := range []string{err.Error(), run.Error} {
				checkFigures(t, text, rows, scores, rows+tt.rows(old, points), scores+tt.scores(old, points))
			}
			if run.State != models.ArchiveFailed || run.Run != 2 || run.Moved != int64(len(late)) || run.Entries != 0 {
				t.Errorf("the run is %+v", run)
			}
			if n := w.aside(b, 2, true); n != int64(len(late)) {
				t.Errorf("Redis has %d entries of %d", n, len(late))
			}
			w.reads("failed", w.archive, b, ranked(first))
			if n := w.archive.Stats().Unverified.Load(); n != 1 {
				t.Errorf("%d runs were not verified", n)
			}
			due, err := w.archive.Due(t.Context())
			if err != nil || len(due) != 1 {
				t.Errorf("due %v, %v", due, err)
			}
			w.mend()
			if run := w.move(b); run.Run != 2 || run.Attempts != 2 || run.Entries != rows || run.ScoreSum != scores {
				t.Errorf("mended: %+v", run)
			}
			w.check(b, want)
		})
	}
}

// Entries that vanish from what was set aside while it is read fail the run,
// whether they were read already or not; so does a key that vanishes whole.
func TestEntriesThatVanishWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		start := env.Clock.Now()
		for i, tt := range []struct {
			name   string
			shards int
			// after is the step behind which the entry of this index vanishes;
			// -1 stands for all of them.
			after string
			index int64
			lost  string
		}{
			{"the first, read already", 1, "read", 0, "1099 of 1100 are left"},
			{"the last, not read yet", 1, "read", 1099, "1099 of 1100 are left"},
			{"one of many shards", 3, "listed", 5, "shard 0, set aside by run 1, has lost entries"},
			{"the whole key", 1, "read", -1, "500 of 1100 are left"},
		} {
			w := newFixture(t, env, tt.shards)
			env.Clock.Set(start.AddDate(0, 0, i+1))
			b := w.today()
			w.raise(b, crowd(t, b, 1100, uint64(i))...)
			w.due(b)
			key := env.Keys.Frozen(b, 0, 1, false)
			var once sync.Once
			losing := w.with(&stopper{w.boards, func(step string) error {
				if step != tt.after {
					return nil
				}
				var err error
				once.Do(func() {
					if tt.index < 0 {
						err = env.Redis.Del(t.Context(), key).Err()
						return
					}
					err = env.Redis.ZRemRangeByRank(t.Context(), key, -1-tt.index, -1-tt.index).Err()
				})
				return err
			}})
			_, err := losing.Archive(t.Context(), b, func(int64) {})
			if err == nil || errors.Is(err, archive.ErrVerification) || !strings.Contains(err.Error(), tt.lost) {
				t.Errorf("%s: %v", tt.name, err)
			}
			run := w.run()
			if run.Bucket != b.Name || run.State != models.ArchiveFailed || !strings.Contains(run.Error, tt.lost) {
				t.Errorf("%s: the run is %+v", tt.name, run)
			}
			if stats := losing.Stats(); stats.Failed.Load() != 1 || stats.Unverified.Load() != 0 || stats.Complete.Load() != 0 {
				t.Errorf("%s: failed %d, unverified %d, complete %d", tt.name, stats.Failed.Load(), stats.Unverified.Load(), stats.Complete.Load())
			}
			w.reads(tt.name, w.archive, b, nil)
			left, err := w.boards.Window(t.Context(), b, board.Top, 0, 3000)
			if err != nil {
				t.Fatal(err)
			}
			// What is left is archived all the same.
			if run := w.move(b); run.Attempts != 2 || run.Entries != left.Total {
				t.Errorf("%s: afterwards %+v", tt.name, run)
			}
			w.check(b, left.Behind)
		}
	})
}

// A run that fails again and again is one run, and the runs of other buckets
// are none of its business.
func TestARunThatFailsAgain(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newFixture(t, env, 1)
		b, entries := w.filled(10)
		// Another process died at another bucket.
		dead := models.ArchiveRun{Board: "steps", Bucket: "20260101", Run: 1, Shards: 1, State: models.ArchiveRunning, Attempts: 1, StartedAt: env.Clock.Now()}
		if err := env.Gorm.Create(&dead).Error; err != nil {
			t.Fatal(err)
		}
		broken := errors.New("broken")
		failing := w.with(&stopper{w.boards, func(step string) error {
			if step == "read" {
				return broken
			}
			return nil
		}})
		for attempt := 1; attempt <= 3; attempt++ {
			if _, err := failing.Archive(t.Context(), b, func(int64) {}); !errors.Is(err, broken) {
				t.Errorf("it fails by %v", err)
			}
			runs, err := w.archive.Runs(t.Context(), archive.RunsQuery{Limit: 10})
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
		if run := w.move(b); run.Run != 1 || run.Attempts != 4 {
			t.Errorf("run %+v", run)
		}
		w.check(b, ranked(entries))
	})
}

// Many may make room at the same time, for the same month, and again.
func TestMakingRoomAtTheSameTime(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	w := newFixture(t, env, 1)
	b, entries := w.filled(50)
	for range 2 {
		var making sync.WaitGroup
		for i := range 8 {
			// Each is a process of its own.
			s := archive.New(w.store, w.boards, lease.NewLocal(), env.Clock.Now, env.Log)
			t.Cleanup(s.Close)
			making.Go(func() {
				if err := s.EnsurePartitions(t.Context()); err != nil {
					t.Error(err)
				}
				if i == 0 {
					if _, err := w.archive.Archive(t.Context(), b, func(int64) {}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		making.Wait()
		if got, want := w.partitions(), []string{"202611", "202612"}; !slices.Equal(got, want) {
			t.Errorf("partitions %v, want %v", got, want)
		}
	}
	w.check(b, ranked(entries))
	// A month that is read meanwhile is no hindrance.
	tx, err := env.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM archived_scores`).Scan(&n); err != nil || n != len(entries) {
		t.Errorf("%d rows, %v", n, err)
	}
	env.Clock.Advance(31 * 24 * time.Hour)
	if err := w.archive.EnsurePartitions(t.Context()); err != nil {
		t.Error(err)
	}
	if got, want := w.partitions(), []string{"202611", "202612", "202701"}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

// A day lies in its own month: the board's, whatever the time is elsewhere.
func TestDaysAtTheEndsOfMonths(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	w := newFixture(t, env, 1)
	days := []string{"2026-11-30", "2026-12-01", "2026-12-31", "2027-01-01", "2027-01-31", "2027-02-01", "2028-02-28", "2028-02-29", "2028-03-01"}
	stored := make(map[*models.Bucket][]models.Entry)
	var want []string
	for i, day := range days {
		date := testenv.Must(models.ParseDate(day))
		env.Clock.Set(date.UTC().Add(time.Duration(16*(i%2)-8) * time.Hour)) // its first moment in Shanghai, or its end
		if i%2 == 1 {
			env.Clock.Advance(8*time.Hour - time.Millisecond)
		}
		b := w.today()
		if b.Day != date {
			t.Fatalf("%v is the bucket of %v", env.Clock.Now(), b.Day)
		}
		stored[b] = crowd(t, b, i+1, uint64(i))
		w.raise(b, stored[b]...)
		w.due(b)
		w.move(b)
		want = append(want, fmt.Sprintf("archived_scores_%s %s %d", strings.ReplaceAll(day[:7], "-", ""), day, i+1))
	}
	got := w.column(`SELECT tableoid::regclass || ' ' || day || ' ' || count(*) FROM archived_scores GROUP BY tableoid, day ORDER BY day`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for b, entries := range stored {
		w.check(b, ranked(entries))
	}
}

// Whole months go, and none too early.
func TestMonthsThatAreKeptNoLonger(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newFixture(t, env, 1)
		empty := w.today() // was made with the world
		w.due(empty)
		w.move(empty)
		months := []string{"2026-08", "2026-09", "2026-10", "2026-11"}
		stored := make(map[string][]*models.Bucket)
		for _, month := range months {
			first := testenv.Must(time.Parse("2006-01", month))
			for _, noon := range []time.Time{first.Add(4 * time.Hour), first.AddDate(0, 1, -1).Add(4 * time.Hour)} {
				env.Clock.Set(noon)
				b := w.today()
				w.raise(b, crowd(t, b, 5, 1)...)
				w.due(b)
				w.move(b)
				stored[month] = append(stored[month], b)
			}
		}
		for _, tt := range []struct {
			now    string
			months int
			drops  int // months
			left   []string
		}{
			{"2026-12-15T12:00:00Z", 0, 0, months},
			{"2026-12-15T12:00:00Z", 1200, 0, months},
			{"2026-12-15T12:00:00Z", 4, 0, months},
			{"2026-11-30T23:59:59Z", 3, 0, months},
			{"2026-12-01T00:00:00Z", 3, 1, months[1:]},
			{"2026-12-31T23:59:59Z", 3, 0, months[1:]},
			{"2026-12-31T23:59:59Z", 1, 2, months[3:]},
			{"2026-12-31T23:59:59Z", 1, 0, months[3:]},
			{"2027-02-28T00:00:00Z", 1, 1, nil},
		} {
			env.Clock.Set(testenv.Must(time.Parse(time.RFC3339, tt.now)))
			dropped, err := w.archive.DropExpired(t.Context(), tt.months)
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
						entries = crowd(t, b, 5, 1)
					}
					// A day that is gone is empty, and not looked for again.
					w.check(b, ranked(entries))
				}
			}
			if due, err := w.archive.Due(t.Context()); err != nil || len(due) != 0 {
				t.Errorf("%s: due %v, %v", tt.now, due, err)
			}
		}
		user := crowd(t, stored["2026-08"][0], 5, 1)[0].User
		days, err := w.archive.Days(t.Context(), "steps", user, stored["2026-08"][0].Day, stored["2026-11"][1].Day)
		if err != nil || len(days) < 8 {
			t.Fatalf("%d days, %v", len(days), err)
		}
		for _, d := range days {
			if d.Rank != 0 || d.Score != 0 {
				t.Errorf("a day that is gone: %+v", d)
			}
		}
	})
}

// What an operator has taken out of the archive, or made by another name, is
// left alone; and a month that is in use stays until the next time.
func TestTablesThatAreLeftAlone(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	w := newFixture(t, env, 1)
	for _, now := range []time.Time{testenv.Noon.AddDate(0, -6, 0), testenv.Noon.AddDate(0, -4, 0), testenv.Noon} {
		env.Clock.Set(now)
		if err := w.archive.EnsurePartitions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.exec(`ALTER TABLE archived_scores DETACH PARTITION archived_scores_202605`)
	w.exec(`CREATE TABLE archived_scores_2020 PARTITION OF archived_scores FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')`)

	tx, err := env.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM archived_scores_202607`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	dropped, err := w.archive.DropExpired(t.Context(), 1)
	if dropped != 1 || err == nil || !strings.Contains(err.Error(), "drop partition archived_scores_202607: ") {
		t.Errorf("while a month is read: %d dropped, %v", dropped, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if dropped, err := w.archive.DropExpired(t.Context(), 1); dropped != 2 || err != nil {
		t.Errorf("%d dropped, %v", dropped, err)
	}
	if got, want := w.partitions(), []string{"2020", "202611", "202612"}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	if got := w.column(`SELECT to_regclass('archived_scores_202605')::text`); len(got) != 1 || got[0] == "" {
		t.Errorf("the detached table is gone: %v", got)
	}
	// A detached month takes no more days, and says so.
	env.Clock.Set(testenv.Noon.AddDate(0, -6, 0))
	b := w.today()
	w.raise(b, crowd(t, b, 5, 1)...)
	w.due(b)
	for range 2 {
		err := w.fails(b)
		if !strings.Contains(err.Error(), "table archived_scores_202605 is no partition of archived_scores: attach it, or rename it") {
			t.Errorf("it fails by %v", err)
		}
		if run := w.run(); run.State != models.ArchiveFailed || !strings.Contains(run.Error, "archived_scores_202605") {
			t.Errorf("the run is %+v", run)
		}
	}
	w.reads("failed", w.boards, b, ranked(crowd(t, b, 5, 1)))
	w.exec(`ALTER TABLE archived_scores ATTACH PARTITION archived_scores_202605 FOR VALUES FROM ('2026-05-01') TO ('2026-06-01')`)
	w.move(b)
	w.check(b, ranked(crowd(t, b, 5, 1)))
}
