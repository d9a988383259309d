package archive_test

import (
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/board"
)

// A user with more days than one transaction changes is erased: on each day the entry has
// another row id, which nobody has, the ranks follow the ranking rule, and the stored hash is
// that of the rows.
func TestEraseManyDays(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		const days, erased = 210, models.RowID(100)
		f := newFixture(t, env, 1)
		var buckets []*models.Bucket
		stored := make(map[string][]models.Entry)
		for day := range days {
			b := f.today()
			entries := randomEntries(t, b, 12, uint64(day))
			// The best, the last, or equal to others.
			own := models.Entry{User: erased, Composite: entries[day%12].Composite}
			entries = append(entries, own)
			f.raise(b, entries...)
			buckets, stored[b.Name] = append(buckets, b), ranked(entries)
			env.Clock.Advance(24 * time.Hour)
		}
		f.makeDue(buckets[days-1])
		for _, b := range buckets {
			f.mustArchive(b)
		}
		for _, want := range []int64{days, 0} {
			if changed, err := f.archive.Erase(t.Context(), erased); changed != want || err != nil {
				t.Fatalf("changed %d, %v, want %d", changed, err, want)
			}
		}
		fresh := make(map[models.RowID]bool)
		for i, b := range buckets {
			rows := testenv.Must(f.archive.Window(t.Context(), b, board.Top, 0, 100)).Behind
			nobody := slices.IndexFunc(rows, func(e models.Entry) bool { return e.User >= models.FirstNobody })
			if nobody < 0 || fresh[rows[nobody].User] {
				t.Fatalf("%s has %v", b.Name, rows)
			}
			fresh[rows[nobody].User] = true
			want := slices.Clone(stored[b.Name])
			want[slices.IndexFunc(want, func(e models.Entry) bool { return e.User == erased })].User = rows[nobody].User
			if want := ranked(want); !slices.Equal(rows, want) {
				t.Errorf("%s has %v, want %v", b.Name, rows, want)
			}
			if i%30 == 0 {
				f.checkHash(b, rows[(nobody+1)%len(rows)].User)
			}
		}
	})
}

// checkHash checks the hash of an archived bucket against that of a further run, which reads
// all rows. The run merges an entry of a user that changes nothing.
func (f *fixture) checkHash(b *models.Bucket, user models.RowID) {
	f.t.Helper()
	var before models.ArchiveRun
	if err := f.env.Gorm.Order("run DESC").Take(&before, "board = ? AND bucket = ?", b.Board, b.Name).Error; err != nil {
		f.t.Fatal(err)
	}
	f.raise(b, entry(f.t, b, user, 0, b.ClosesAt.Add(-time.Second)))
	after := f.mustArchive(b)
	if after.Run != before.Run+1 || after.Hash != before.Hash || after.Entries != before.Entries {
		f.t.Errorf("after the erasure %+v, after a further run %+v", before, after)
	}
}
