package board_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// keptApart are rules by which what some users report is not shown.
type keptApart map[models.RowID]bool

func (k keptApart) Route(_ *models.Bucket, user models.RowID) (models.EntryKey, bool) {
	if k[user] {
		return models.KeyReported, true
	}
	return models.KeyBoard, true
}

func entry(bucket *models.Bucket, user models.RowID, composite models.Composite) models.Raise {
	return models.Raise{Bucket: bucket, Entry: models.Entry{User: user, Composite: composite}}
}

func ranked(t *testing.T, store board.Reader, bucket *models.Bucket) []models.Entry {
	t.Helper()
	return testenv.Must(store.Window(t.Context(), bucket, board.Top, 0, 1_000_000)).Behind
}

// A process that begins anew shows a day as the one before it did, however it was raised.
func TestLocalIsReadBack(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	hot, rules := board.NewHotScores(env.Increments.Gorm), keptApart{3: true}
	before := board.NewLocal(hot, env.Clock.Now, rules)
	bucket, event := testenv.Bucket(2), testenv.Bucket(1)
	event.Name, event.FromLedger = "event", true
	for _, b := range []*models.Bucket{bucket, event} {
		if err := env.Gorm.Create(b).Error; err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		var raises []models.Raise
		for range random.IntN(800) {
			of := []*models.Bucket{bucket, event}[random.IntN(2)]
			raises = append(raises, entry(of, models.RowID(1+random.IntN(12_000)), models.Composite(1+random.IntN(50))))
		}
		raise(t.Context(), t, before, raises...)
	}
	want := ranked(t, before, bucket)
	if slices.ContainsFunc(want, func(e models.Entry) bool { return e.User == 3 }) || len(want) < 5000 {
		t.Fatalf("%d users are shown, or one who is kept apart", len(want))
	}
	after := board.NewLocal(hot, env.Clock.Now, rules)
	if err := after.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ranked(t, after, bucket)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if n := len(ranked(t, after, event)); n > 0 {
		t.Errorf("%d entries of an event, which is the ledger's", n)
	}
}

// What can't be stored is not shown, and nothing of it is counted as stored.
func TestLocalShowsWhatIsStored(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	hot := board.NewHotScores(env.Increments.Gorm)
	store, bucket := board.NewLocal(hot, env.Clock.Now, nil), testenv.Bucket(1)
	raise(t.Context(), t, store, entry(bucket, 1, 5))
	if _, err := env.SQL.ExecContext(t.Context(), `CREATE TRIGGER fault BEFORE INSERT ON hot_scores
		BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`); err != nil {
		t.Fatal(err)
	}
	errs := store.Raise(t.Context(), []models.Raise{entry(bucket, 1, 6), entry(bucket, 2, 7)})
	if len(errs) != 2 || models.CodeOf(errs[0]) != models.CodeUnavailable || models.CodeOf(errs[1]) != models.CodeUnavailable {
		t.Errorf("a full disk: %v", errs)
	}
	if got := ranked(t, store, bucket); fmt.Sprint(got) != "[{1 5}]" {
		t.Errorf("a full disk: %v is shown", got)
	}
	if _, err := env.SQL.ExecContext(t.Context(), `DROP TRIGGER fault`); err != nil {
		t.Fatal(err)
	}
	if errs := store.Raise(t.Context(), []models.Raise{entry(bucket, models.MaxRowID, 6)}); errs == nil {
		t.Error("a row id that no table has room for was taken")
	}
}

// Users who were erased are not stored again, by whomever their scores are sent.
func TestLocalLeavesOutErasedUsers(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	_, err := env.SQL.ExecContext(t.Context(), `INSERT INTO erasures (row_id, user_hash, begun_at, sweeps, removed, finished_at, requests_sent, hidings, moved)
		VALUES (2, x'00', ?1, 0, 0, ?1, 0, 0, false)`, env.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	hot := board.NewHotScores(env.Increments.Gorm)
	bucket := testenv.Bucket(1)
	raise(t.Context(), t, board.NewLocal(hot, env.Clock.Now, nil), entry(bucket, 1, 5), entry(bucket, 2, 5), entry(bucket, 3, 5))
	var stored []models.Entry
	if err := env.Gorm.Raw(`SELECT user_id AS user, composite FROM hot_scores ORDER BY user_id`).Scan(&stored).Error; err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(stored) != "[{1 5} {3 5}]" {
		t.Errorf("stored %v", stored)
	}
}

// What comes after a day has turned cold is stored and not shown, and counts from the next start
// or archive run on.
func TestLocalLateScores(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	hot := board.NewHotScores(env.Increments.Gorm)
	store, bucket := board.NewLocal(hot, env.Clock.Now, nil), testenv.Bucket(1)
	raise(t.Context(), t, store, entry(bucket, 1, 5))
	env.Clock.Set(bucket.ColdAt.Add(time.Minute))
	raise(t.Context(), t, store, entry(bucket, 1, 9), entry(bucket, 2, 7))
	if got := ranked(t, store, bucket); fmt.Sprint(got) != "[{1 5}]" {
		t.Errorf("%v is shown", got)
	}
	stored := testenv.Must(store.Stored(t.Context(), []*models.Bucket{bucket}, 1))
	want := []board.StoredEntry{{Bucket: bucket, Key: models.KeyBoard, Composite: 5}, {Bucket: bucket, Key: models.KeyLate, Composite: 9}}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if n := testenv.Must(store.Remove(t.Context(), []*models.Bucket{bucket}, []models.RowID{1})); n != 1 {
		t.Errorf("%d removed", n)
	}
	if got := ranked(t, store, bucket); len(got) > 0 {
		t.Errorf("%v is shown after all was removed", got)
	}
}

func BenchmarkLocalRaise(b *testing.B) {
	env := testenv.Local(b)
	store, bucket := board.NewLocal(board.NewHotScores(env.Increments.Gorm), env.Clock.Now, nil), testenv.Bucket(1)
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			raises := make([]models.Raise, n)
			for b.Loop() {
				for i := range raises {
					raises[i] = entry(bucket, models.RowID(1+random.IntN(1_000_000)), models.Composite(1+random.Int64N(1<<50)))
				}
				raise(b.Context(), b, store, raises...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/score")
		})
	}
}
