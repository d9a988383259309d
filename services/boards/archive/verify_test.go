package archive_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
)

// corruptRows installs a trigger that runs a statement on every stored row of a
// user. stopCorrupting removes it.
func (f *fixture) corruptRows(user models.RowID, how string) {
	f.t.Helper()
	f.exec(fmt.Sprintf(`
		CREATE FUNCTION corrupt() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.user_id = %d THEN %s; END IF;
			RETURN NEW;
		END $$`, user, how))
	f.exec(`CREATE TRIGGER corrupt BEFORE INSERT ON archived_scores FOR EACH ROW EXECUTE FUNCTION corrupt()`)
}

func (f *fixture) stopCorrupting() {
	f.t.Helper()
	f.exec(`DROP TRIGGER corrupt ON archived_scores`)
	f.exec(`DROP FUNCTION corrupt`)
}

// frozenEntries returns the number of entries that a run has frozen in Redis.
func (f *fixture) frozenEntries(b *models.Bucket, run int, of models.EntryKey) (n int64) {
	f.t.Helper()
	for shard := range b.Shards {
		entries, err := f.env.Redis.ZCard(f.t.Context(), f.env.Keys.Frozen(b, shard, run, of)).Result()
		if err != nil {
			f.t.Fatal(err)
		}
		n += entries
	}
	return n
}

// sum returns the sum of the points.
func sum(b *models.Bucket, entries []models.Entry) (total models.Points) {
	for _, e := range entries {
		points, _ := score.Of(b).Decode(e.Composite)
		total += points
	}
	return total
}

// verificationText matches the text of an ErrVerification.
var verificationText = regexp.MustCompile(`verification failed: read (\d+) rows, sum of points (\d+), hash ([0-9a-f]{16}); the archive would hold (\d+) rows, sum of points (\d+), hash ([0-9a-f]{16})$`)

// checkTotals checks the figures in the text of an ErrVerification.
func checkTotals(t testing.TB, text string, rows, scores, storedRows, storedScores int64) {
	t.Helper()
	m := verificationText.FindStringSubmatch(text)
	if m == nil {
		t.Errorf("%q has no figures", text)
		return
	}
	var got []int64
	for _, i := range []int{1, 2, 4, 5} {
		got = append(got, testenv.Must(strconv.ParseInt(m[i], 10, 64)))
	}
	if want := []int64{rows, scores, storedRows, storedScores}; !slices.Equal(got, want) || m[3] == m[6] {
		t.Errorf("%q, want %v and two hashes", text, want)
	}
}

// corruptions lists ways to change a stored row. rows and scores return by how
// much each changes the number of stored rows and the sum of their scores; old is
// the score archived before, 0 if the user has none.
var corruptions = []struct {
	name, how    string
	rows, scores func(old, points int64) int64
}{
	{"another score", "NEW.score := NEW.score + 1", unchanged, func(int64, int64) int64 { return 1 }},
	{"another rank", "NEW.rank := NEW.rank + 1", unchanged, unchanged},
	{"another millisecond", "NEW.reached_at := NEW.reached_at + interval '1 millisecond'", unchanged, unchanged},
	{"another user", "NEW.user_id := NEW.user_id + 1000000", func(old, _ int64) int64 {
		if old > 0 {
			return 1 // the archived row and the changed one
		}
		return 0
	}, func(old, _ int64) int64 { return old }},
	{"no row", "RETURN NULL", func(old, _ int64) int64 {
		if old > 0 {
			return 0 // the archived row stays
		}
		return -1
	}, func(old, points int64) int64 { return old - points }},
}

func unchanged(int64, int64) int64 { return 0 }

// If the stored rows differ from the entries read, the run is rolled back. The
// day stays in Redis, whole and readable, until it can be stored correctly.
func TestVerificationOfANewBucket(t *testing.T) {
	t.Parallel()
	for _, tt := range corruptions {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, testenv.Real(t), 3)
			b := f.today()
			const points = 50
			corrupted := entry(t, b, 5000, points, b.StartsAt.Add(time.Second))
			entries := append(randomEntries(t, b, 300, 1), corrupted)
			f.raise(b, entries...)
			f.makeDue(b)
			if err := f.archive.EnsurePartitions(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.corruptRows(corrupted.User, tt.how)
			read, scores := int64(len(entries)), int64(sum(b, entries))
			for attempt := 1; attempt <= 2; attempt++ {
				err := f.mustFail(b)
				if !errors.Is(err, archive.ErrVerification) {
					t.Errorf("it fails with %v", err)
				}
				run := f.lastRun()
				for _, text := range []string{err.Error(), run.Error} {
					checkTotals(t, text, read, scores, read+tt.rows(0, points), scores+tt.scores(0, points))
				}
				if run.State != models.ArchiveFailed || run.Run != 1 || run.Attempts != attempt || run.Moved != read || run.Entries != 0 || run.FinishedAt == nil {
					t.Errorf("the run is %+v", run)
				}
				if n := f.frozenEntries(b, 1, models.KeyBoard); n != read {
					t.Errorf("Redis has %d entries of %d", n, read)
				}
				if done, err := f.archive.Complete(t.Context(), b); done || err != nil {
					t.Errorf("complete: %v, %v", done, err)
				}
				f.checkWindow("failed", f.boards, b, ranked(entries))
				f.checkWindow("failed", f.archive, b, nil)
				if n := f.archive.Stats().Unverified.Load(); n != int64(attempt) {
					t.Errorf("%d runs were not verified, want %d", n, attempt)
				}
			}
			f.stopCorrupting()
			if run := f.mustArchive(b); run.Run != 1 || run.Attempts != 3 || run.Error != "" || run.Entries != read || int64(run.PointsSum) != scores {
				t.Errorf("after the repair: %+v", run)
			}
			if run := f.lastRun(); run.State != models.ArchiveComplete || run.Error != "" || run.Entries != read || int64(run.PointsSum) != scores {
				t.Errorf("after the repair the run is %+v", run)
			}
			f.checkArchived(b, ranked(entries))
			stats := f.archive.Stats()
			if stats.Complete.Load() != 1 || stats.Failed.Load() != 2 || stats.Unverified.Load() != 2 || stats.Moved.Load() != read {
				t.Errorf("complete %d, failed %d, unverified %d, moved %d",
					stats.Complete.Load(), stats.Failed.Load(), stats.Unverified.Load(), stats.Moved.Load())
			}
		})
	}
}

// Local stores verify, too.
func TestVerificationOnLocalStores(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	f := newFixture(t, env, 3)
	b, entries := f.dueBucket(20)
	statement := fmt.Sprintf(`CREATE TRIGGER corrupt BEFORE INSERT ON archived_scores WHEN NEW.user_id = %v BEGIN SELECT RAISE(IGNORE); END`, entries[0].User)
	if err := env.Gorm.Exec(statement).Error; err != nil {
		t.Fatal(err)
	}
	err := f.mustFail(b)
	if !errors.Is(err, archive.ErrVerification) || f.archive.Stats().Unverified.Load() != 1 {
		t.Errorf("it fails by %v", err)
	}
	checkTotals(t, err.Error(), 20, int64(sum(b, entries)), 19, int64(sum(b, entries[1:])))
	f.checkWindow("failed", f.boards, b, ranked(entries))
	f.checkWindow("failed", f.archive, b, nil)
	if run := f.lastRun(); run.State != models.ArchiveFailed || run.Error == "" || run.Moved != 20 {
		t.Errorf("the run is %+v", run)
	}
	if err := env.Gorm.Exec(`DROP TRIGGER corrupt`).Error; err != nil {
		t.Fatal(err)
	}
	f.mustArchive(b)
	f.checkArchived(b, ranked(entries))
}

// A merge that fails verification leaves the archive unchanged and the late
// entries in Redis.
func TestVerificationOfAMerge(t *testing.T) {
	t.Parallel()
	for _, tt := range corruptions {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, testenv.Real(t), 3)
			b := f.today()
			const old, points = 40, 50
			first := append(randomEntries(t, b, 300, 1), entry(t, b, 5000, old, b.StartsAt))
			f.raise(b, first...)
			f.makeDue(b)
			f.mustArchive(b)

			late := append(randomEntries(t, b, 100, 2), entry(t, b, 5000, points, b.StartsAt.Add(time.Second)))
			f.raise(b, late...)
			f.corruptRows(5000, tt.how)
			err := f.mustFail(b)
			if !errors.Is(err, archive.ErrVerification) {
				t.Errorf("it fails with %v", err)
			}
			want := ranked(first, late)
			rows, scores := int64(len(want)), int64(sum(b, want))
			run := f.lastRun()
			for _, text := range []string{err.Error(), run.Error} {
				checkTotals(t, text, rows, scores, rows+tt.rows(old, points), scores+tt.scores(old, points))
			}
			if run.State != models.ArchiveFailed || run.Run != 2 || run.Moved != int64(len(late)) || run.Entries != 0 {
				t.Errorf("the run is %+v", run)
			}
			if n := f.frozenEntries(b, 2, models.KeyLate); n != int64(len(late)) {
				t.Errorf("Redis has %d entries of %d", n, len(late))
			}
			f.checkWindow("failed", f.archive, b, ranked(first))
			if n := f.archive.Stats().Unverified.Load(); n != 1 {
				t.Errorf("%d runs were not verified", n)
			}
			due, err := f.archive.Due(t.Context())
			if err != nil || len(due) != 1 {
				t.Errorf("due %v, %v", due, err)
			}
			f.stopCorrupting()
			if run := f.mustArchive(b); run.Run != 2 || run.Attempts != 2 || run.Entries != rows || int64(run.PointsSum) != scores {
				t.Errorf("after the repair: %+v", run)
			}
			f.checkArchived(b, want)
		})
	}
}

// A run fails if frozen entries vanish while they are read, whether they were
// read already or not, or if a whole frozen key vanishes.
func TestEntriesThatVanishWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	start := env.Clock.Now()
	for i, tt := range []struct {
		name   string
		shards int
		// after is the step after which the entry of this index vanishes; index
		// -1 stands for all entries.
		after string
		index int64
		lost  string
	}{
		{"the first, read already", 1, "read", 0, "1099 of 1100 are left"},
		{"the last, not read yet", 1, "read", 1099, "1099 of 1100 are left"},
		{"one of many shards", 3, "listed", 5, "shard 0, frozen by run 1, has lost entries"},
		{"the whole key", 1, "read", -1, "500 of 1100 are left"},
	} {
		f := newFixture(t, env, tt.shards)
		env.Clock.Set(start.AddDate(0, 0, i+1))
		b := f.today()
		f.raise(b, randomEntries(t, b, 1100, uint64(i))...)
		f.makeDue(b)
		key := env.Keys.Frozen(b, 0, 1, models.KeyBoard)
		var once sync.Once
		failing := f.archiveOver(&hookedStore{f.inRedis(), func(step string) error {
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
		_, err := failing.Archive(t.Context(), b, func(int64) {})
		if err == nil || errors.Is(err, archive.ErrVerification) || !strings.Contains(err.Error(), tt.lost) {
			t.Errorf("%s: %v", tt.name, err)
		}
		run := f.lastRun()
		if run.Bucket != b.Name || run.State != models.ArchiveFailed || !strings.Contains(run.Error, tt.lost) {
			t.Errorf("%s: the run is %+v", tt.name, run)
		}
		if stats := failing.Stats(); stats.Failed.Load() != 1 || stats.Unverified.Load() != 0 || stats.Complete.Load() != 0 {
			t.Errorf("%s: failed %d, unverified %d, complete %d", tt.name, stats.Failed.Load(), stats.Unverified.Load(), stats.Complete.Load())
		}
		f.checkWindow(tt.name, f.archive, b, nil)
		left, err := f.boards.Window(t.Context(), b, board.Top, 0, 3000)
		if err != nil {
			t.Fatal(err)
		}
		// The entries left are archived all the same.
		if run := f.mustArchive(b); run.Attempts != 2 || run.Entries != left.Total {
			t.Errorf("%s: afterwards %+v", tt.name, run)
		}
		f.checkArchived(b, left.Behind)
	}
}
