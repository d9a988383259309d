package directory_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/directory"
)

// recordOf returns a version of a row's record. Its texts name both.
func recordOf(row models.RowID, version int64) models.Record {
	return models.Record{
		Row: row, User: models.UserID(fmt.Sprintf("user-%d", row)), Version: version,
		Profile: models.Profile{
			Nickname:  fmt.Sprintf("Ann %d", version),
			AvatarURL: fmt.Sprintf("https://cdn.example.com/avatars/%032x/128.webp", row),
		},
	}
}

// isRecord reports whether a held record is a version of the row's.
func isRecord(held *models.Record, row models.RowID) bool {
	want := recordOf(row, held.Version)
	want.Encode()
	return *held == want
}

// Whatever is put and replaced, a table returns nothing or the newest version of the
// row's record since the table has held it.
func TestRecordTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := directory.NewRecordTable(int64(rapid.SampledFrom([]int{1000, 5000, 50_000}).Draw(t, "bytes")))
		rows := rapid.OneOf(rapid.Int64Range(1, 40), rapid.Int64Range(1, int64(models.MaxRowID)))
		held := map[models.RowID]int64{} // the newest version since the row was found held
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				r := recordOf(models.RowID(rows.Draw(t, "row")), rapid.Int64Range(0, 5).Draw(t, "version"))
				if table.Get(r.Row) == nil {
					delete(held, r.Row)
				}
				held[r.Row] = max(held[r.Row], r.Version)
				if got := table.Put(r); got.Version != held[r.Row] || !isRecord(got, r.Row) {
					t.Fatalf("put of version %d returned %+v, want version %d", r.Version, got, held[r.Row])
				}
			},
			"replace": func(t *rapid.T) {
				r := recordOf(models.RowID(rows.Draw(t, "row")), rapid.Int64Range(0, 5).Draw(t, "version"))
				was := table.Get(r.Row)
				table.Replace(r)
				if got := table.Get(r.Row); was == nil && got != nil {
					t.Fatalf("replace has added %+v", got)
				}
				held[r.Row] = max(held[r.Row], r.Version)
			},
			"get": func(t *rapid.T) {
				row := models.RowID(rows.Draw(t, "row"))
				if got := table.Get(row); got != nil && (got.Version != held[row] || !isRecord(got, row)) {
					t.Fatalf("row %d has %+v, want version %d", row, got, held[row])
				}
			},
		})
	})
}

// A table keeps within its bytes, by the heap's own measure, and makes use of them.
// The test is not parallel, so that nothing else allocates.
func TestRecordTableMemory(t *testing.T) {
	const bytes = 16_000_000
	for name, change := range map[string]func(*models.Record){
		"usual":   func(*models.Record) {},
		"escaped": func(r *models.Record) { r.Nickname = strings.Repeat(`"`, 64) },
		"short":   func(r *models.Record) { r.Profile = models.Profile{} },
		"long":    func(r *models.Record) { r.AvatarURL = strings.Repeat("a", 2048) },
	} {
		before := heap()
		table := directory.NewRecordTable(bytes)
		for row := range models.RowID(300_000) {
			r := recordOf(row+1, 0)
			change(&r)
			table.Put(r)
		}
		used := heap() - before
		if used > bytes*21/20 || used < bytes/2 {
			t.Errorf("%s records: %d bytes for %d records, want at most %d", name, used, table.Held(), bytes)
		}
		runtime.KeepAlive(table)
	}
}

// heap returns the bytes of all objects that are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Records that are in use stay while many others are shown once.
func TestUsedRecordsStay(t *testing.T) {
	t.Parallel()
	table := directory.NewRecordTable(1_000_000)
	random := mathrand.New(mathrand.NewPCG(1, 2))
	const used = 500
	for row := range models.RowID(used) {
		table.Put(recordOf(row+1, 0))
	}
	missed := 0
	for i := range 100_000 {
		table.Put(recordOf(models.RowID(used+1+random.Int64N(1_000_000)), 0))
		if row := models.RowID(1 + i%used); table.Get(row) == nil {
			missed++
			table.Put(recordOf(row, 0))
		}
	}
	t.Log(missed, table.Held())
	if missed > 100 {
		t.Errorf("%d of 100000 reads of %d records in use missed", missed, used)
	}
}

// Readers and writers of the same sets get the records of the rows that they ask for.
func TestRecordTableConcurrently(t *testing.T) {
	t.Parallel()
	table := directory.NewRecordTable(5000) // a few sets
	var wg sync.WaitGroup
	for worker := range uint64(4) {
		wg.Go(func() {
			random := mathrand.New(mathrand.NewPCG(3, worker))
			for i := range int64(20_000) {
				row := models.RowID(1 + random.Int64N(60))
				got := table.Get(row)
				if got == nil || i%3 == 0 {
					got = table.Put(recordOf(row, i/1000))
				}
				if !isRecord(got, row) {
					t.Errorf("row %d has %+v", row, got)
					return
				}
			}
		})
	}
	wg.Wait()
}
