package directory_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"stepboard/config"
	"stepboard/models"
	"stepboard/services/directory"
)

// recordOf returns a version of a row's record. Its texts name both.
func recordOf(row models.RowID, version int64) models.Record {
	return models.Record{
		Row: row, User: models.UserID(fmt.Sprintf("user-%d", row)), Version: version, Hidden: (int64(row)+version)%3 == 0,
		Profile: models.Profile{
			Nickname:  fmt.Sprintf("Ann %d", version),
			AvatarURL: fmt.Sprintf("https://cdn.example.com/avatars/%032x/128.webp", row),
			CoverURL:  strings.Repeat("c", int(version)%3),
		},
	}
}

// longRecordOf is recordOf with an avatar so long that few records fill a table.
func longRecordOf(row models.RowID, version int64) models.Record {
	r := recordOf(row, version)
	r.AvatarURL += strings.Repeat("?", int(row%5)*1900)
	return r
}

// isRecord reports whether a public record has the content of a record.
func isRecord(got models.PublicRecord, want models.Record) bool {
	return got.User == want.User && got.Nickname == want.Nickname && got.AvatarURL.String() == want.AvatarURL &&
		got.CoverURL == want.CoverURL && got.Hidden == want.Hidden
}

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

// A record that no slab has room for is not held, and neither is an older one of the user.
func TestRecordsThatAreTooLong(t *testing.T) {
	t.Parallel()
	table := directory.NewRecordTable(1_000_000)
	r := recordOf(1, 1)
	table.Put(r)
	r.Version, r.Nickname = 2, strings.Repeat("x", 40_000)
	if got := table.Put(r); !isRecord(got, r) {
		t.Errorf("put returned %d bytes", len(got.Nickname))
	}
	if got, _, ok := table.Get(1); ok {
		t.Errorf("%+v is held", got)
	}
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

// Readers and writers of the same sets get the records of the rows that they ask for.
func TestRecordTableConcurrently(t *testing.T) {
	t.Parallel()
	table := directory.NewRecordTable(70_000) // two slabs
	var wg sync.WaitGroup
	for worker := range uint64(4) {
		wg.Go(func() {
			random := mathrand.New(mathrand.NewPCG(3, worker))
			for i := range int64(20_000) {
				row := models.RowID(1 + random.Int64N(60))
				got, version, ok := table.Get(row)
				if ok && !isRecord(got, longRecordOf(row, version)) {
					t.Errorf("row %d has %+v", row, got)
					return
				}
				if !ok || i%3 == 0 {
					table.Put(longRecordOf(row, i/1000))
				}
			}
		})
	}
	wg.Wait()
}
