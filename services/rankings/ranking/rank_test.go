package ranking_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

func drawEntries(t *rapid.T) []models.Entry {
	users := rapid.SliceOfNDistinct(rapid.Int64Range(1, 2000), 0, 60, rapid.ID).Draw(t, "users")
	entries := make([]models.Entry, len(users))
	for i, user := range users {
		entries[i] = models.Entry{
			User:      models.RowID(user),
			Composite: models.Composite(rapid.Int64Range(0, 5).Draw(t, "composite")), // 0: no score
		}
	}
	return entries
}

// bruteForce ranks entries by the ranking rule, in the simplest way.
func bruteForce(entries []models.Entry) []models.Entry {
	var ranked []models.Entry
	for _, e := range entries {
		if e.Composite != 0 {
			ranked = append(ranked, e)
		}
	}
	slices.SortStableFunc(ranked, func(a, b models.Entry) int {
		if a.Composite != b.Composite {
			return int(b.Composite - a.Composite)
		}
		return strings.Compare(b.User.String(), a.User.String())
	})
	return ranked
}

// Rankings of any length agree with sorting, also in orders that are bad for a quicksort,
// with few and with many different composites.
func TestRankAgreesWithSorting(t *testing.T) {
	t.Parallel()
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 2, 11, 12, 13, 14, 50, 200, 201, 2000, 5001} {
		for _, composites := range []int64{1, 2, 100, 1 << 53} {
			entries := make([]models.Entry, size)
			for i := range entries {
				entries[i] = models.Entry{User: models.RowID(1 + i*7919%99_991), Composite: models.Composite(random.Int64N(composites))}
			}
			want := bruteForce(entries)
			reversed := slices.Clone(want)
			slices.Reverse(reversed)
			for order, given := range map[string][]models.Entry{"random": entries, "sorted": want, "reversed": reversed} {
				for _, limit := range []int{0, 1, 50, 200, size} {
					p := ranking.Rank(slices.Clone(given), 0, models.Entry{}, limit)
					if p.Total != int64(len(want)) || !slices.Equal(p.Entries, want[:min(limit, len(want))]) {
						t.Fatalf("%d %s entries of %d composites, page of %d: got %v", size, order, composites, limit, p)
					}
				}
			}
		}
	}
}

// The pages, of any size, make up the list that bruteForce returns.
func TestPagesMakeUpTheRankedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		want := bruteForce(entries)
		viewer := models.RowID(rapid.Int64Range(1, 2000).Draw(t, "viewer"))
		if len(want) > 0 && rapid.Bool().Draw(t, "viewer is ranked") {
			viewer = rapid.SampledFrom(want).Draw(t, "viewer").User
		}
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		var got []models.Entry
		var after models.Entry
		for {
			p := ranking.Rank(slices.Clone(entries), viewer, after, limit)
			if p.Total != int64(len(want)) {
				t.Fatalf("total %d, want %d", p.Total, len(want))
			}
			if p.FirstRank != int64(len(got))+1 {
				t.Fatalf("page begins with rank %d, want %d", p.FirstRank, len(got)+1)
			}
			myRank := 1 + slices.IndexFunc(want, func(e models.Entry) bool { return e.User == viewer })
			if p.MyRank != int64(myRank) || (myRank > 0 && p.Mine != want[myRank-1]) {
				t.Fatalf("viewer %v: rank %d with %v, want %d", viewer, p.MyRank, p.Mine, myRank)
			}
			got = append(got, p.Entries...)
			if !p.More {
				break
			}
			if len(p.Entries) != limit {
				t.Fatalf("a page of %d with more after it", len(p.Entries))
			}
			after = p.Entries[len(p.Entries)-1]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("ranked %v, want %v", got, want)
		}
	})
}

// A page begins after the cursor's position, whether or not its entry still exists.
func TestAPageAfterAnEntryThatIsGone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		position := models.Entry{
			User:      models.RowID(rapid.Int64Range(1, 2000).Draw(t, "user")),
			Composite: models.Composite(rapid.Int64Range(1, 5).Draw(t, "composite")),
		}
		var want []models.Entry
		for _, e := range bruteForce(entries) {
			if e.Compare(position) > 0 {
				want = append(want, e)
			}
		}
		p := ranking.Rank(slices.Clone(entries), 0, position, 1000)
		if !slices.Equal(p.Entries, want) || p.FirstRank != p.Total-int64(len(want))+1 {
			t.Fatalf("after %v: %v from rank %d, want %v", position, p.Entries, p.FirstRank, want)
		}
	})
}

// Rank of a circle of 200 friends.
func BenchmarkRank(b *testing.B) {
	random := mathrand.New(mathrand.NewPCG(1, 2))
	circles := make([][]models.Entry, 100) // so that no branch is predicted from the last time
	for i := range circles {
		circles[i] = make([]models.Entry, 200)
		for j := range circles[i] {
			circles[i][j] = models.Entry{User: models.RowID(j + 1), Composite: models.Composite(random.Int64N(1 << 53))}
		}
	}
	for _, limit := range []int{50, 200} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			entries := make([]models.Entry, 200)
			for i := range b.N {
				copy(entries, circles[i%len(circles)])
				ranking.Rank(entries, 100, models.Entry{}, limit)
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rank, total int64
		want        float64
	}{
		{1, 1, 100}, {1, 2, 100}, {2, 2, 0}, {2, 3, 50}, {2, 4, 66.6}, {3, 4, 33.3}, {1, 1_000_000, 100}, {2, 1_000_000, 99.9}, {1_000_000, 1_000_000, 0},
	}
	for _, tt := range tests {
		if got := ranking.Percentile(tt.rank, tt.total); got != tt.want {
			t.Errorf("rank %d of %d: %v, want %v", tt.rank, tt.total, got, tt.want)
		}
	}
}
