package archive_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// BenchmarkArchiveOnAFile archives days beside uploads that are committed one by one, each of them
// on the disk.
func BenchmarkArchiveOnAFile(b *testing.B) {
	for name, users := range map[string]int{"10k": 10_000, "100k": 100_000, "1M": 1_000_000} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				measureArchive(b, users)
			}
		})
	}
}

func measureArchive(b *testing.B, users int) {
	folder := b.TempDir()
	f := newLocalFixture(b, folder, "&_pragma=synchronous(full)")
	bucket := f.bucket
	rng := rand.New(rand.NewPCG(1, 1))
	chunk := make([]models.Entry, 0, 10_000)
	for user := range users {
		at := models.TimestampOf(bucket.StartsAt.Add(time.Duration(rng.Int64N(int64(20 * time.Hour)))))
		c, err := score.Of(bucket).Encode(models.Points(rng.Int64N(20_000)), at)
		if err != nil {
			b.Fatal(err)
		}
		if chunk = append(chunk, models.Entry{User: models.RowID(user + 1), Composite: c}); len(chunk) == cap(chunk) {
			f.raise(bucket, chunk...)
			chunk = chunk[:0]
		}
	}
	f.clock.Set(bucket.ColdAt.Add(time.Hour))
	other := *bucket
	other.Name = "20261121"
	upload := func() time.Duration {
		began := time.Now()
		_, err := f.db.writer.ExecContext(b.Context(), raiseHot, other.Board, other.Name, rng.IntN(users)+1, rng.Int64N(1<<50))
		if err != nil {
			b.Error(err)
		}
		return time.Since(began)
	}
	// uploads commits uploads until stop, and returns how long each has taken.
	uploads := func(stop func() bool) (waits []time.Duration) {
		for !stop() {
			waits = append(waits, upload())
		}
		return waits
	}
	quiet := time.Now()
	report(b, "alone", uploads(func() bool { return time.Since(quiet) > time.Second }))
	done, beside := make(chan struct{}), make(chan []time.Duration)
	go func() {
		beside <- uploads(func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
	}()
	largestWAL := int64(0)
	s := f.open()
	began := time.Now()
	var shown time.Duration
	f.memory.onDrop = func() { shown = time.Since(began) }
	run, err := s.Archive(b.Context(), bucket, func(int64) {
		if info, err := os.Stat(filepath.Join(folder, "stepboard.db-wal")); err == nil {
			largestWAL = max(largestWAL, info.Size())
		}
	})
	took := time.Since(began)
	close(done)
	report(b, "beside", <-beside)
	if err != nil || run.Entries != int64(users) || run.State != models.ArchiveComplete {
		b.Fatalf("%+v, %v", run, err)
	}
	bytes := f.count(`SELECT sum(pgsize) FROM dbstat WHERE name IN ('archived_scores', 'archived_ranks')`)
	b.ReportMetric(float64(users)/took.Seconds(), "rows/s")
	b.ReportMetric(shown.Seconds(), "s-until-shown")
	b.ReportMetric(float64(bytes)/float64(users), "B/row")
	b.ReportMetric(float64(largestWAL)/1e6, "MB-wal")
}

// report reports how long uploads have taken.
func report(b *testing.B, when string, waits []time.Duration) {
	slices.Sort(waits)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(waits[len(waits)-1]), "ms-longest-"+when)
	b.ReportMetric(ms(waits[len(waits)*999/1000]), "ms-p999-"+when)
	b.ReportMetric(ms(waits[len(waits)/2]), "ms-p50-"+when)
	over, _ := slices.BinarySearch(waits, 50*time.Millisecond)
	b.ReportMetric(float64(len(waits)-over), "over-50ms-"+when)
	b.ReportMetric(float64(len(waits)), "uploads-"+when)
}
