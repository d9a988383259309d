package directory_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/people/directory"
)

// numbered returns the id of the user with a row id.
func numbered(row models.RowID) models.UserID { return models.UserID(fmt.Sprintf("user-%d", row)) }

// Whatever is put, a table returns nothing or the row id that was put last for the user.
func TestIDTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := directory.NewIDTable(int64(rapid.SampledFrom([]int{0, 64, 1000, 100_000}).Draw(t, "bytes")))
		users := rapid.Custom(func(t *rapid.T) models.UserID {
			return numbered(models.RowID(rapid.Int64Range(1, 60).Draw(t, "user")))
		})
		model := map[models.UserID]models.RowID{}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				user, row := users.Draw(t, "user"), models.RowID(rapid.Int64Range(1, int64(models.MaxRowID)).Draw(t, "row"))
				table.Put(user, row)
				model[user] = row
				if got := table.Get(user); got != row {
					t.Fatalf("%s has row %d right after %d was put", user, got, row)
				}
			},
			"get": func(t *rapid.T) {
				list := rapid.SliceOfN(users, 0, 100).Draw(t, "users")
				rows := make([]models.RowID, len(list))
				table.GetAll(list, rows)
				for i, row := range rows {
					if row != 0 && row != model[list[i]] {
						t.Fatalf("%s has row %d, want %d", list[i], row, model[list[i]])
					}
				}
			},
		})
		if table.Held() > len(model) {
			t.Fatalf("%d row ids of %d users", table.Held(), len(model))
		}
	})
}

// A table keeps within its bytes, by the heap's own measure. It holds at least two thirds
// of as many users as there is room for, and nearly all of them if they are half as many.
// The test is not parallel, so that nothing else allocates.
func TestIDTableMemory(t *testing.T) {
	const bytes, room = 1_600_000, 100_000
	before := heap()
	table := directory.NewIDTable(bytes)
	if used := heap() - before; used > bytes*21/20 {
		t.Errorf("%d bytes, want at most %d", used, bytes)
	}
	for row := range models.RowID(3 * room) {
		table.Put(numbered(row+1), row+1)
		switch held := table.Held; row + 1 {
		case room / 2:
			if n := held(); n < room/2*95/100 {
				t.Errorf("%d of %d row ids are held", n, room/2)
			}
		case room:
			if n := held(); n < room*2/3 {
				t.Errorf("%d of %d row ids are held", n, room)
			}
		}
	}
	if n := table.Held(); n < room*95/100 || n > room {
		t.Errorf("%d row ids are held, want %d", n, room)
	}
	if used := heap() - before; used > bytes*21/20 {
		t.Errorf("%d bytes for %d row ids, want at most %d", used, table.Held(), bytes)
	}
	runtime.KeepAlive(table)
}

// Readers and writers of the same sets get the row ids of the users that they ask for.
func TestIDTableConcurrently(t *testing.T) {
	t.Parallel()
	table := directory.NewIDTable(64) // one set of four
	var wg sync.WaitGroup
	for worker := range uint64(4) {
		wg.Go(func() {
			random := mathrand.New(mathrand.NewPCG(3, worker))
			for range 200_000 {
				row := models.RowID(1 + random.Int64N(6))
				switch got := table.Get(numbered(row)); got {
				case row:
				case 0:
					table.Put(numbered(row), row)
				default:
					t.Errorf("the user of row %d has row %d", row, got)
					return
				}
			}
		})
	}
	wg.Wait()
}
