package cache

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/services/platform/changes"
)

// An entry names the sets that it was made of, and no two entries are equal.
func TestEntriesNameTheirSets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := keys.Sets(rapid.StringN(1, -1, 255).Draw(t, "kind"))
		owners := rapid.SliceOf(rapid.Int64Range(1, math.MaxInt64)).Draw(t, "owners")
		entry := string(encodeChanged(kind, owners))
		changed, dropped := decodeEntry(entry)
		want := make([]Set, 0, len(owners))
		for _, owner := range owners {
			want = append(want, Set{kind, owner})
		}
		if !slices.Equal(changed, want) || dropped {
			t.Fatalf("%v, %v, want %v", changed, dropped, want)
		}
	})
	first, second := encodeChanged(keys.Friends, []int64{7}), encodeChanged(keys.Friends, []int64{7})
	if slices.Equal(first, second) {
		t.Error("two entries are equal")
	}
}

// What can't be decoded counts as an entry about all sets.
func FuzzDecodeEntry(f *testing.F) {
	f.Add(string(encodeChanged(keys.Friends, []int64{1, 200, math.MaxInt64})))
	f.Add(string(newEntry(entryDropped, 0)))
	f.Add(string(newEntry(entryBegan, 0)))
	f.Add("\x01abcd\xff")
	f.Add("\x01abcd\xff" + strings.Repeat("x", 255))
	f.Add("\x01abcd\x01x\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Add("\x09abcd")
	f.Add("")
	f.Fuzz(func(t *testing.T, data string) {
		changed, dropped := decodeEntry(data)
		if dropped && changed != nil {
			t.Errorf("%v and all", changed)
		}
		if len(data) < entryHeader && !dropped {
			t.Error("a header that is cut off says nothing")
		}
		for _, of := range changed {
			if of.Owner < 0 {
				t.Errorf("owner %d", of.Owner)
			}
		}
	})
}

// follower reads one stream as a near cache does.
type follower struct {
	t     *testing.T
	store *Store
	read  changes.Read[int]
}

func (f *follower) page() changes.Page[Changed] {
	f.t.Helper()
	f.read.Count = changes.PageSize
	page := changesOf(f.store.rdb, f.store.keys).Read(f.t.Context(), []changes.Read[int]{f.read})[0]
	if page.Err != nil {
		f.t.Fatal(page.Err)
	}
	return page
}

// named returns the sets that the entries of a page name, and whether all sets were dropped.
func named(page changes.Page[Changed]) (sets []Set, dropped bool) {
	for _, entry := range page.Entries {
		sets, dropped = append(sets, entry.Sets...), dropped || entry.Dropped
	}
	return sets, dropped
}

// next expects that the stream goes on with changes of the sets.
func (f *follower) next(want ...Set) {
	f.t.Helper()
	page := f.page()
	if sets, dropped := named(page); page.Lost != nil || dropped || !page.Complete || !slices.Equal(sets, want) {
		f.t.Fatalf("%+v, want %v", page, want)
	}
	f.read.After = page.Last
}

// A stream is written only while somebody follows it. Who follows it reads each set
// before its change and after it.
func TestStreamsAreWrittenForFollowers(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	tr := newTruth()
	s, ctx, key := newSets(env, tr), t.Context(), env.Keys.SetsChanges(0)
	exists := func() bool { return env.Redis.Exists(ctx, key).Val() == 1 }
	change(t, s, tr, 1, 7)
	if exists() {
		t.Fatal("a stream that nobody follows was written")
	}
	f := &follower{t: t, store: inRedis(s)}
	f.next()
	if ttl := env.Redis.PTTL(ctx, key).Val(); ttl <= 0 || ttl > changes.Lifetime {
		t.Errorf("the stream lasts for %v", ttl)
	}
	change(t, s, tr, 1, 7)
	f.next(Set{keys.Friends, 1}, Set{keys.Friends, 1})
	f.next()
	second := &follower{t: t, store: inRedis(s)}
	second.next()
	change(t, s, tr, 130, 7)
	f.next(Set{keys.Friends, 130}, Set{keys.Friends, 130})
	second.next(Set{keys.Friends, 130}, Set{keys.Friends, 130})
	bulk := s.NewBulkChange()
	if err := bulk.Mark(ctx, []owner{129, 2}); err != nil {
		t.Fatal(err)
	}
	f.next(Set{keys.Friends, 129}, Set{keys.Friends, 2}) // by stripe
	bulk.Clear(ctx)
	f.next(Set{keys.Friends, 129}, Set{keys.Friends, 2})
	if err := inRedis(s).DropAll(ctx); err != nil {
		t.Fatal(err)
	}
	page := f.page()
	if _, dropped := named(page); !dropped || page.Lost != nil {
		t.Errorf("after a loss: %+v", page)
	}
	env.Redis.Del(ctx, key) // it expires, and the follower has paused
	change(t, s, tr, 1, 7)
	if exists() || f.page().Lost == nil {
		t.Error("a stream that has expired goes on")
	}
	second = &follower{t: t, store: inRedis(s)}
	second.next()
	if f.page().Lost == nil {
		t.Error("another stream is taken for the one that was followed")
	}
}

// A change of sets of two kinds names each by its kind, before the change and after it.
func TestAChangeOfTwoKinds(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, env *testenv.Env) {
		s, ctx := newSets(env, newTruth()), t.Context()
		f := &follower{t: t, store: inRedis(s)}
		f.next()
		c := s.NewChange()
		if err := c.Mark(ctx, []owner{1}); err != nil {
			t.Fatal(err)
		}
		f.next(Set{keys.Friends, 1})
		if err := c.MarkOf(ctx, []Set{{keys.NotShown, 1}, {keys.NotShown, 2}}); err != nil {
			t.Fatal(err)
		}
		f.next(Set{keys.NotShown, 1}, Set{keys.NotShown, 2})
		c.Clear(ctx)
		sets, _ := named(f.page())
		for _, want := range []Set{{keys.Friends, 1}, {keys.NotShown, 1}, {keys.NotShown, 2}} {
			if !slices.Contains(sets, want) || len(sets) != 3 {
				t.Errorf("after the change: %v, want %v", sets, want)
			}
		}
	})
}

// A page that is full is not the end of the stream.
func TestFullPagesOfChanges(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, env *testenv.Env) {
		tr := newTruth()
		s := newSets(env, tr)
		f := &follower{t: t, store: inRedis(s)}
		f.next()
		for range (changes.PageSize + 2) / 2 {
			change(t, s, tr, 1, 7)
		}
		page := f.page()
		if sets, _ := named(page); page.Complete || len(sets) != changes.PageSize {
			t.Fatalf("the first page: %d sets, complete: %v", len(sets), page.Complete)
		}
		f.read.After = page.Last
		f.next(Set{keys.Friends, 1}, Set{keys.Friends, 1})
	})
}

// Keeping a stream removes the entries before a place, but not the place, and makes the
// stream last.
func TestKeepingAStream(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	tr := newTruth()
	s, ctx, key := newSets(env, tr), t.Context(), env.Keys.SetsChanges(0)
	slow, f := &follower{t: t, store: inRedis(s)}, &follower{t: t, store: inRedis(s)}
	slow.next()
	f.next()
	change(t, s, tr, 1, 7)
	f.next(Set{keys.Friends, 1}, Set{keys.Friends, 1})
	at := *f
	change(t, s, tr, 2, 7)
	f.next(Set{keys.Friends, 2}, Set{keys.Friends, 2})
	env.Redis.Persist(ctx, key)
	f.read.Keep = at.read.After
	f.next()
	if ttl := env.Redis.PTTL(ctx, key).Val(); ttl <= 0 {
		t.Errorf("the stream lasts for %v", ttl)
	}
	at.next(Set{keys.Friends, 2}, Set{keys.Friends, 2})
	if slow.page().Lost == nil {
		t.Error("a follower of removed entries misses nothing")
	}
}

// pipelines is a hook that records the names of the commands of each pipeline.
type pipelines struct {
	testenv.RoundTrips
	sent [][]string
}

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		slices.Sort(names)
		p.sent = append(p.sent, slices.Compact(names))
		return next(ctx, cmds)
	}
}

// An entry follows what it reports. In a cluster that takes a round trip of its own,
// because the commands of a pipeline that are redirected are executed last.
func TestEntriesFollowWhatTheyReport(t *testing.T) {
	t.Parallel()
	env := testenv.RealOn(t, testenv.StartCluster(t).Use)
	p := newProtocol(t, env, 1)
	var sent pipelines
	env.Redis.AddHook(&sent)
	p.mark("writer")
	p.clear("writer")
	p.drop()
	want := [][]string{{"del", "pexpire", "sadd"}, {"xadd"}, {"del", "srem"}, {"xadd"}, {"set"}, {"xadd"}}
	if diff := cmp.Diff(want, sent.sent); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
