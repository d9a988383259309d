package nearcache

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
)

func newTestTable(shards int, memory int64) (*table, *budget) {
	b := &budget{limit: memory}
	t := newTable(testenv.Bucket(shards), b, time.Time{})
	for shard := range shards {
		t.parts = append(t.parts, &part{table: t, stream: &stream{}, shard: shard})
	}
	return t, b
}

// A table keeps the largest composite of each user, in whatever order they come, and
// readers never see one fall.
func TestRaisesAtTheSameTime(t *testing.T) {
	t.Parallel()
	const users, writers = 500, 4
	table, _ := newTestTable(1, 1<<30)
	rows := make([]models.RowID, users)
	for i := range rows {
		rows[i] = models.RowID(1 + i*(3*pageUsers)/users)
	}
	var most [writers][users]models.Composite
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range 20_000 {
				i := random.IntN(users)
				e := models.Entry{User: rows[i], Composite: models.Composite(1 + random.IntN(1_000_000))}
				table.raise(e)
				most[w][i] = max(most[w][i], e.Composite)
			}
		})
		reading.Go(func() {
			var last [users]models.Composite
			for {
				for i, row := range rows {
					if c := table.composite(row); c < last[i] {
						t.Errorf("user %d fell from %d to %d", row, last[i], c)
					} else {
						last[i] = c
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	testenv.Wait(t, "the writer ends", &writing)
	close(stop)
	testenv.Wait(t, "the reader ends", &reading)
	for i, row := range rows {
		want := max(most[0][i], most[1][i], most[2][i], most[3][i])
		if got := table.composite(row); got != want {
			t.Errorf("user %d has %d, want %d", row, got, want)
		}
	}
}

// Clearing a shard removes its users and no others.
func TestClearingAShard(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 3, 7, 1024} {
		table, _ := newTestTable(shards, 1<<30)
		random := rand.New(rand.NewPCG(uint64(shards), 1))
		rows := []models.RowID{1, pageUsers - 1, pageUsers, pageUsers + 1}
		for range 300 {
			rows = append(rows, models.RowID(1+random.IntN(5*pageUsers)))
		}
		for _, row := range rows {
			table.raise(models.Entry{User: row, Composite: 7})
		}
		cleared := random.IntN(shards)
		table.clear(cleared)
		for _, row := range rows {
			if empty := table.composite(row) == 0; empty != (int(row)%shards == cleared) {
				t.Errorf("of %d shards %d was cleared, and user %d has %d", shards, cleared, row, table.composite(row))
			}
		}
	}
}

// A page is allocated for its first score and counted. Without room for it, or for a
// row id that can't be, the table is full, and what it has released is free again.
func TestMemoryOfATable(t *testing.T) {
	t.Parallel()
	table, budget := newTestTable(1, 2*pageBytes)
	if table.composite(10*pageUsers) != 0 || budget.used.Load() != 0 {
		t.Errorf("reading took %d bytes", budget.used.Load())
	}
	for _, row := range []models.RowID{1, 2, 9 * pageUsers, 9*pageUsers + 1} {
		table.raise(models.Entry{User: row, Composite: 5})
	}
	if used := budget.used.Load(); used != 2*pageBytes || table.full.Load() {
		t.Errorf("two pages take %d bytes, full %v", used, table.full.Load())
	}
	table.raise(models.Entry{User: 3 * pageUsers, Composite: 5})
	if used := budget.used.Load(); used != 2*pageBytes || !table.full.Load() || !table.overflowed() {
		t.Errorf("a third page: %d bytes, full %v", used, table.full.Load())
	}
	table.release()
	if used := budget.used.Load(); used != 0 || table.composite(1) != 0 || table.overflowed() {
		t.Errorf("after its release the table has %d bytes", used)
	}
	table.raise(models.Entry{User: 1, Composite: 5})
	if used := budget.used.Load(); used != 0 {
		t.Errorf("after its release the table has taken %d bytes", used)
	}
	for _, row := range []models.RowID{0, -1, maxRow + 1, models.MaxRowID} {
		other, _ := newTestTable(1, 1<<30)
		other.raise(models.Entry{User: row, Composite: 5})
		if !other.full.Load() {
			t.Errorf("row %d was taken", row)
		}
	}
}
