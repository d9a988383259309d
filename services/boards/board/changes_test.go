package board_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// streamBucket returns a bucket whose changes are written.
func streamBucket(shards int) *models.Bucket {
	bucket := testenv.Bucket(shards)
	bucket.ChangeStream = true
	return bucket
}

// follower keeps a copy of the shards of a board as a near cache does.
type follower struct {
	store   *board.Store
	streams []board.ChangeStream // by shard
	last    []changes.Place      // of each stream
	// copies holds a copy of each bucket, by its name.
	copies map[string]model
	// resets holds the buckets that were reset, in the order of these changes.
	resets []string
}

// follow begins to follow the shards of a board.
func follow(t testing.TB, store *board.Store, name string, shards int) *follower {
	t.Helper()
	f := &follower{store: store, copies: map[string]model{}}
	for shard := range shards {
		stream := board.ChangeStream{Board: name, Shard: shard}
		f.streams = append(f.streams, stream)
		f.last = append(f.last, lastChange(t, store, stream))
	}
	return f
}

// lastChange returns the newest entry of a stream, which it begins if there is none.
func lastChange(t testing.TB, store *board.Store, stream board.ChangeStream) changes.Place {
	t.Helper()
	page := store.Changes().Read(t.Context(), []changes.Read[board.ChangeStream]{{Stream: stream}})[0]
	if page.Err != nil {
		t.Fatal(page.Err)
	}
	return page.Last
}

// read reads all streams, count entries at a time, until the pages are complete. It
// reports whether nothing is missing.
func (f *follower) read(t testing.TB, count int) bool {
	t.Helper()
	whole, err := f.tryRead(t, count)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// tryRead is read while servers may be away.
func (f *follower) tryRead(t testing.TB, count int) (whole bool, err error) {
	t.Helper()
	for {
		reads := make([]changes.Read[board.ChangeStream], len(f.last))
		for shard, last := range f.last {
			reads[shard] = changes.Read[board.ChangeStream]{Stream: f.streams[shard], After: last, Count: count}
		}
		complete := true
		for shard, page := range f.store.Changes().Read(t.Context(), reads) {
			switch {
			case page.Err != nil:
				return false, page.Err
			case errors.Is(page.Lost, changes.ErrLost):
				return false, nil
			case page.Lost != nil:
				return false, page.Lost
			case len(page.Entries) > count:
				t.Fatalf("%d changes, and %d were asked for", len(page.Entries), count)
			}
			complete = complete && page.Complete
			f.last[shard] = page.Last
			f.apply(page.Entries)
		}
		if complete {
			return true, nil
		}
	}
}

func (f *follower) apply(changes []board.Change) {
	for _, c := range changes {
		if c.Reset {
			f.resets = append(f.resets, c.Bucket)
			continue
		}
		if c.Lowered != nil {
			f.resets = append(f.resets, fmt.Sprint(c.Bucket, c.Lowered))
		}
		if f.copies[c.Bucket] == nil {
			f.copies[c.Bucket] = model{}
		}
		for _, e := range c.Raised {
			f.copies[c.Bucket].raise(e)
		}
	}
}

// copyBucket copies the shards of a bucket page by page.
func (f *follower) copyBucket(t testing.TB, bucket *models.Bucket, page int) {
	t.Helper()
	for _, part := range testenv.Must(f.store.Parts(t.Context(), bucket)) {
		for behind := board.Top; ; {
			entries := testenv.Must(f.store.ReadPart(t.Context(), part, behind, page))
			f.apply([]board.Change{{Bucket: bucket.Name, Raised: entries}})
			if len(entries) < page {
				break
			}
			behind = entries[page-1]
		}
	}
}

// check compares the copy of a bucket with Redis.
func (f *follower) check(t testing.TB, bucket *models.Bucket) {
	t.Helper()
	var stored model
	testenv.Eventually(t, "the bucket can be read", func() bool { // a master may have failed over just now
		stored = model{}
		parts, err := f.store.Parts(t.Context(), bucket)
		for _, part := range parts {
			var entries []models.Entry
			if entries, err = f.store.ReadPart(t.Context(), part, board.Top, 1_000_000); err != nil {
				break
			}
			for _, e := range entries {
				stored.raise(e)
			}
		}
		return err == nil
	})
	if diff := cmp.Diff(stored, f.copies[bucket.Name], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("bucket %s (-Redis +copy):\n%s", bucket.Name, diff)
	}
}

// drawRaises draws a batch of updates of one of the buckets each.
func drawRaises(t *rapid.T, buckets ...*models.Bucket) []models.Raise {
	raises := make([]models.Raise, rapid.IntRange(0, 30).Draw(t, "batch"))
	for i := range raises {
		raises[i] = models.Raise{
			Bucket: rapid.SampledFrom(buckets).Draw(t, "bucket"),
			Entry:  models.Entry{User: drawUser(t), Composite: drawComposite(t)},
		}
	}
	return raises
}

// A process that begins to follow, copies the buckets and reads the changes has the
// same entries as Redis, whatever was written before, meanwhile and afterwards.
func TestFollowersHaveWhatRedisHas(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		shards := rapid.SampledFrom([]int{1, 3}).Draw(r, "shards")
		today, tomorrow, other := streamBucket(shards), streamBucket(shards), testenv.Bucket(shards)
		tomorrow.Name = "20261121"
		for _, bucket := range []*models.Bucket{today, tomorrow, other} {
			bucket.Board = fmt.Sprintf("board%d", round)
		}
		other.Name = "unstreamed"
		write := func() {
			raises := drawRaises(r, today, tomorrow, other)
			if rapid.Bool().Draw(r, "all") {
				if _, err := store.RaiseAll(t.Context(), raises); err != nil {
					r.Fatal(err)
				}
			} else if errs := store.Raise(t.Context(), raises); errs != nil {
				r.Fatal(errs)
			}
		}
		write()
		f := follow(t, store, today.Board, shards)
		count := rapid.IntRange(1, 4).Draw(r, "count")
		write()
		f.copyBucket(t, today, rapid.IntRange(1, 20).Draw(r, "page"))
		if !f.read(t, count) {
			r.Fatal("changes are missing")
		}
		f.copyBucket(t, tomorrow, 1000)
		for range rapid.IntRange(0, 4).Draw(r, "writes") {
			write()
		}
		if !f.read(t, count) {
			r.Fatal("changes are missing")
		}
		f.check(t, today)
		f.check(t, tomorrow)
		if f.copies[other.Name] != nil || f.resets != nil {
			r.Fatalf("copies %v, resets %v", f.copies, f.resets)
		}
	})
}

// Only the changes of buckets with a change stream are written, and only while the stream
// is followed. RaiseAll writes only what it changes.
func TestWhatIsWrittenToChangeStreams(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	streamed, plain := streamBucket(1), testenv.Bucket(1)
	plain.Name = "20261119"
	key := env.Keys.Changes("steps", 0)
	length := func() int64 { return testenv.Must(env.Redis.XLen(t.Context(), key).Result()) }
	write := func(bucket *models.Bucket, composite models.Composite) {
		raise(t.Context(), t, store, models.Raise{Bucket: bucket, Entry: models.Entry{User: 1, Composite: composite}})
	}
	write(streamed, 1)
	if n := testenv.Must(env.Redis.Exists(t.Context(), key).Result()); n != 0 {
		t.Error("nobody follows, and the stream exists")
	}
	f := follow(t, store, "steps", 1)
	write(plain, 1)
	if n := length(); n != 1 {
		t.Errorf("%d entries after an update of a bucket without a stream", n)
	}
	write(streamed, 2)
	if n := length(); n != 2 {
		t.Errorf("%d entries after an update", n)
	}
	all := []models.Raise{
		{Bucket: plain, Entry: models.Entry{User: 1, Composite: 1}}, {Bucket: plain, Entry: models.Entry{User: 2, Composite: 7}},
		{Bucket: streamed, Entry: models.Entry{User: 1, Composite: 2}}, {Bucket: streamed, Entry: models.Entry{User: 3, Composite: 4}},
	}
	for i, want := range []struct{ changed, entries int64 }{{2, 3}, {0, 3}} {
		changed, err := store.RaiseAll(t.Context(), all)
		if n := length(); err != nil || changed != want.changed || n != want.entries {
			t.Errorf("call %d has changed %d entries, and the stream has %d, want %v; %v", i+1, changed, n, want, err)
		}
	}
	env.Clock.Set(streamed.ColdAt)
	write(streamed, 3)
	if n := length(); n != 3 {
		t.Errorf("%d entries after a late update", n)
	}
	if !f.read(t, 10) || f.copies[streamed.Name][1] != 2 || f.copies[streamed.Name][3] != 4 {
		t.Errorf("read %v", f.copies)
	}
}

// A follower notices that the entry it has read last is gone, or is another one of the
// same id.
func TestMissingChanges(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket := streamBucket(1)
	key := env.Keys.Changes("steps", 0)
	n := 0
	write := func() {
		n++
		entry := models.Entry{User: 1, Composite: models.Composite(n)}
		raise(t.Context(), t, store, models.Raise{Bucket: bucket, Entry: entry})
	}
	check := func(what string, lose func(last redis.XMessage) error) {
		t.Helper()
		f := follow(t, store, "steps", 1)
		write()
		if !f.read(t, 10) {
			t.Fatal("nothing was lost yet")
		}
		last := testenv.Must(env.Redis.XRevRangeN(t.Context(), key, "+", "-", 1).Result())[0]
		if err := lose(last); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if f.read(t, 10) {
				t.Errorf("%s: nothing is missing", what)
			}
			write()
		}
		again := follow(t, store, "steps", 1)
		write()
		if !again.read(t, 10) || again.copies[bucket.Name][1] != models.Composite(n) {
			t.Errorf("%s: a new follower has %v", what, again.copies)
		}
	}
	remove := func(redis.XMessage) error { return env.Redis.Del(t.Context(), key).Err() }
	check("the stream is gone", remove)
	check("another follower has begun a new stream", func(redis.XMessage) error {
		if err := remove(redis.XMessage{}); err != nil {
			return err
		}
		lastChange(t, store, board.ChangeStream{Board: "steps"})
		return nil
	})
	check("the stream lost its last entry", func(last redis.XMessage) error {
		return env.Redis.XDel(t.Context(), key, last.ID).Err()
	})
	check("the stream was trimmed", func(redis.XMessage) error {
		write()
		return env.Redis.XTrimMaxLen(t.Context(), key, 1).Err()
	})
	check("another entry has the id", func(last redis.XMessage) error {
		if err := remove(last); err != nil {
			return err
		}
		other := &redis.XAddArgs{Stream: key, ID: last.ID, Values: []string{"c", "\x02\x0820261120"}}
		return env.Redis.XAdd(t.Context(), other).Err()
	})
}

// Followers notice that entries were lowered, removed or frozen, and only then.
func TestResets(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket, plain := streamBucket(2), testenv.Bucket(2)
	plain.Name = "20261119"
	entry := models.Entry{User: 2, Composite: 5}
	f := follow(t, store, "steps", 2)
	check := func(what string, resets ...string) {
		t.Helper()
		if !f.read(t, 10) || !slices.Equal(f.resets, resets) {
			t.Errorf("%s: the resets are %v, want %v", what, f.resets, resets)
		}
		f.resets = nil
	}
	lower := func(b *models.Bucket, stored, composite models.Composite) {
		raise(t.Context(), t, store, models.Raise{Bucket: b, Entry: entry})
		lowering := models.Lowering{Stored: models.Entry{User: 2, Composite: stored}, Composite: composite}
		part := models.BoardPart{Bucket: b, Shard: 0}
		if _, err := store.Lower(t.Context(), part, []models.Lowering{lowering}); err != nil {
			t.Fatal(err)
		}
	}
	lower(bucket, 4, 3)
	check("an entry that is not as it was read")
	lower(plain, 5, 3)
	check("a bucket without a change stream")
	lower(bucket, 5, 3)
	check("a lowered entry", bucket.Name+"[2]")
	lower(bucket, 5, 0)
	check("a removed entry", bucket.Name+"[2]")
	raise(t.Context(), t, store, models.Raise{Bucket: bucket, Entry: entry})
	f.read(t, 10)
	for _, b := range []*models.Bucket{plain, bucket} {
		for range 2 {
			if err := store.Freeze(t.Context(), b, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	check("freezing", bucket.Name)
	if frozen := testenv.Must(store.FrozenParts(t.Context(), bucket, 1)); len(frozen) != 1 || frozen[0].Entries != 1 {
		t.Errorf("frozen parts %v", frozen)
	}
}
