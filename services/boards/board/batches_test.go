package board_test

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// storedScores returns what the table has of a bucket.
func storedScores(t *testing.T, db *gorm.DB, bucket *models.Bucket) map[models.RowID]models.Composite {
	t.Helper()
	var entries []models.Entry
	if err := db.Raw(`SELECT user_id AS user, composite FROM hot_scores WHERE bucket = ?`, bucket.Name).Scan(&entries).Error; err != nil {
		t.Fatal(err)
	}
	stored := make(map[models.RowID]models.Composite)
	for _, e := range entries {
		stored[e.User] = e.Composite
	}
	return stored
}

func count(t *testing.T, db *gorm.DB, table string) (n int64) {
	t.Helper()
	if err := db.Table(table).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever comes in batches or alone, and whenever a process dies, each day has the largest score of
// each user, and users who were erased have none.
func TestBatches(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	const erased = 7
	_, err := env.SQL.ExecContext(t.Context(), `INSERT INTO erasures (row_id, user_hash, begun_at, sweeps, removed, finished_at, requests_sent, hidings, moved)
		VALUES (?2, x'00', ?1, 0, 0, ?1, 0, 0, false)`, env.Clock.Now(), erased)
	if err != nil {
		t.Fatal(err)
	}
	days := []*models.Bucket{testenv.Bucket(1), testenv.Bucket(1)}
	days[1].Name = "another"
	want := map[*models.Bucket]map[models.RowID]models.Composite{}
	for _, day := range days {
		if err := env.Gorm.Create(day).Error; err != nil {
			t.Fatal(err)
		}
		want[day] = make(map[models.RowID]models.Composite)
	}
	begin := func() *board.Local {
		hot := board.NewHotScores(env.Increments.Gorm)
		hot.MoveFrom(400)
		return board.NewLocal(hot, env.Clock.Now, nil)
	}
	local := begin()
	random := rand.New(rand.NewPCG(3, 4))
	waited := false // whether batches waited when a process died
	for range 400 {
		var raises []models.Raise
		for range 1 + random.IntN([]int{10, 300}[random.IntN(2)]) {
			r := entry(days[random.IntN(2)], models.RowID(1+random.IntN(3000)), models.Composite(1+random.IntN(5000)))
			raises = append(raises, r)
			if r.User != erased {
				want[r.Bucket][r.User] = max(want[r.Bucket][r.User], r.Composite)
			}
		}
		raise(t.Context(), t, local, raises...)
		switch random.IntN(30) {
		case 0: // the process dies
			waited = waited || count(t, env.Gorm, "hot_batches") > 0
			local = begin()
			if err := local.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, day := range days {
				shown := make(map[models.RowID]models.Composite)
				for _, e := range ranked(t, local, day) {
					shown[e.User] = e.Composite
				}
				if diff := cmp.Diff(want[day], shown); diff != "" {
					t.Fatalf("after a start (-want +got):\n%s", diff)
				}
			}
		case 1: // an operator asks
			day, user := raises[0].Bucket, raises[0].User
			if got := testenv.Must(local.Reported(t.Context(), day, []models.RowID{user}))[0]; got != want[day][user] {
				t.Fatalf("user %v has reported %v, want %v", user, got, want[day][user])
			}
		case 2:
			day, user := raises[0].Bucket, raises[0].User
			testenv.Must(local.Remove(t.Context(), []*models.Bucket{day}, []models.RowID{user}))
			delete(want[day], user)
		}
	}
	if err := local.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, day := range days {
		if diff := cmp.Diff(want[day], storedScores(t, env.Gorm, day)); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	}
	if n := count(t, env.Gorm, "hot_batches"); n > 0 || !waited {
		t.Errorf("%d batches are left; some waited: %v", n, waited)
	}
}

// Batches are moved while others come, and one that can't be moved is not lost.
func TestBatchesAreMoved(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	hot, bucket := board.NewHotScores(env.Increments.Gorm), testenv.Bucket(1)
	hot.MoveFrom(1000)
	local := board.NewLocal(hot, env.Clock.Now, nil)
	want := make(map[models.RowID]models.Composite)
	send := func(first int) []error {
		var raises []models.Raise
		for user := range 500 {
			raises = append(raises, entry(bucket, models.RowID(first+user), models.Composite(first+1)))
		}
		errs := local.Raise(t.Context(), raises)
		if errs == nil {
			for _, r := range raises {
				want[r.User] = r.Composite
			}
		}
		return errs
	}
	for i := range 2 {
		if errs := send(1 + 500*i); errs != nil {
			t.Fatal(errs)
		}
	}
	if n := len(storedScores(t, env.Gorm, bucket)); n > 0 {
		t.Errorf("%d are moved already", n)
	}
	if _, err := env.SQL.ExecContext(t.Context(), `CREATE TRIGGER fault BEFORE INSERT ON hot_scores WHEN new.user_id = 700
		BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`); err != nil {
		t.Fatal(err)
	}
	if errs := send(1001); len(errs) != 500 || models.CodeOf(errs[0]) != models.CodeUnavailable {
		t.Errorf("a full disk: %v", errs)
	}
	if n := len(ranked(t, local, bucket)); n != 1000 {
		t.Errorf("%d are shown after an error", n)
	}
	if _, err := env.SQL.ExecContext(t.Context(), `DROP TRIGGER fault`); err != nil {
		t.Fatal(err)
	}
	if errs := send(1501); errs != nil {
		t.Fatal(errs)
	}
	stored := storedScores(t, env.Gorm, bucket)
	maps.DeleteFunc(want, func(user models.RowID, _ models.Composite) bool { return user > 1000 })
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	if n := count(t, env.Gorm, "hot_batches"); n != 1 {
		t.Errorf("%d batches wait", n)
	}
}
