package board_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// Lists, ranks and windows are the same for any number of shards. The
// composites are so few that most entries tie.
func TestShardsChangeNoResult(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		users := rapid.SliceOfNDistinct(rapid.Int64Range(1, 3000), 0, 80, rapid.ID).Draw(r, "users")
		entries := make([]models.Entry, len(users))
		for i, user := range users {
			entries[i] = models.Entry{User: models.RowID(user), Composite: models.Composite(rapid.Int64Range(1, 6).Draw(r, "composite"))}
		}
		at := board.Top
		switch place := rapid.IntRange(0, 2).Draw(r, "place"); {
		case place == 1 && len(entries) > 0:
			at = rapid.SampledFrom(entries).Draw(r, "entry")
		case place == 2: // perhaps a position without an entry
			at = models.Entry{User: models.RowID(rapid.Int64Range(1, 3000).Draw(r, "user")), Composite: models.Composite(rapid.Int64Range(1, 7).Draw(r, "at"))}
		}
		back, forward := rapid.IntRange(0, 12).Draw(r, "back"), rapid.IntRange(0, 12).Draw(r, "forward")
		var want board.Window
		for _, shards := range []int{1, 3, 16} {
			bucket := testenv.Bucket(shards)
			bucket.Name = fmt.Sprintf("%d-%d", n, shards)
			raises := make([]models.Raise, len(entries))
			for i, e := range entries {
				raises[i] = models.Raise{Bucket: bucket, Entry: e}
			}
			if errs := store.Raise(t.Context(), raises); errs != nil {
				r.Fatal(errs)
			}
			got, err := store.Window(t.Context(), bucket, at, back, forward)
			if err != nil {
				r.Fatal(err)
			}
			if len(got.Ahead) == 0 {
				got.Ahead = nil
			}
			if len(got.Behind) == 0 {
				got.Behind = nil
			}
			if shards == 1 {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				r.Fatalf("%d shards, around %+v, %d before and %d from it on (-one +several):\n%s", shards, at, back, forward, diff)
			}
		}
	})
}
