package directory_test

import (
	"crypto/sha256"
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"stepboard/models"
	"stepboard/services/people/directory"
)

// people is the number of users of the benchmarks of records.
const people = 1_000_000

// kinds are the kinds of apps that the benchmarks of records distinguish, by user ids.
var kinds = []struct {
	name string
	id   func(row models.RowID, hash [32]byte) models.UserID
}{
	{"numbers", func(row models.RowID, _ [32]byte) models.UserID { return models.UserID(fmt.Sprint(1_000_000 + row)) }},
	{"uuids", func(_ models.RowID, hash [32]byte) models.UserID {
		return models.UserID(fmt.Sprintf("%x-%x-%x-%x-%x", hash[:4], hash[4:6], hash[6:8], hash[8:10], hash[10:16]))
	}},
}

// person returns the record of a user of an app: a nickname of 2 to 12 characters, of
// which half are Chinese, and an avatar of about 60 bytes.
func person(row models.RowID, id func(row models.RowID, hash [32]byte) models.UserID) models.Record {
	hash := sha256.Sum256(fmt.Append(nil, row))
	name := make([]rune, 2+int(hash[31])%11)
	for i := range name {
		name[i] = rune('a' + hash[i]%26)
		if row%2 == 0 {
			name[i] = rune(0x4e00 + int(hash[i]))
		}
	}
	return models.Record{
		Row: row, User: id(row, hash), Version: int64(row % 3),
		Profile: models.Profile{
			Nickname:  string(name),
			AvatarURL: fmt.Sprintf("https://cdn.example.com/avatars/%x.webp", hash[16:28]),
		},
	}
}

// fill holds the records of the people of a kind of app, and returns those that are held.
func fill(b *testing.B, s *directory.Service, id func(models.RowID, [32]byte) models.UserID) []models.RowID {
	b.Helper()
	for row := range models.RowID(people) {
		directory.HoldRecord(s, person(row+1, id))
	}
	var held []models.RowID
	for row := range models.RowID(people) {
		if directory.HoldsRecord(s, row+1) {
			held = append(held, row+1)
		}
	}
	return held
}

// BenchmarkRecords reads and renders pages of random records of a million that the
// process holds.
func BenchmarkRecords(b *testing.B) {
	for _, kind := range kinds {
		s := directory.New(directory.Options{Memory: 150_000_000})
		held := fill(b, s, kind.id)
		for _, lines := range []int{50, 200} {
			b.Run(fmt.Sprintf("ids=%s/lines=%d", kind.name, lines), func(b *testing.B) {
				random := mathrand.New(mathrand.NewPCG(1, 2))
				rows := make([]models.RowID, lines)
				var buf []byte
				var elapsed []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					for i := range rows {
						rows[i] = held[random.IntN(len(held))]
					}
					begin := time.Now()
					records, err := s.Records(b.Context(), rows)
					if err != nil {
						b.Fatal(err)
					}
					r := models.Ranking{Entries: make([]models.RankedEntry, lines)}
					for i, record := range records {
						r.Entries[i] = models.RankedEntry{
							Rank: int64(i), User: record.User, Nickname: record.Nickname, AvatarURL: record.AvatarURL, Plain: record.Plain,
						}
					}
					buf = r.AppendJSON(buf[:0])
					elapsed = append(elapsed, time.Since(begin))
				}
				slices.Sort(elapsed)
				median := elapsed[len(elapsed)/10] // the mean depends on what else the machine does
				b.ReportMetric(float64(median.Nanoseconds())/float64(lines), "ns/record")
			})
		}
	}
}

// BenchmarkRecordMemory measures the bytes of the heap that a held record takes, with its
// part of all tables, and the time of a garbage collection with a million of them.
func BenchmarkRecordMemory(b *testing.B) {
	for _, kind := range kinds {
		for _, memory := range []int64{64_000_000, 256_000_000} {
			b.Run(fmt.Sprintf("ids=%s/MB=%d", kind.name, memory/1_000_000), func(b *testing.B) {
				for b.Loop() {
					before := heap()
					table := directory.NewRecordTable(memory)
					for row := range models.RowID(people) {
						table.Put(person(row+1, kind.id))
					}
					used := heap() - before
					begin := time.Now()
					runtime.GC()
					b.ReportMetric(float64(time.Since(begin).Microseconds()), "µs/GC")
					b.ReportMetric(float64(used)/float64(table.Held()), "B/record")
					b.ReportMetric(float64(table.Held()), "records")
					runtime.KeepAlive(table)
				}
			})
		}
	}
}
