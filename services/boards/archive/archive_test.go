package archive_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// A bucket is archived whole and with its ranks, for any number of shards.
func TestArchive(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, shards := range []int{1, 3, 16} {
			f := newFixture(t, env, shards)
			env.Clock.Advance(24 * time.Hour) // each number of shards has its own day
			b := f.today()
			if b.Shards != shards {
				t.Fatalf("%d shards", b.Shards)
			}
			entries := randomEntries(t, b, 2500, uint64(shards))
			f.raise(b, entries...)
			f.checkBefore(f.boards, b, entries)
			start := env.Clock.Now()
			if _, err := f.archive.Next(t.Context(), b); models.CodeOf(err) != models.CodeBucketHot {
				t.Errorf("the next run of a hot bucket: %v", err)
			}
			f.makeDue(b)
			for range 2 { // looking changes nothing
				next := testenv.Must(f.archive.Next(t.Context(), b))
				if next.Run != 1 || next.State != models.ArchiveRunning || next.Attempts != 1 || next.Shards != shards {
					t.Errorf("the next run: %+v", next)
				}
			}
			run := f.mustArchive(b)
			if next := testenv.Must(f.archive.Next(t.Context(), b)); next.Run != 1 || next.State != models.ArchiveComplete {
				t.Errorf("the next run, with nothing left: %+v", next)
			}
			want := ranked(entries)
			f.checkArchived(b, want)
			f.checkBefore(f.archive, b, entries)
			if run.Run != 1 || run.State != models.ArchiveComplete || run.Moved != 2500 || run.Entries != 2500 || run.Attempts != 1 || run.Shards != shards {
				t.Errorf("run %+v", run)
			}
			// Archiving it again finds nothing to do.
			if again := f.mustArchive(b); again.Run != 1 || again.Attempts != 1 {
				t.Errorf("again: %+v", again)
			}
			env.Clock.Set(start)
		}
	})
}

// beforeStore says what raises would replace.
type beforeStore interface {
	CompositesBefore(ctx context.Context, raises []models.Raise) ([]models.Composite, error)
}

// checkBefore checks what a store says that raises would replace.
func (f *fixture) checkBefore(store beforeStore, b *models.Bucket, entries []models.Entry) {
	f.t.Helper()
	other := *b // a day without scores
	other.Day, other.Name = b.Day+1, b.Name+"1"
	nobody := models.Entry{User: entries[len(entries)-1].User + 1_000_000}
	raises := []models.Raise{
		{Bucket: b, Entry: entries[7]}, {Bucket: &other, Entry: entries[7]}, {Bucket: b, Entry: nobody}, {Bucket: b, Entry: entries[2]}, {Bucket: b, Entry: entries[7]},
	}
	before, err := store.CompositesBefore(f.t.Context(), raises)
	want := []models.Composite{entries[7].Composite, 0, 0, entries[2].Composite, entries[7].Composite}
	if err != nil || !slices.Equal(before, want) {
		f.t.Errorf("%T has %v before, %v, want %v", store, before, err, want)
	}
}

// Late entries are merged: the larger composite of each user wins, and all ranks
// are assigned anew.
func TestLateUpdatesAreMerged(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 3)
		b := f.today()
		first, second, third := randomEntries(t, b, 300, 1), randomEntries(t, b, 200, 2), randomEntries(t, b, 50, 3)
		f.raise(b, first...)
		f.makeDue(b)
		f.raise(b, second...) // late, before the first run: readers don't see them
		if got, err := f.boards.Window(t.Context(), b, board.Top, 0, 1000); err != nil || len(got.Behind) != 300 {
			t.Errorf("readers see %d entries, %v", len(got.Behind), err)
		}
		f.mustArchive(b)
		f.checkArchived(b, ranked(first, second))

		f.raise(b, third...)
		due, err := f.archive.Due(t.Context())
		if err != nil || len(due) != 1 || due[0].Name != b.Name {
			t.Fatalf("due %v, %v", due, err)
		}
		// From hot_scores a run moves only what is news.
		if run := f.mustArchive(b); run.Run != 2 || run.Moved != 50 && env.Redis != nil || run.Moved == 0 {
			t.Errorf("run %+v", run)
		}
		f.checkArchived(b, ranked(first, second, third))
		if due, err := f.archive.Due(t.Context()); err != nil || len(due) != 0 {
			t.Errorf("due %v, %v", due, err)
		}
	})
}

// A process that was suspended writes to the bucket's own key after the bucket
// was archived.
func TestABoardKeyWrittenAfterArchiving(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 2)
	b := f.today()
	entries, late := randomEntries(t, b, 100, 1), randomEntries(t, b, 100, 2)
	f.raise(b, entries...)
	f.makeDue(b)
	f.mustArchive(b)
	f.raiseLate(b, late...)
	f.mustArchive(b)
	f.checkArchived(b, ranked(entries, late))
}

// A day without scores is archived too, so that it does not stay due forever.
func TestAnEmptyBucket(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		b := f.today()
		f.makeDue(b)
		if run := f.mustArchive(b); run.Entries != 0 || run.State != models.ArchiveComplete {
			t.Errorf("run %+v", run)
		}
		f.checkArchived(b, nil)
	})
}

func TestABucketIsNotArchivedEarly(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 1)
	b := f.today()
	for _, at := range []time.Time{env.Clock.Now(), b.ColdAt, b.ColdAt.Add(time.Hour - time.Second)} {
		env.Clock.Set(at)
		if _, err := f.archive.Archive(t.Context(), b, func(int64) {}); models.CodeOf(err) != models.CodeBucketHot {
			t.Errorf("at %v: %v", at, err)
		}
		if due, err := f.archive.Due(t.Context()); err != nil || len(due) != 0 {
			t.Errorf("at %v: due %v, %v", at, due, err)
		}
	}
}
