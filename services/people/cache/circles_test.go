package cache

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/changes"
)

type (
	circlePage = changes.Page[Changed]
	entry      struct {
		place changes.Place
		Changed
	}
)

// setChanges is a fake of Redis and its clock: streams of changes, and sets. Safe for
// concurrent use.
type setChanges struct {
	streams int

	mu      sync.Mutex
	entries map[int][]entry // by stream
	ids     int
	server  string
	err     error
	delay   time.Duration // until a reply arrives
	pages   int           // entries of a page; 0 means all
	kept    []changes.Place
	reads   int
}

// Server has a server for each stream.
func (f *setChanges) Server(_ context.Context, stream int) any { return stream }

func (f *setChanges) Read(_ context.Context, reads []changes.Read[int]) (pages []circlePage) {
	f.mu.Lock()
	delay := f.delay
	for _, r := range reads {
		pages = append(pages, f.page(r))
	}
	f.mu.Unlock()
	<-time.After(delay) // on the clock of the bubble
	return pages
}

func (f *setChanges) page(r changes.Read[int]) circlePage {
	f.reads++
	if r.Keep != (changes.Place{}) {
		f.kept = append(f.kept, r.Keep)
	}
	if f.err != nil {
		return circlePage{Err: f.err}
	}
	if len(f.entries[r.Stream]) == 0 {
		f.append(r.Stream, Changed{})
	}
	entries := f.entries[r.Stream]
	if r.After == (changes.Place{}) {
		return circlePage{Last: entries[len(entries)-1].place, Complete: true, Server: f.server}
	}
	i := slices.IndexFunc(entries, func(e entry) bool { return e.place == r.After })
	if i < 0 {
		return circlePage{Lost: changes.ErrLost, Server: f.server}
	}
	read := circlePage{Last: r.After, Complete: true, Server: f.server}
	for n, e := range entries[i+1:] {
		if f.pages > 0 && n == f.pages {
			read.Complete = false
			break
		}
		read.Entries, read.Last = append(read.Entries, e.Changed), e.place
	}
	return read
}

func (f *setChanges) append(stream int, e Changed) {
	f.ids++
	f.entries[stream] = append(f.entries[stream], entry{changes.Place{ID: strconv.Itoa(f.ids)}, e})
}

// write appends an entry.
func (f *setChanges) write(stream int, e Changed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.append(stream, e)
}

// set changes the fake.
func (f *setChanges) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// staleness is the bound of the tests. A stream is read every quarter of it.
const staleness = 4 * time.Second

// bench is a near cache of sets that follows a fake, on the clock of a bubble.
type bench struct {
	t       *testing.T
	changes *setChanges
	circles *Circles
	memory  atomic.Int64
	members []models.RowID // of every set in Redis
	stored  bool           // whether Redis stores sets
	err     error
	// during runs while a set is being read.
	during func()
}

// inBubble runs a test whose near cache has begun to follow the streams.
func inBubble(t *testing.T, streams int, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			t: t, members: []models.RowID{7, 8}, stored: true,
			changes: &setChanges{streams: streams, server: "a", entries: make(map[int][]entry)},
		}
		b.memory.Store(1_000_000)
		b.circles = newCircles(b.changes, b.changes.streams, staleness, b.memory.Load, time.Now, testenv.Log())
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer func() { stop(); running.Wait() }()
		running.Go(func() { b.circles.Run(ctx) })
		synctest.Wait()
		test(b)
	})
}

// wait lets time pass.
func (b *bench) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// poll waits until the streams were read once more.
func (b *bench) poll() { b.wait(staleness / changes.PollsInBound) }

// read reads a set, and reports whether it was in memory.
func (b *bench) read(of Set) (near bool) {
	b.t.Helper()
	near = true
	members, asOf, err := b.circles.Members(b.t.Context(), of, func(context.Context) ([]models.RowID, bool, error) {
		near = false
		members := slices.Clone(b.members)
		if b.during != nil {
			b.during()
		}
		return members, b.stored, b.err
	})
	if err != b.err || (err == nil && !slices.Equal(members, b.members)) { //nolint:errorlint // it is passed on as it is
		b.t.Fatalf("%v, %v", members, err)
	}
	if near == asOf.IsZero() || (near && time.Since(asOf) > staleness) {
		b.t.Fatalf("complete as of %v, from memory: %v", asOf, near)
	}
	return near
}

// expect reads a set that must be in memory, or must not.
func (b *bench) expect(of Set, near bool) {
	b.t.Helper()
	if got := b.read(of); got != near {
		b.t.Fatalf("%v is in memory: %v, want %v", of, got, near)
	}
}

// friendsOf returns the friend set of a user.
func friendsOf(owner int64) Set { return Set{Kind: keys.Friends, Owner: owner} }

// changed returns an entry that names sets.
func changed(sets ...Set) Changed { return Changed{Sets: sets} }

// Everything that decides whether a set is returned from memory, step by step.
func TestWhichCopiesAreUsed(t *testing.T) {
	t.Parallel()
	one, other := friendsOf(1), friendsOf(2)
	for _, tt := range []struct {
		name string
		run  func(*bench)
	}{
		{"a set is read once", func(b *bench) {
			b.expect(one, false)
			b.expect(one, true)
			b.expect(other, false)
			b.expect(Set{Kind: "groups", Owner: 1}, false)
			b.poll()
			b.expect(one, true)
		}},
		{"an entry names it", func(b *bench) {
			b.read(one)
			b.read(other)
			b.changes.write(0, changed(friendsOf(3), one))
			b.poll()
			b.expect(one, false)
			b.expect(one, true)
			b.expect(other, true)
		}},
		{"an entry names it while it is being read", func(b *bench) {
			b.during = func() {
				b.changes.write(0, changed(one))
				b.poll()
			}
			b.read(one)
			b.during = nil
			b.expect(one, false)
		}},
		{"all sets are dropped", func(b *bench) {
			b.read(one)
			b.changes.write(0, Changed{Dropped: true})
			b.poll()
			b.expect(one, false)
			b.expect(one, true)
		}},
		{"all sets are dropped while it is being read", func(b *bench) {
			b.during = func() {
				b.changes.write(0, Changed{Dropped: true})
				b.poll()
			}
			b.read(one)
			b.during = nil
			b.expect(one, false)
		}},
		{"Redis does not store it, as during a change", func(b *bench) {
			b.stored = false
			b.read(one)
			b.expect(one, false)
		}},
		{"it can't be read", func(b *bench) {
			b.err = errors.New("away")
			b.read(one)
			b.err = nil
			b.expect(one, false)
		}},
		{"it was read long ago", func(b *bench) {
			b.read(one)
			b.wait(copyLifetime)
			b.expect(one, true)
			b.poll()
			b.expect(one, false)
			b.expect(one, true)
		}},
		{"the process changes it", func(b *bench) {
			b.read(one)
			b.read(other)
			b.circles.Forget([]Set{one})
			b.expect(one, false)
			b.expect(other, true)
		}},
		{"the process changes it while it is being read", func(b *bench) {
			b.during = func() { b.circles.Forget([]Set{one}) }
			b.read(one)
			b.during = nil
			b.expect(one, false)
		}},
		{"two callers read it", func(b *bench) {
			b.during = func() {
				b.during = nil
				b.read(one) // ends first, and is not kept
			}
			b.read(one)
			b.expect(one, true)
		}},
		{"an empty set", func(b *bench) {
			b.members = nil
			b.read(one)
			b.expect(one, true)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, tt.run)
		})
	}
}

// Everything that decides whether the copies are proven to be recent, step by step.
func TestProofs(t *testing.T) {
	t.Parallel()
	one := friendsOf(1)
	for _, tt := range []struct {
		name string
		run  func(*bench)
	}{
		{"the stream can't be read", func(b *bench) {
			b.read(one)
			b.changes.set(func() { b.changes.err = errors.New("away") })
			b.wait(staleness)
			b.expect(one, true)
			b.wait(1)
			b.expect(one, false)
			b.changes.set(func() { b.changes.err = nil })
			b.poll()
			b.expect(one, true) // no entry was missed
		}},
		{"a set is read while nothing is proven", func(b *bench) {
			b.changes.set(func() { b.changes.err = errors.New("away") })
			b.wait(2 * staleness)
			b.read(one)
			b.expect(one, false)
			b.changes.set(func() { b.changes.err = nil })
			b.poll()
			b.expect(one, true)
		}},
		{"replies are slow", func(b *bench) {
			// A reply proves what was true when its call was sent.
			b.read(one)
			b.changes.set(func() { b.changes.delay = staleness * 3 / 8 })
			b.wait(3 * staleness)
			b.expect(one, true)
			b.changes.set(func() { b.changes.delay = staleness + 1 })
			b.wait(2 * staleness)
			for range 100 {
				b.expect(one, false)
				b.wait(staleness / 10)
			}
		}},
		{"pages are full", func(b *bench) {
			// No proof before the end of the stream is reached.
			b.read(one)
			b.changes.set(func() { b.changes.pages, b.changes.delay = 1, staleness/2 })
			for range 4 {
				b.changes.write(0, changed(friendsOf(2)))
			}
			b.changes.write(0, changed(one))
			b.wait(staleness + staleness/changes.PollsInBound)
			b.expect(one, false)
			b.changes.set(func() { b.changes.delay = 0 })
			b.wait(staleness)
			b.expect(one, false)
			b.expect(one, true)
		}},
		{"entries are missing", func(b *bench) {
			b.read(one)
			b.changes.set(func() { b.changes.entries[0] = nil })
			b.poll()
			b.expect(one, false)
			b.expect(one, true)
			if n := b.circles.Stats().StartedOver.Load(); n != 1 {
				b.t.Errorf("started over %d times", n)
			}
		}},
		{"another entry has the id", func(b *bench) {
			b.read(one)
			b.changes.set(func() { b.changes.entries[0][0].place.Content = "another" })
			b.poll()
			b.expect(one, false)
		}},
		{"another server", func(b *bench) {
			b.read(one)
			b.changes.set(func() { b.changes.server = "b" })
			b.poll()
			b.expect(one, false)
			b.expect(one, true)
		}},
		{"entries are missing while a set is being read", func(b *bench) {
			b.during = func() {
				b.changes.set(func() { b.changes.entries[0] = nil })
				b.poll()
			}
			b.read(one)
			b.during = nil
			b.expect(one, false)
		}},
		{"entries are missing, and then nothing can be read", func(b *bench) {
			b.read(one)
			b.changes.set(func() { b.changes.entries[0] = nil })
			b.changes.set(func() { b.changes.delay = staleness / 2 }) // beginning takes as long
			b.wait(staleness)
			b.expect(one, false)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, 1, tt.run)
		})
	}
}

// Nothing is kept before the stream is followed: an entry may not have been written.
func TestSetsReadBeforeTheStreamIsFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, members: []models.RowID{7}, stored: true, changes: &setChanges{
			streams: 1, server: "a", entries: make(map[int][]entry), err: errors.New("away"),
		}}
		b.circles = newCircles(b.changes, b.changes.streams, staleness, func() int64 { return 1_000_000 }, time.Now, testenv.Log())
		b.expect(friendsOf(1), false)
		b.expect(friendsOf(1), false)
		ctx, stop := context.WithCancel(t.Context())
		b.during = func() {
			go b.circles.Run(ctx)
			synctest.Wait()
			b.changes.set(func() { b.changes.err = nil })
			b.poll()
		}
		b.read(friendsOf(1))
		b.during = nil
		b.expect(friendsOf(1), false)
		b.expect(friendsOf(1), true)
		stop()
		synctest.Wait()
	})
}

// Each stream is followed by itself, and concerns the stripes that it has.
func TestStreamsAreIndependent(t *testing.T) {
	t.Parallel()
	inBubble(t, keys.Stripes, func(b *bench) {
		b.read(friendsOf(1))
		b.read(friendsOf(2))
		b.read(friendsOf(2 + keys.Stripes))
		b.changes.write(2, Changed{Dropped: true})
		b.poll()
		b.expect(friendsOf(1), true)
		b.expect(friendsOf(2), false)
		b.expect(friendsOf(2+keys.Stripes), false)
		b.changes.set(func() { b.changes.entries[1] = nil })
		b.poll()
		b.expect(friendsOf(1), false)
		b.expect(friendsOf(2), true)
	})
}

// A follower keeps its streams, and removes no entry that another follower may need
// that has read the stream within the last minute, however rare entries are.
func TestOldEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	const keepEvery, keepBack = 10 * time.Second, time.Minute
	inBubble(t, 1, func(b *bench) {
		b.wait(10 * time.Minute)
		b.changes.write(0, changed(friendsOf(1)))
		b.wait(keepBack - keepEvery)
		var kept []changes.Place
		b.changes.set(func() { kept = slices.Clone(b.changes.kept) })
		first := changes.Place{ID: "1"}
		for _, place := range kept {
			if place != first {
				b.t.Fatalf("entries before %v are removed", place)
			}
		}
		if n := len(kept); n < 50 || n > 65 {
			b.t.Errorf("the stream was kept %d times in ten minutes", n)
		}
		b.wait(3 * keepEvery)
		b.changes.set(func() { kept = b.changes.kept })
		if last := kept[len(kept)-1]; last.ID != "2" {
			b.t.Errorf("entries before %v are removed", last)
		}
	})
}

// The copies that are used least go first, and all take no more memory than they may.
func TestCopiesAreBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(b *bench) {
		b.read(friendsOf(1))
		synctest.Wait()
		one, _ := b.circles.Bytes()
		for _, most := range []int64{100, 10, 0} {
			b.memory.Store(most * one)
			b.poll()
			for i := range int64(1000) {
				b.read(friendsOf(2 + i))
				b.read(friendsOf(1))
				synctest.Wait()
			}
			b.expect(friendsOf(1), most > 0)
			synctest.Wait()
			if bytes, copies := b.circles.Bytes(); bytes > most*one || copies > most {
				b.t.Errorf("%d copies take %d bytes", copies, bytes)
			}
		}
	})
}
