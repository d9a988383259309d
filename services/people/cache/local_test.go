package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A set is loaded once, and again only after a change, after its lifetime, or if it could not be
// read. A change whose outcome is unknown keeps it from being stored for as long.
func TestLocalLoads(t *testing.T) {
	t.Parallel()
	clock, tr := testenv.NewClock(testenv.Noon), newTruth()
	local := newLocal(clock)
	s := New(local, keys.Friends, tr.load, testenv.Log())
	tr.commit(1, 7)
	loads := func(what string, want int) {
		t.Helper()
		tr.loads = 0
		for range 3 {
			expect(t, s, 1, []models.RowID{7})
		}
		if tr.loads != want {
			t.Errorf("%s: %d loads, want %d", what, tr.loads, want)
		}
	}
	loads("a set that was not read", 1)
	loads("a set that was read", 0)
	change(t, s, tr, 1, 7)
	loads("after a change", 1)
	clock.Advance(lifetime)
	loads("at the end of its lifetime", 0)
	clock.Advance(time.Second)
	loads("after its lifetime", 1)

	unknown := errors.New("unknown")
	c := s.NewChange()
	err := c.Run(t.Context(), "change", func(ctx context.Context) error { return errors.Join(c.Mark(ctx, []owner{1}), unknown) })
	if models.CodeOf(err) != models.CodeUnavailable {
		t.Error(err)
	}
	loads("after a change of unknown outcome", 3)
	change(t, s, tr, 1, 7)
	loads("and after a further change", 3)
	clock.Advance(lifetime - 1)
	loads("until a lifetime later", 3)
	clock.Advance(1)
	loads("a lifetime later", 1)

	tr.err = errors.New("away")
	change(t, s, tr, 1, 7)
	if _, err := s.Members(t.Context(), 1); !errors.Is(err, tr.err) {
		t.Error(err)
	}
	tr.err = nil
	loads("after an error", 1)
	if found, missing := local.stats.Found.Load(), local.stats.Missing.Load(); found == 0 || missing == 0 {
		t.Errorf("%d found, %d missing", found, missing)
	}
}

// What is known of changes is forgotten when they have ended, or when the marks of unknown
// outcomes hold no longer.
func TestLocalMarksAreForgotten(t *testing.T) {
	t.Parallel()
	clock := testenv.NewClock(testenv.Noon)
	local := newLocal(clock)
	s := New(local, keys.Friends, newTruth().load, testenv.Log())
	held := func() (n int) {
		for i := range local.marks {
			n += len(local.marks[i].of)
		}
		return n
	}
	left := func(want int) {
		t.Helper()
		if n := held(); n != want {
			t.Errorf("%d marks, want %d", n, want)
		}
	}
	of := make([]owner, 1000)
	for i := range of {
		of[i] = owner(i + 1)
	}
	for _, c := range []*Change[owner]{s.NewChange(), s.NewBulkChange(), s.NewRemoval(7)} {
		if err := c.Mark(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		left(len(of))
		c.Clear(t.Context())
		left(0)
	}
	for round := range owner(100) {
		c := s.NewChange()
		for i := range of {
			of[i] = round*1000 + owner(i)
		}
		if err := c.Mark(t.Context(), of); err != nil {
			t.Fatal(err)
		}
		c.Keep(t.Context())
		clock.Advance(lifetime)
	}
	if n := held(); n > 2*len(of)+keys.Stripes*fewMarks {
		t.Errorf("%d marks are held", n)
	}
}

// The memory of copies is bounded, and 200 friends take less than a kilobyte.
func TestLocalMemory(t *testing.T) {
	t.Parallel()
	const most = keys.Stripes * 2000
	tr := newTruth()
	local := NewLocal(most, lifetime, time.Now)
	s := New(local, keys.Friends, tr.load, testenv.Log())
	read := func(of owner) {
		tr.commit(of, randomFriends(200, 100_000)...)
		testenv.Must(s.Members(t.Context(), of))
	}
	read(1)
	if bytes, _ := local.Size(); bytes > 1000 {
		t.Errorf("200 friends take %d bytes", bytes)
	}
	for of := range owner(3 * keys.Stripes) {
		read(of + 2)
	}
	if bytes, copies := local.Size(); bytes > most || copies < keys.Stripes {
		t.Errorf("%d copies take %d bytes", copies, bytes)
	}
}

// randomFriends returns n different row ids of so many users.
func randomFriends(n, users int) []models.RowID {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	friends := make([]models.RowID, n)
	for i, id := range random.Perm(users)[:n] {
		friends[i] = models.RowID(id + 1)
	}
	return friends
}

// A friend set of 200 is read from memory.
func BenchmarkLocalMembers(b *testing.B) {
	tr := newTruth()
	tr.commit(1, randomFriends(200, 100_000)...)
	local := NewLocal(1<<30, lifetime, time.Now)
	s := New(local, keys.Friends, tr.load, testenv.Log())
	testenv.Must(s.Members(b.Context(), 1))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Members(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
	bytes, _ := local.Size()
	b.ReportMetric(float64(bytes)/200, "bytes/friend")
}
