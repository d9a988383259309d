package directory_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"stepboard/models"
	"stepboard/services/people/directory"
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

// heap returns the bytes of all objects that are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
