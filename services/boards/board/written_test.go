package board_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// A call that writes to a bucket with a change stream reports, before it returns, what
// it has written and up to where that is in the stream: also if nothing has changed,
// and nothing of other buckets.
func TestWhatWasWritten(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket := streamBucket(2)
	plain := testenv.Bucket(2)
	plain.Board = "plain"
	type note struct {
		Shard   int
		Newest  string
		Entries []models.Entry
	}
	var notes []note
	store.NotifyWritten(func(b *models.Bucket, shard int, newest string, entries []models.Entry) {
		if b != bucket {
			t.Errorf("was notified of %s", b.Board)
		}
		notes = append(notes, note{shard, newest, entries})
	})
	written := func(write func() error) note {
		t.Helper()
		notes = nil
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if len(notes) != 1 {
			t.Fatalf("was notified of %v", notes)
		}
		return notes[0]
	}
	entry := models.Entry{User: 4, Composite: 50}
	raise := func() error {
		if errs := store.Raise(t.Context(), []models.Raise{{Bucket: plain, Entry: entry}, {Bucket: bucket, Entry: entry}}); errs != nil {
			return errs[1]
		}
		return nil
	}
	if diff := cmp.Diff(note{0, "", []models.Entry{entry}}, written(raise)); diff != "" {
		t.Errorf("without a stream (-want +got)\n%s", diff)
	}
	stream := board.ChangeStream{Board: bucket.Board}
	began := lastChange(t, store, stream)
	before := written(raise).Newest
	if before <= began.ID {
		t.Errorf("without a change it is %v, want an entry after %v", before, began)
	}
	got := written(func() error {
		_, err := store.RaiseAll(t.Context(), []models.Raise{{Bucket: bucket, Entry: models.Entry{User: 4, Composite: 60}}})
		return err
	})
	page := store.Changes().Read(t.Context(), []changes.Read[board.ChangeStream]{{Stream: stream, After: began, Count: 10}})[0]
	want := []board.Change{{ID: before, Bucket: bucket.Name, Raised: []models.Entry{entry}}, {ID: got.Newest, Bucket: bucket.Name, Raised: got.Entries}}
	if diff := cmp.Diff(want, page.Entries); diff != "" {
		t.Errorf("the stream differs (-written +stream)\n%s", diff)
	}
}

// A shard is copied in pages, each with the newest entry of its stream.
func TestCopyPart(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket := streamBucket(2)
	part := models.BoardPart{Bucket: bucket, Shard: 1}
	if entries, newest, err := store.CopyPart(t.Context(), part, board.Top, 2); len(entries) != 0 || newest != "" || err != nil {
		t.Errorf("an empty shard: %v, %q, %v", entries, newest, err)
	}
	stream := board.ChangeStream{Board: bucket.Board, Shard: 1}
	lastChange(t, store, stream)
	var want []models.Entry
	for user := models.RowID(1); user <= 10; user++ {
		e := models.Entry{User: user, Composite: models.Composite(100 - user/4)}
		if errs := store.Raise(t.Context(), []models.Raise{{Bucket: bucket, Entry: e}}); errs != nil {
			t.Fatal(errs)
		}
		if user%2 == 1 {
			want = append(want, e)
		}
	}
	last := lastChange(t, store, stream)
	var got []models.Entry
	for behind, full := board.Top, true; full; {
		entries, newest, err := store.CopyPart(t.Context(), part, behind, 2)
		if err != nil || newest != last.ID {
			t.Fatalf("the newest entry is %q, want %q; %v", newest, last.ID, err)
		}
		got = append(got, entries...)
		if full = len(entries) == 2; full {
			behind = entries[1]
		}
	}
	slices.SortFunc(want, models.Entry.Compare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the copy differs (-want +got)\n%s", diff)
	}
}
