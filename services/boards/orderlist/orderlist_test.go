package orderlist_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/boards/orderlist"
)

// A list has the order, the ranks and the ranges of a sorted slice, through splits, merges and
// ties.
func TestListEqualsASortedSlice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		composites := rapid.SampledFrom([]int{1, 3, 1000, 1 << 40}).Draw(t, "composites")
		rows := rapid.SampledFrom([]int{1, 300, 3000, 1<<32 - 1}).Draw(t, "rows")
		draw := func() models.Entry {
			return models.Entry{Composite: models.Composite(1 + random.IntN(composites)), User: models.RowID(1 + random.IntN(rows))}
		}
		var list orderlist.List
		var want []models.Entry
		for range rapid.IntRange(1, 4).Draw(t, "phases") {
			inserts := rapid.IntRange(0, 100).Draw(t, "inserts in 100")
			for range rapid.IntRange(0, 3000).Draw(t, "steps") {
				e := draw()
				if len(want) > 0 && random.IntN(4) == 0 {
					e = want[random.IntN(len(want))]
				}
				i, found := slices.BinarySearchFunc(want, e, models.Entry.Compare)
				if random.IntN(100) < inserts {
					if list.Insert(e); !found {
						want = slices.Insert(want, i, e)
					}
				} else if list.Remove(e); found {
					want = slices.Delete(want, i, i+1)
				}
			}
			if got := list.Range(0, list.Len()+5); list.Len() != len(want) || !slices.Equal(got, want) {
				t.Fatalf("%d entries %v, want %v", list.Len(), got, want)
			}
			for range 50 {
				e := draw()
				i, _ := slices.BinarySearchFunc(want, e, models.Entry.Compare)
				if got := list.Before(e); got != i {
					t.Fatalf("%d entries rank before %v, want %d", got, e, i)
				}
				from, n := random.IntN(len(want)+3)-1, random.IntN(700)
				high := max(0, min(from+n, len(want)))
				if got := list.Range(from, from+n); !slices.Equal(got, want[min(max(from, 0), high):high]) {
					t.Fatalf("the range from %d of %d is %v", from, n, got)
				}
			}
		}
	})
}

// The memory of a list follows its entries, and stays near EntryBytes for each.
func TestMemoryOfAList(t *testing.T) {
	t.Parallel()
	const n = 100_000
	random := rand.New(rand.NewPCG(1, 1))
	var list orderlist.List
	entries := make([]models.Entry, n)
	for i := range entries {
		entries[i] = models.Entry{User: models.RowID(i + 1), Composite: models.Composite(1 + random.Int64N(1<<50))}
		list.Insert(entries[i])
	}
	if each := float64(list.Bytes()) / n; each > orderlist.EntryBytes {
		t.Errorf("an entry takes %.1f bytes", each)
	}
	for _, e := range entries[:n*9/10] { // the others are spread over all blocks
		list.Remove(e)
	}
	if each := float64(list.Bytes()) / n * 10; each > 3*orderlist.EntryBytes {
		t.Errorf("one of ten that stays takes %.1f bytes", each)
	}
	for _, e := range entries[n*9/10:] {
		list.Remove(e)
	}
	if list.Len() != 0 || list.Bytes() != 0 {
		t.Errorf("an empty list has %d entries and takes %d bytes", list.Len(), list.Bytes())
	}
}

func BenchmarkList(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 1))
			var before, after runtime.MemStats
			stored := make([]models.Composite, n+1)
			runtime.GC()
			runtime.ReadMemStats(&before)
			var list orderlist.List
			for user := 1; user <= n; user++ {
				stored[user] = models.Composite(1 + random.Int64N(1<<50))
				list.Insert(models.Entry{User: models.RowID(user), Composite: stored[user]})
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			each := float64(after.HeapAlloc-before.HeapAlloc) / float64(n)
			anybody := func() models.Entry {
				user := 1 + random.IntN(n)
				return models.Entry{User: models.RowID(user), Composite: stored[user]}
			}
			b.Run("raise", func(b *testing.B) {
				for b.Loop() {
					e := anybody()
					list.Remove(e)
					e.Composite += models.Composite(random.Int64N(1 << 44))
					stored[e.User] = e.Composite
					list.Insert(e)
				}
				b.ReportMetric(each, "B/entry")
			})
			b.Run("rank", func(b *testing.B) {
				for b.Loop() {
					list.Before(anybody())
				}
			})
			b.Run("window", func(b *testing.B) {
				for b.Loop() {
					at := list.Before(anybody())
					list.Range(at-25, at+25)
				}
			})
		})
	}
}
