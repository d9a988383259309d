package archive_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// TestArchiveInAFolder archives a day in a file, and then what came late. The test of app/e2e/crash
// with the same name calls it in a process that is killed, and then again, in the folder that it names.
// What was shown by the process before is all of a run, and in the end nothing is missing or left behind.
func TestArchiveInAFolder(t *testing.T) {
	folder := os.Getenv("ARCHIVE_FOLDER")
	if folder == "" {
		folder = t.TempDir()
	}
	f := newLocalFixture(t, folder, "&_pragma=synchronous(full)")
	s := f.open()
	entries, late := randomEntries(t, f.bucket, 1200, 1), randomEntries(t, f.bucket, 1200, 2)
	f.clock.Set(f.bucket.ColdAt.Add(time.Hour))
	shown := func() string {
		return fmt.Sprint(testenv.Must(s.Window(t.Context(), f.bucket, board.Top, 0, 10_000)).Behind)
	}
	runs := []string{fmt.Sprint([]models.Entry(nil)), fmt.Sprint(ranked(entries)), fmt.Sprint(ranked(entries, late))}
	before := slices.Index(runs, shown())
	if before < 0 {
		t.Fatalf("the process before has shown %s", shown())
	}
	for i, reported := range [][]models.Entry{entries, late} {
		f.raise(f.bucket, reported...)
		if _, err := s.Archive(t.Context(), f.bucket, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		// The process before may have stored what came late.
		if now := slices.Index(runs, shown()); now < max(before, i+1) {
			t.Fatalf("run %d shows %s", i+1, shown())
		}
	}
	if due := testenv.Must(s.Due(t.Context())); len(due) > 0 || f.count(`SELECT count(*) FROM hot_scores`) > 0 || f.count(`SELECT count(*) FROM archive_versions`) != 1 {
		t.Errorf("something is left: %v", due)
	}
}
