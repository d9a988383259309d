package likes

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// statements counts the statements about table likes, in any session of a database.
type statements struct {
	mu   sync.Mutex
	list []string
}

// count notes the statements that gorm sends from now on.
func count(t *testing.T, db *gorm.DB) *statements {
	t.Helper()
	s := &statements{}
	note := func(db *gorm.DB) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = append(s.list, strings.Fields(db.Statement.SQL.String())[0])
	}
	for _, err := range []error{
		db.Callback().Create().After("gorm:create").Register("count", note), db.Callback().Update().After("gorm:update").Register("count", note),
		db.Callback().Raw().After("gorm:raw").Register("count", note), db.Callback().Row().After("gorm:row").Register("count", note),
		db.Callback().Query().After("gorm:query").Register("count", note),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// A like is one statement, which no other person's like of the same day waits for, and so are
// the counts of a page. Old likes are deleted.
func TestStatements(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		const people, day = 50, models.Date(20_000)
		testenv.NumberUsers(t, env, people+1)
		store, sent := NewStore(env.Gorm, nil), count(t, env.Gorm)
		for by := range models.RowID(people) {
			like := models.Like{UserID: 1, Day: day, Board: "steps", LikedBy: by + 2, CreatedAt: env.Clock.Now().UTC()}
			if err := store.give(t.Context(), like); err != nil {
				t.Fatal(err)
			}
		}
		if want := strings.Repeat("INSERT ", people); strings.Join(sent.list, " ")+" " != want {
			t.Errorf("to like: %v", sent.list)
		}
		sent.list = nil
		counts, err := store.Counts(t.Context(), "steps", day, 2, []models.RowID{1, 2, 3})
		if got := fmt.Sprint(counts, err, sent.list); got != "map[1:{50 true}] <nil> [SELECT]" {
			t.Errorf("counts: %s", got)
		}
		for i, want := range []int64{0, people} {
			if n, err := store.Purge(t.Context(), day+models.Date(i)); err != nil || n != want {
				t.Errorf("purge %d: %d, %v", i, n, err)
			}
		}
	})
}

// A viewer is told of no like of people who are not shown to the viewer, and of the own one always.
func TestLikesOfPeopleWhoAreNotShown(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		const day = models.Date(20_000)
		testenv.NumberUsers(t, env, 5)
		testenv.Hide(t, env, 2, 1, 3) // 2 blocks 1, and 3 hides from everybody
		store := NewStore(env.Gorm, nil)
		for by := range models.RowID(3) {
			like := models.Like{UserID: 5, Day: day, Board: "steps", LikedBy: by + 2, CreatedAt: env.Clock.Now().UTC()}
			if err := store.give(t.Context(), like); err != nil {
				t.Fatal(err)
			}
		}
		for viewer, want := range map[models.RowID]models.LikeCount{1: {Likes: 1}, 2: {Likes: 2, Liked: true}, 3: {Likes: 3, Liked: true}, 5: {Likes: 2}} {
			counts, err := store.Counts(t.Context(), "steps", day, viewer, []models.RowID{5})
			if err != nil || counts[5] != want {
				t.Errorf("%d is shown %+v, %v, want %+v", viewer, counts[5], err, want)
			}
		}
	})
}

// In Postgres, a like that is being stored holds up none of another person, nor the counts.
func TestLikesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	testenv.NumberUsers(t, env, 5)
	like := models.Like{UserID: 1, Day: 20_000, Board: "steps", LikedBy: 2, CreatedAt: env.Clock.Now().UTC()}
	store := NewStore(env.Gorm, nil)
	err := env.Gorm.Transaction(func(open *gorm.DB) error {
		if err := open.Create(&like).Error; err != nil {
			return err
		}
		other := like
		other.LikedBy = 3
		if err := store.give(t.Context(), other); err != nil {
			return fmt.Errorf("another like: %w", err)
		}
		counts, err := store.Counts(t.Context(), "steps", 20_000, 5, []models.RowID{1})
		if counts[1].Likes != 1 {
			t.Errorf("%+v", counts)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
