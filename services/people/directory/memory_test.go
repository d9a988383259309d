//go:build !race

package directory_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/directory"
)

// Whatever is put and replaced, a table returns nothing or the newest version of the
// row's record since the table has held it.
func TestRecordTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := directory.NewRecordTable(int64(rapid.SampledFrom([]int{0, 70_000, 200_000, 1_000_000}).Draw(t, "bytes")))
		rows := rapid.OneOf(rapid.Int64Range(1, 80), rapid.Int64Range(1, int64(models.MaxRowID)))
		held := map[models.RowID]int64{} // the newest version since the row was found held
		put := func(row models.RowID, version int64) {
			if _, _, ok := table.Get(row); !ok {
				delete(held, row)
			}
			held[row] = max(held[row], version)
			if got := table.Put(longRecordOf(row, version)); !isRecord(got, longRecordOf(row, held[row])) {
				t.Fatalf("put of version %d returned %+v, want version %d", version, got, held[row])
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				put(models.RowID(rows.Draw(t, "row")), rapid.Int64Range(0, 5).Draw(t, "version"))
			},
			"put many": func(t *rapid.T) {
				for row := range models.RowID(rapid.IntRange(1, 200).Draw(t, "rows")) {
					put(row+1, 0)
				}
			},
			"replace": func(t *rapid.T) {
				r := longRecordOf(models.RowID(rows.Draw(t, "row")), rapid.Int64Range(0, 5).Draw(t, "version"))
				_, _, was := table.Get(r.Row)
				table.Replace(r)
				if _, _, is := table.Get(r.Row); is && !was {
					t.Fatalf("replace has added row %d", r.Row)
				}
				held[r.Row] = max(held[r.Row], r.Version)
			},
			"get": func(t *rapid.T) {
				list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) models.RowID { return models.RowID(rows.Draw(t, "row")) }), 0, 100).Draw(t, "rows")
				records := make([]models.PublicRecord, len(list))
				table.GetAll(list, records)
				for i, got := range records {
					want := longRecordOf(list[i], held[list[i]])
					if got.User != "" && !isRecord(got, want) {
						t.Fatalf("row %d has %+v, want %+v", list[i], got, want)
					}
				}
			},
		})
	})
}

// A table keeps within its bytes, by the heap's own measure, and makes use of them.
// The test is not parallel, so that nothing else allocates.
func TestRecordTableMemory(t *testing.T) {
	const bytes = 8_000_000
	for name, change := range map[string]func(*models.Record){
		"usual":                       func(*models.Record) {},
		"escaped":                     func(r *models.Record) { r.Nickname = strings.Repeat(`"`, 64) },
		"short":                       func(r *models.Record) { r.Profile = models.Profile{} },
		"long":                        func(r *models.Record) { r.AvatarURL = strings.Repeat("a", 2048) },
		"without a shared beginning":  func(r *models.Record) { r.AvatarURL = fmt.Sprintf("https://%032x.example.com/128.webp", r.Row) },
		"with many shared beginnings": func(r *models.Record) { r.AvatarURL = fmt.Sprintf("https://example.com/%0200x/%d", r.Row/2, r.Row) },
	} {
		before := heap()
		table := directory.NewRecordTable(bytes)
		for row := range models.RowID(400_000) {
			r := recordOf(row+1, 0)
			change(&r)
			table.Put(r)
		}
		used := heap() - before
		if used > bytes*21/20 || used < bytes*9/10 {
			t.Errorf("%s records: %d bytes for %d records, want at most %d", name, used, table.Held(), bytes)
		}
		runtime.KeepAlive(table)
	}
}

// With the default settings a process holds the records and the row ids of a million users.
// The test is not parallel, so that nothing else allocates.
func TestAMillionUsersFit(t *testing.T) {
	bytes := int64(config.Default().Directory.Memory)
	before := heap()
	s := directory.New(directory.Options{Memory: bytes})
	for row := range models.RowID(people) {
		directory.HoldRecord(s, person(row+1, kinds[0].id))
		directory.HoldID(s, numbered(row+1), row+1)
	}
	records, ids := 0, 0
	for row := range models.RowID(people) {
		if directory.HoldsRecord(s, row+1) {
			records++
		}
		if directory.HoldsID(s, numbered(row+1)) {
			ids++
		}
	}
	used := heap() - before
	t.Logf("%d records and %d row ids in %d bytes", records, ids, used)
	if records < people*95/100 || ids < people*95/100 || used > bytes*21/20 {
		t.Errorf("%d records and %d row ids in %d bytes, want nearly %d in %d bytes", records, ids, used, people, bytes)
	}
	runtime.KeepAlive(s)
}

// Records that are in use stay while many others are shown once.
func TestUsedRecordsStay(t *testing.T) {
	t.Parallel()
	table := directory.NewRecordTable(1_000_000)
	random := rand.New(rand.NewPCG(1, 2))
	const used = 500
	for row := range models.RowID(used) {
		table.Put(recordOf(row+1, 0))
	}
	missed := 0
	for i := range 100_000 {
		table.Put(recordOf(models.RowID(used+1+random.Int64N(1_000_000)), 0))
		row := models.RowID(1 + i%used)
		if _, _, ok := table.Get(row); !ok {
			missed++
			table.Put(recordOf(row, 0))
		}
	}
	t.Log(missed, table.Held())
	if missed > 100 {
		t.Errorf("%d of 100000 reads of %d records in use missed", missed, used)
	}
}

// Row ids of users who call stay while many others call once.
func TestUsedIDsStay(t *testing.T) {
	t.Parallel()
	table := directory.NewIDTable(160_000) // 10,000 row ids
	random := rand.New(rand.NewPCG(1, 2))
	const used, calls = 500, 100_000
	missed := 0
	for i := range calls {
		other := models.RowID(used + 1 + random.Int64N(1_000_000))
		table.Put(numbered(other), other)
		if row := models.RowID(1 + i%used); table.Get(numbered(row)) == 0 {
			missed++
			table.Put(numbered(row), row)
		}
	}
	if missed > used+calls/100 {
		t.Errorf("%d of %d lookups of %d users missed", missed, calls, used)
	}
}

// The process's copies stay within their memory, and what was dropped is read again.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServiceWith(t, env, 1_000_000)
	users := make([]models.UserID, 30_000)
	for i := range users {
		users[i] = models.UserID(fmt.Sprint("user-", i))
	}
	rows := testenv.Must(testenv.Available(t, func() ([]models.RowID, error) { return s.Ensure(t.Context(), users...) }))
	if n := directory.HeldRecords(s); n > 1_000_000/40 {
		t.Errorf("%d records are held", n)
	}
	if found := testenv.Must(s.Find(t.Context(), users...)); !slices.Equal(found, rows) {
		t.Error("users whose row ids were dropped have others")
	}
	if s.Stats().IDs.Redis.Load() == 0 {
		t.Error("all row ids are held")
	}
	for i := 0; i < len(rows); i += 999 {
		if got := testenv.Must(s.Records(t.Context(), rows[i:i+1]))[0].User; got != users[i] {
			t.Errorf("user %d is %v", i, got)
		}
	}
}
