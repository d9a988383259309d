package board_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// Reading a part page by page returns every entry that does not change, in ranking
// order, while other entries move.
func TestReadPart(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, env *testenv.Env, open opener) {
		store := open(env.Clock.Now)
		bucket := testenv.Bucket(1)
		var raises []models.Raise
		var want []models.Entry
		for user := range models.RowID(50) {
			e := models.Entry{User: user + 1, Composite: models.Composite(1000 + user%4)} // many ties
			raises = append(raises, models.Raise{Bucket: bucket, Entry: e})
			want = append(want, e)
		}
		if errs := store.Raise(t.Context(), raises); errs != nil {
			t.Fatal(errs)
		}
		slices.SortFunc(want, models.Entry.Compare)
		parts := testenv.Must(store.Parts(t.Context(), bucket))
		if len(parts) != 1 {
			t.Fatalf("parts %v", parts)
		}
		var got []models.Entry
		behind := board.Top
		for {
			page := testenv.Must(store.ReadPart(t.Context(), parts[0], behind, 7))
			got = append(got, page...)
			if len(page) < 7 {
				break
			}
			behind = page[6]
			// The last entry of the page moves to the top.
			moved := models.Entry{User: behind.User, Composite: 2000}
			if errs := store.Raise(t.Context(), []models.Raise{{Bucket: bucket, Entry: moved}}); errs != nil {
				t.Fatal(errs)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Lower changes entries that are as they were read, and no others. The sums of a rolling
// bucket follow.
func TestLower(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, env *testenv.Env, open opener) {
		store := open(env.Clock.Now)
		rolling := rollingBucket(3, 1, 1000)
		event := testenv.Bucket(1)
		for _, bucket := range []*models.Bucket{event, rolling} {
			at := func(user models.RowID, points int64) models.Raise { return hourly(bucket, user, points, testenv.Noon) }
			raise(t.Context(), t, store, at(1, 30), at(2, 30), at(3, 30), at(4, 30))
			part := testenv.Must(store.Parts(t.Context(), bucket))[0]
			var lowerings []models.Lowering
			for user := range models.RowID(3) {
				lowerings = append(lowerings, models.Lowering{Stored: at(user+1, 30).Entry, Composite: at(user+1, 10).Composite})
			}
			lowerings[1].Composite = 0
			raise(t.Context(), t, store, at(3, 31)) // passes what was read
			for _, want := range []int64{2, 0} {
				if n, err := store.Lower(t.Context(), part, lowerings); err != nil || n != want {
					t.Errorf("%s: lowered %d, %v, want %d", bucket.Board, n, err, want)
				}
			}
			var got []int64
			for user := range models.RowID(4) {
				got = append(got, scoreOf(t.Context(), t, store, bucket, user+1))
			}
			if fmt.Sprint(got) != "[10 0 31 30]" {
				t.Errorf("%s: scores %v", bucket.Board, got)
			}
		}
		checkSums(t.Context(), t, store, rolling)
	})
}
