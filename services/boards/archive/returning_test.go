package archive_test

import (
	"sync/atomic"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// A server that fails over or is restored while a run is under way has its keys
// back as they were before they were renamed. Their entries are archived by the
// same call, and so are entries that a delayed process writes meanwhile.
func TestKeysThatComeBackDuringARun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// comesBack is called after this step of the run has been made for the nth
		// time.
		step      string
		nth       int32
		comesBack func(t *testing.T, f *fixture, b *models.Bucket, late []models.Entry)
		late      bool // whether the late entries count
	}{
		{"before the keys are listed", "frozen", 1, restoreShard, false},
		{"after the keys were read", "read", 2, restoreShard, false},
		{"beside a frozen key", "read", 2, func(_ *testing.T, f *fixture, b *models.Bucket, late []models.Entry) {
			f.raiseLate(b, late...)
		}, true},
		{"late entries", "listed", 1, func(_ *testing.T, f *fixture, b *models.Bucket, late []models.Entry) {
			f.raise(b, late...)
		}, true},
		{"late entries after the commit", "stored", 1, func(_ *testing.T, f *fixture, b *models.Bucket, late []models.Entry) {
			f.raise(b, late...)
		}, true},
	}
	env := testenv.Real(t)
	start := env.Clock.Now()
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env.Clock.Set(start.AddDate(0, 0, i))
			f := newFixture(t, env, 2)
			b, entries := f.dueBucket(400)
			late := randomEntries(t, b, 50, 7)
			var steps atomic.Int32
			s := f.archiveOver(&hookedStore{f.inRedis(), func(step string) error {
				if step == tt.step && steps.Add(1) == tt.nth {
					tt.comesBack(t, f, b, late)
				}
				return nil
			}})
			run, err := s.Archive(t.Context(), b, func(int64) {})
			if err != nil {
				t.Fatal(err)
			}
			want := ranked(entries)
			if tt.late {
				want = ranked(entries, late)
			}
			if run.State != models.ArchiveComplete || run.Entries != int64(len(want)) {
				t.Errorf("the run is %+v", run)
			}
			f.checkArchived(b, want)
		})
	}
}

// restoreShard gives the key of one shard the name that it had before the run has
// frozen it.
func restoreShard(t *testing.T, f *fixture, b *models.Bucket, _ []models.Entry) {
	t.Helper()
	if err := f.env.Redis.Rename(t.Context(), f.env.Keys.Frozen(b, 1, 1, models.KeyBoard), f.env.Keys.Board(b, 1)).Err(); err != nil {
		t.Error(err)
	}
}
