package cache

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
)

// A packed set has the same members.
func TestPack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfDistinct(rapid.Int64Range(1, int64(models.MaxRowID)), rapid.ID[int64]).Draw(t, "members")
		rows := make([]models.RowID, len(members))
		for i, id := range members {
			rows[i] = models.RowID(id)
		}
		got := unpack(pack(rows))
		slices.Sort(rows)
		if !slices.Equal(got, rows) {
			t.Fatalf("%v, want %v", got, rows)
		}
	})
}

// A set of members that are spread over ten million users is read from memory. bytes is what its copy takes.
func BenchmarkUnpack(b *testing.B) {
	for _, n := range []int{50, 200, 5000} {
		members := make([]models.RowID, n)
		for i := range members {
			members[i] = models.RowID(1 + i*10_000_000/n)
		}
		packed := pack(members)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				unpack(packed)
			}
			b.ReportMetric(float64(cap(packed)+copyOverhead), "bytes")
		})
	}
}
