package backups_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superfly/ltx"

	"stepboard/internal/backups"
	"stepboard/internal/backups/backupstest"
	"stepboard/internal/testenv"
)

const pageSize = 512

// restore restores the database of a time, and returns its bytes.
func restore(t *testing.T, target backups.Target, at time.Time) (backups.Restored, []byte, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	testenv.Must(0, os.WriteFile(path, nil, 0o600))
	restored, err := backups.Restore(t.Context(), target, path, at, func(backups.Progress) {})
	return restored, testenv.Must(os.ReadFile(path)), err
}

// world is a target whose generations, of a random database, are known.
type world struct {
	t      *testing.T
	random *rand.Rand
	target *backupstest.Memory
	chains []*backupstest.Chain
	fulls  map[string]backups.Full                   // complete ones, by the names of their objects
	bases  map[*backupstest.Chain]*backupstest.Chain // what those stand upon that have a base
	now    time.Time
	pages  []byte
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	return &world{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), target: backupstest.NewMemory(),
		fulls: make(map[string]backups.Full), bases: make(map[*backupstest.Chain]*backupstest.Chain), now: testenv.Noon, pages: make([]byte, pageSize),
	}
}

// change changes the database at random.
func (w *world) change() {
	w.now = w.now.Add(time.Duration(1+w.random.IntN(3000)) * time.Millisecond)
	w.pages = bytes.Clone(w.pages)
	switch count := len(w.pages) / pageSize; {
	case w.random.IntN(5) == 0:
		w.pages = w.pages[:(1+w.random.IntN(max(count, 1)))*pageSize]
	case count < 30 && w.random.IntN(3) == 0 || count == 0:
		w.pages = append(w.pages, make([]byte, (1+w.random.IntN(12))*pageSize)...)
	}
	for range 1 + w.random.IntN(5) {
		page := w.random.IntN(len(w.pages) / pageSize)
		w.pages[page*pageSize+w.random.IntN(pageSize)] = byte(w.random.Uint32())
		w.pages[page*pageSize] = byte(1 + w.random.IntN(255))
	}
}

// begin begins a generation, upon a state of the one before if there is one that can be restored.
func (w *world) begin() *backupstest.Chain {
	w.pages = append(w.pages, make([]byte, pageSize)...)
	w.change()
	number := uint64(len(w.chains) + 1)
	if len(w.chains) > 0 && w.random.IntN(3) > 0 {
		before := w.chains[len(w.chains)-1]
		states := slices.Sorted(maps.Keys(w.reachable(before)))
		if len(states) > 0 {
			state := states[len(states)-1]
			if w.random.IntN(2) == 0 {
				state = states[w.random.IntN(len(states))]
			}
			c := backupstest.NewChainOn(before, state, number, w.now)
			w.bases[c] = before
			return c
		}
	}
	return backupstest.NewChain(w.t, w.target, number, pageSize, w.now, w.pages)
}

// generation ships a generation of some states, with full copies and hours, and deletes what
// retention deletes.
func (w *world) generation(states int) {
	c := w.begin()
	w.chains = append(w.chains, c)
	joined, first := uint64(1), c.State()
	var copying *backupstest.FullCopy
	if w.bases[c] == nil {
		copying = c.BeginFull()
	}
	for range states {
		w.change()
		c.Commit(w.now, w.pages)
		if copying != nil && copying.Copy(1+w.random.IntN(6)) {
			w.fulls[c.Place.Full(first)] = copying.End()
			copying = nil
		} else if copying == nil && w.random.IntN(12) == 0 {
			copying, first = c.BeginFull(), c.State()
		}
		if w.random.IntN(9) == 0 {
			c.Join(joined+1, c.State())
			for state := joined + 1; state <= c.State() && w.random.IntN(2) == 0; state++ {
				w.delete(c.Each(state))
			}
			joined = c.State()
		}
		if w.random.IntN(25) == 0 {
			w.retain(c, joined)
		}
	}
}

// retain deletes the first full copy of a chain, and the changes that no other needs.
func (w *world) retain(c *backupstest.Chain, joined uint64) {
	var kept []backups.Full
	for name, full := range w.fulls {
		if strings.HasPrefix(name, c.Folder()) && w.target.Object(name) != nil {
			kept = append(kept, full)
		}
	}
	slices.SortFunc(kept, func(a, b backups.Full) int { return int(a.First) - int(b.First) })
	if len(kept) < 2 || kept[1].First > joined {
		return
	}
	w.delete(c.Place.Full(kept[0].First))
	for part := range kept[0].Parts {
		w.delete(c.Part(kept[0].First, part))
	}
	for state := range kept[1].First + 1 {
		w.delete(c.Each(state))
		for first := range state + 1 {
			w.delete(c.Hour(first, state))
		}
	}
}

func (w *world) delete(names ...string) {
	testenv.Must(0, w.target.Delete(w.t.Context(), names...))
}

// reachable returns the states of a chain that the objects lead to.
func (w *world) reachable(c *backupstest.Chain) map[uint64]bool {
	var spans [][2]uint64
	for _, o := range testenv.Must(w.target.List(w.t.Context(), c.Folder())) {
		var a, b uint64
		name := strings.TrimPrefix(o.Name, c.Folder())
		if n, _ := fmt.Sscanf(name, "hour/%016x-%016x.ltx", &a, &b); n == 2 {
			spans = append(spans, [2]uint64{a, b})
		} else if n, _ := fmt.Sscanf(name, "each/%016x.ltx", &a); n == 1 {
			spans = append(spans, [2]uint64{a, a})
		}
	}
	slices.SortFunc(spans, func(a, b [2]uint64) int { return int(a[1]) - int(b[1]) })
	all := make(map[uint64]bool)
	begins := make(map[uint64]uint64) // when a state may be restored to which others lead, from which state on
	for name, full := range w.fulls {
		if strings.HasPrefix(name, c.Folder()) && w.target.Object(name) != nil {
			begins[full.First] = full.Last
		}
	}
	if w.bases[c] != nil && (len(begins) == 0 || slices.ContainsFunc(spans, func(s [2]uint64) bool { return s[0] == 2 })) {
		begins[1] = 1
	}
	for first, last := range begins {
		from := map[uint64]bool{first: true}
		for _, s := range spans {
			for state := s[0] - 1; state < s[1]; state++ {
				if from[state] {
					from[s[1]] = true
				}
			}
		}
		for state := range from {
			if state >= last {
				all[state] = true
			}
		}
	}
	return all
}

// want returns the state of a time that should be restored, 0 if none.
func (w *world) want(at time.Time) (c *backupstest.Chain, state uint64) {
	for _, c := range slices.Backward(w.chains) {
		began := w.bases[c] != nil && !c.BeganAt.After(at)
		for name, full := range w.fulls {
			began = began || strings.HasPrefix(name, c.Folder()) && !full.EndedAt.After(at)
		}
		if !began {
			continue
		}
		best := uint64(0)
		for s := range w.reachable(c) {
			if !c.States[s-1].Time.After(at) {
				best = max(best, s)
			}
		}
		return c, best
	}
	return nil, 0
}

// check restores a time and compares.
func (w *world) check(at time.Time) (restored bool) {
	w.t.Helper()
	limit := at
	if at.IsZero() {
		limit = w.now.AddDate(1, 0, 0)
	}
	c, state := w.want(limit)
	got, database, err := restore(w.t, w.target, at)
	if state == 0 {
		if err == nil {
			w.t.Errorf("%v: there is none, but it got %+v", at, got)
		}
		return false
	}
	if err != nil {
		w.t.Errorf("%v: %v", at, err)
		return false
	}
	want := c.States[state-1]
	if got.Generation != c.Number || got.State != state || !got.Time.Equal(want.Time) || !bytes.Equal(database, want.Database) {
		w.t.Errorf("%v: restored %+v, want state %d of generation %d, of %v; equal: %v",
			at, got, state, c.Number, want.Time, bytes.Equal(database, want.Database))
	}
	return true
}

// Whatever was shipped, joined and deleted, each time has the database that it had.
func TestRestoreOfRandomTimes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testenv.Rounds(12, 200)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for range 1 + w.random.IntN(4) {
				w.generation(20 + w.random.IntN(60))
			}
			if c := w.chains[0]; len(w.chains) > 2 && w.bases[w.chains[1]] == nil { // it is too old
				for _, o := range testenv.Must(w.target.List(t.Context(), c.Folder())) {
					w.delete(o.Name)
				}
				maps.DeleteFunc(w.fulls, func(name string, _ backups.Full) bool {
					return strings.HasPrefix(name, c.Folder())
				})
				w.chains = w.chains[1:]
			}
			w.check(time.Time{})
			restored := 0
			for range 100 {
				at := testenv.Noon.Add(time.Duration(w.random.Int64N(int64(w.now.Sub(testenv.Noon) + 10*time.Second))))
				if w.random.IntN(3) == 0 { // exactly then
					c := w.chains[w.random.IntN(len(w.chains))]
					at = c.States[w.random.IntN(len(c.States))].Time
				}
				if w.check(at) {
					restored++
				}
			}
			if restored < 20 {
				t.Errorf("only %d times could be restored", restored)
			}
		})
	}
}

// A list that is late hides nothing, and what is deleted meanwhile is not needed.
func TestRestoreWithLateLists(t *testing.T) {
	t.Parallel()
	s3 := backupstest.NewS3(t)
	target := s3.Target(t, "x")
	w := newWorld(t, 1)
	w.change()
	c := backupstest.NewChain(t, target, 1, pageSize, w.now, w.pages)
	c.Full()
	for range 5 {
		w.change()
		c.Commit(w.now, w.pages)
	}
	s3.Fail(backupstest.Faults{ListsLate: true})
	for range 40 {
		w.change()
		c.Commit(w.now, w.pages)
	}
	newest := func(number uint64) {
		t.Helper()
		restored, database, err := restore(t, target, time.Time{})
		if err != nil || restored.Generation != number || restored.State != c.State() || !bytes.Equal(database, w.pages) {
			t.Errorf("%+v, %v", restored, err)
		}
	}
	newest(1)
	at := c.States[20].Time
	if restored, database, err := restore(t, target, at); err != nil || restored.State != 21 || !bytes.Equal(database, c.States[20].Database) {
		t.Errorf("%+v, %v", restored, err)
	}
	next := backupstest.NewChain(t, target, 2, pageSize, w.now, w.pages)
	if restored, _, err := restore(t, target, time.Time{}); err != nil || restored.Generation != 1 || restored.Unfinished != 2 {
		t.Errorf("beside a generation without a copy: %+v, %v", restored, err)
	}
	next.Full()
	c = next
	newest(2)
	if got := testenv.Must(backups.Generations(t.Context(), target)); len(got) != 2 || got[0].Number != 1 || got[1].Number != 2 {
		t.Errorf("generations %v", got)
	}
	s3.Fail(backupstest.Faults{Refuse: 2})
	newest(2)
}

// joining is a target where states are joined, or the list is old.
type joining struct {
	*backupstest.Memory

	join func()
}

func (j *joining) List(ctx context.Context, prefix string) ([]backups.Object, error) {
	list, err := j.Memory.List(ctx, prefix)
	j.join()
	return list, err
}

// Objects that are joined and deleted while a restore reads them are read where they are then.
func TestRestoreWhileObjectsAreJoined(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.change()
	c := backupstest.NewChain(t, w.target, 1, pageSize, w.now, w.pages)
	c.Full()
	for range 50 {
		w.change()
		c.Commit(w.now, w.pages)
	}
	joined := uint64(1)
	target := &joining{w.target, func() {
		if joined > 30 {
			return
		}
		c.Join(joined+1, joined+10)
		for range 10 {
			joined++
			w.delete(c.Each(joined))
		}
	}}
	restored, database, err := restore(t, target, time.Time{})
	if err != nil || restored.State != 51 || !bytes.Equal(database, w.pages) {
		t.Errorf("%+v, %v", restored, err)
	}
}

// smallWorld has two full copies, hours and single states, and hours whose states are there, too.
func smallWorld(t *testing.T) (*world, *backupstest.Chain) {
	t.Helper()
	w := newWorld(t, 1)
	w.change()
	c := backupstest.NewChain(t, w.target, 1, pageSize, w.now, w.pages)
	w.chains = append(w.chains, c)
	commit := func(n int) {
		for range n {
			w.change()
			c.Commit(w.now, w.pages)
		}
	}
	full := func() {
		first, copying := c.State(), c.BeginFull()
		for !copying.Copy(6) {
			commit(1)
		}
		commit(1)
		w.fulls[c.Place.Full(first)] = copying.End()
	}
	full()
	c.Join(2, c.State())
	for state := range c.State() + 1 {
		w.delete(c.Each(state))
	}
	commit(3)
	c.Join(c.State()-2, c.State())
	full()
	commit(3)
	return w, c
}

// An object that is truncated, has a wrong bit or is missing never makes a wrong database. Whatever
// others make up for is made up for.
func TestDamagedObjects(t *testing.T) {
	t.Parallel()
	w, c := smallWorld(t)
	madeUp, refused := 0, 0
	for _, o := range testenv.Must(w.target.List(t.Context(), "")) {
		text := w.target.Object(o.Name)
		harms := map[string][]byte{"missing": nil, "empty": {}}
		for range 4 {
			cut := w.random.IntN(len(text))
			harms[fmt.Sprint("cut at ", cut)] = text[:cut]
			bit := w.random.IntN(len(text) * 8)
			flipped := bytes.Clone(text)
			flipped[bit/8] ^= 1 << (bit % 8)
			harms[fmt.Sprint("flipped ", bit)] = flipped
		}
		if strings.HasSuffix(o.Name, ".ltx") {
			for bit := 32*8 + w.random.IntN(9); bit < 40*8; bit += 9 { // the time
				flipped := bytes.Clone(text)
				flipped[bit/8] ^= 1 << (bit % 8)
				harms[fmt.Sprint("flipped ", bit)] = flipped
			}
			harms["longer"] = append(bytes.Clone(text), 0)
		}
		for _, harm := range slices.Sorted(maps.Keys(harms)) {
			changed := harms[harm]
			harmed := &world{t: t, target: w.target.Clone(), chains: w.chains, fulls: w.fulls, bases: w.bases}
			if harm == "missing" {
				harmed.delete(o.Name)
			} else {
				harmed.target.Replace(o.Name, changed)
			}
			middle := c.States[w.random.IntN(len(c.States))].Time.Add(time.Duration(w.random.IntN(2)) * time.Millisecond)
			if w.random.IntN(4) == 0 {
				middle = w.now
			}
			for _, at := range []time.Time{{}, middle} {
				_, state := w.want(at)
				if at.IsZero() {
					state = c.State()
				}
				restored, database, err := restore(t, harmed.target, at)
				if err != nil {
					if refused++; strings.Contains(err.Error(), "\n") {
						t.Errorf("%s %s: %v", o.Name, harm, err)
					}
					continue
				}
				madeUp++
				if !bytes.Equal(database, c.States[restored.State-1].Database) {
					t.Errorf("%s %s at %v: state %d has other bytes", o.Name, harm, at, restored.State)
				}
				// Nobody knows that a newest state is missing, or one that an hour has, too. The times of a full
				// copy are nowhere else.
				if restored.State != state && !strings.HasSuffix(o.Name, ".json") && (harm != "missing" || !strings.Contains(o.Name, "/each/")) {
					t.Errorf("%s %s at %v: restored state %d, not %d", o.Name, harm, at, restored.State, state)
				}
			}
		}
	}
	if madeUp == 0 || refused == 0 {
		t.Errorf("%d were made up for, %d refused", madeUp, refused)
	}
}

// A gap is an error that says until when a restore is possible, and that is possible.
func TestRestoreUntilAGap(t *testing.T) {
	t.Parallel()
	w, c := smallWorld(t)
	gap := c.Each(c.State() - 1)
	w.delete(gap)
	for _, at := range []time.Time{{}, w.now, c.States[c.State()-3].Time.Add(time.Millisecond)} {
		_, _, err := restore(t, w.target, at)
		var incomplete *backups.IncompleteError
		if !errors.As(err, &incomplete) || incomplete.Object != gap || !strings.Contains(err.Error(), "--at "+incomplete.Until.UTC().Format("2006-01-02T15:04:05.000Z")) {
			t.Fatalf("at %v: %v", at, err)
		}
		restored, database, err := restore(t, w.target, incomplete.Until)
		if err != nil || restored.State != c.State()-2 || !bytes.Equal(database, c.States[c.State()-3].Database) {
			t.Errorf("until then: %+v, %v", restored, err)
		}
	}
	_, _, err := restore(t, w.target, testenv.Noon)
	if early := (*backups.TooEarlyError)(nil); !errors.As(err, &early) || !early.First.After(testenv.Noon) {
		t.Errorf("too early: %v", err)
	} else if _, _, err := restore(t, w.target, early.First); err != nil {
		t.Errorf("the first: %v", err)
	}
	if _, _, err := restore(t, backupstest.NewMemory(), time.Time{}); !errors.Is(err, backups.ErrNoCopy) {
		t.Errorf("of nothing: %v", err)
	}
}

// What people are told of a target.
func TestDescribe(t *testing.T) {
	t.Parallel()
	w, c := smallWorld(t)
	next := backupstest.NewChain(t, w.target, 2, pageSize, w.now, w.pages)
	objects := testenv.Must(w.target.List(t.Context(), "00000001/"))
	size := int64(0)
	for _, o := range objects {
		size += o.Size
	}
	chains := testenv.Must(backups.Describe(t.Context(), w.target))
	if len(chains) != 2 {
		t.Fatalf("%+v", chains)
	}
	first, _ := w.fulls[c.Place.Full(1)], 0
	if got := chains[0]; got.Number != 1 || got.ID != c.ID || len(got.Fulls) != 2 || !got.First.Equal(first.EndedAt) ||
		!got.Last.Equal(c.States[c.State()-1].Time) || got.Objects != len(objects) || got.Bytes != size || got.Missing != "" {
		t.Errorf("%+v", got)
	}
	if got := chains[1]; got.Number != 2 || len(got.Fulls) != 0 || !got.First.IsZero() || got.Objects != 1 || got.Missing != next.Place.Full(1) {
		t.Errorf("%+v", got)
	}
	w.delete(c.Each(c.State() - 1))
	if got := testenv.Must(backups.Describe(t.Context(), w.target))[0]; got.Missing != c.Each(c.State()-1) || got.Last.After(c.States[c.State()-3].Time) {
		t.Errorf("with a gap: %+v", got)
	}
	w.target.Replace(backups.GenerationObject(1), nil)
	if got := testenv.Must(backups.Describe(t.Context(), w.target))[0]; got.Missing != backups.GenerationObject(1) || len(got.Fulls) != 2 {
		t.Errorf("with a damaged object of the generation: %+v", got)
	}
}

// hostile encodes an object that leads from the first state to the second, and says something else.
func hostile(t *testing.T, c *backupstest.Chain, change func(*ltx.Header), pages ...uint32) []byte {
	t.Helper()
	database := c.States[0].Database
	header := ltx.Header{
		Version: ltx.Version, PageSize: pageSize, Commit: uint32(len(database) / pageSize), MinTXID: 2, MaxTXID: 2,
		Timestamp: testenv.Noon.UnixMilli(), PreApplyChecksum: c.Checksum(database),
	}
	change(&header)
	var text bytes.Buffer
	encoder := testenv.Must(ltx.NewEncoder(&text))
	testenv.Must(0, encoder.EncodeHeader(header))
	for _, page := range pages {
		testenv.Must(0, encoder.EncodePage(ltx.PageHeader{Pgno: page}, make([]byte, header.PageSize)))
	}
	if !header.NoChecksum() {
		encoder.SetPostApplyChecksum(c.Checksum(database))
	}
	testenv.Must(0, encoder.Close())
	return text.Bytes()
}

// Whoever may write to a target can make no restore use much memory or space.
func TestHostileObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.pages = bytes.Repeat([]byte{1}, 4*pageSize)
	c := backupstest.NewChain(t, w.target, 1, pageSize, w.now, w.pages)
	c.Full()
	good := hostile(t, c, func(*ltx.Header) {}, 1)
	patch := func(at int, bytes ...byte) []byte {
		text := slices.Clone(good)
		copy(text[at:], bytes)
		return text
	}
	each, full := c.Each(2), c.Place.Full(1)
	for name, object := range map[string]struct{ name, text string }{
		"a page of 4 GB":            {each, string(patch(106, 0xff, 0xff, 0xff, 0xff))},
		"a page of another kind":    {each, string(patch(104, 0, 0))},
		"16 TB by one page":         {each, string(hostile(t, c, func(h *ltx.Header) { h.Commit = 1 << 31 }, 1<<31))},
		"16 TB by no page":          {each, string(hostile(t, c, func(h *ltx.Header) { h.Commit = 1 << 31 }))},
		"other states":              {each, string(hostile(t, c, func(h *ltx.Header) { h.MaxTXID = 1 << 60 }, 1))},
		"another size of pages":     {each, string(hostile(t, c, func(h *ltx.Header) { h.PageSize = 65536 }, 1))},
		"no checksums":              {each, string(hostile(t, c, func(h *ltx.Header) { h.Flags, h.PreApplyChecksum = ltx.HeaderFlagNoChecksum, 0 }, 1))},
		"other changes before":      {each, string(hostile(t, c, func(h *ltx.Header) { h.PreApplyChecksum ^= 1 }, 1))},
		"a database that is not it": {each, string(good)},
		"many parts":                {full, `{"first":1,"last":1,"page_size":512,"parts":1000000000,"bytes":1,"ended_at":"2026-11-20T13:00:00Z"}`},
		"parts that are not there":  {full, `{"first":1,"last":1,"page_size":512,"parts":1000000,"bytes":1,"ended_at":"2026-11-20T13:00:00Z"}`},
		"no size of pages":          {full, `{"first":1,"last":1,"page_size":4294967295,"parts":1,"bytes":1,"ended_at":"2026-11-20T13:00:00Z"}`},
		"no part":                   {full, `{"first":1,"last":1,"page_size":512,"ended_at":"2026-11-20T13:00:00Z"}`},
		"text without an end":       {full, strings.Repeat("[", 1<<20)},
	} {
		target := w.target.Clone()
		target.Replace(object.name, []byte(object.text))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		restored, database, err := restore(t, target, time.Time{})
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: %+v", name, restored)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 3<<30 || len(database) > 1<<20 {
			t.Errorf("%s: %d bytes of memory, %d of the file", name, used, len(database))
		}
	}
}

// Objects that are large are applied while they are read, and read again if that fails.
func TestLargeChanges(t *testing.T) {
	t.Parallel()
	s3 := backupstest.NewS3(t)
	target := s3.Target(t, "x")
	large := make([]byte, 64*65536)
	testenv.Must(rand.NewChaCha8([32]byte{1}).Read(large))
	c := backupstest.NewChain(t, target, 1, 65536, testenv.Noon, large[:65536])
	c.Full()
	c.Commit(testenv.Noon.Add(time.Second), large)
	s3.Fail(backupstest.Faults{CutAnswers: 2})
	restored, database, err := restore(t, target, time.Time{})
	if err != nil || restored.State != 2 || !bytes.Equal(database, large) {
		t.Errorf("%+v, %v", restored, err)
	}
	s3.Fail(backupstest.Faults{})
	text, body := new(bytes.Buffer), testenv.Must(target.Read(t.Context(), c.Each(2)))
	defer body.Close()
	testenv.Must(text.ReadFrom(body))
	text.Bytes()[text.Len()/2] ^= 1
	testenv.Must(0, target.Delete(t.Context(), c.Each(2)))
	testenv.Must(0, create(t, target, c.Each(2), text.String()))
	if _, _, err := restore(t, target, time.Time{}); !errors.As(err, new(*backups.IncompleteError)) {
		t.Errorf("one that is damaged: %v", err)
	}
	restored, database, err = restore(t, target, testenv.Noon)
	if err != nil || restored.State != 1 || !bytes.Equal(database, large[:65536]) {
		t.Errorf("before it: %+v, %v", restored, err)
	}
}

// No bytes of an object make a restore panic, or restore something else.
func FuzzRestore(f *testing.F) {
	target := backupstest.NewMemory()
	database := bytes.Repeat([]byte{1}, 3*pageSize)
	c := backupstest.NewChain(f, target, 1, pageSize, testenv.Noon, database)
	c.Full()
	database = append(bytes.Repeat([]byte{2}, 4*pageSize), database...)
	c.Commit(testenv.Noon.Add(time.Second), database)
	names := []string{c.Each(2), c.Part(1, 0), c.Place.Full(1)}
	for which, name := range names {
		f.Add(which, target.Object(name))
	}
	path := filepath.Join(f.TempDir(), "db")
	testenv.Must(0, os.WriteFile(path, nil, 0o600))
	f.Fuzz(func(t *testing.T, which int, text []byte) {
		target := target.Clone()
		target.Replace(names[uint(which)%3], text)
		restored, err := backups.Restore(t.Context(), target, path, time.Time{}, func(backups.Progress) {})
		if err == nil && !bytes.Equal(testenv.Must(os.ReadFile(path)), c.States[restored.State-1].Database) {
			t.Errorf("restored %+v", restored)
		}
	})
}

// A state that follows another one than the state before it ends a restore: two processes have
// written one chain.
func TestAChainOfTwoWriters(t *testing.T) {
	t.Parallel()
	mine, others := backupstest.NewMemory(), backupstest.NewMemory()
	database := bytes.Repeat([]byte{1}, 2*pageSize)
	last := ""
	for writer, target := range []*backupstest.Memory{mine, others} {
		c := backupstest.NewChain(t, target, 1, pageSize, testenv.Noon, database)
		c.Full()
		for state := range 2 {
			database = bytes.Clone(database)
			database[0] = byte(10*writer + state)
			c.Commit(testenv.Noon.Add(time.Duration(state+1)*time.Second), database)
		}
		database[0], last = 1, c.Each(3)
	}
	mine.Replace(last, others.Object(last))
	_, _, err := restore(t, mine, time.Time{})
	var incomplete *backups.IncompleteError
	if !errors.As(err, &incomplete) || incomplete.Object != last || !incomplete.Until.Equal(testenv.Noon.Add(time.Second)) {
		t.Errorf("error %v", err)
	}
}

// Generations whose objects are not in a folder of their ID can be restored, and stood upon.
func TestRestoreOfTheLayoutBefore(t *testing.T) {
	t.Parallel()
	w, c := smallWorld(t)
	for _, o := range testenv.Must(w.target.List(t.Context(), c.Folder())) {
		testenv.Must(0, create(t, w.target, "00000001/"+strings.TrimPrefix(o.Name, c.Folder()), string(w.target.Object(o.Name))))
		w.delete(o.Name)
	}
	w.target.Replace(backups.GenerationObject(1), []byte(`{"id":"`+c.ID+`","host":"test","began_at":"2026-11-20T12:00:00Z"}`))
	restored, database, err := restore(t, w.target, time.Time{})
	if err != nil || restored.State != c.State() || restored.ID != c.ID || !bytes.Equal(database, w.pages) {
		t.Errorf("%+v, %v", restored, err)
	}
	next := backupstest.NewChainOn(c, c.State(), 2, w.now)
	w.change()
	next.Commit(w.now, w.pages)
	restored, database, err = restore(t, w.target, time.Time{})
	if err != nil || restored.Generation != 2 || restored.State != 2 || !bytes.Equal(database, w.pages) {
		t.Errorf("upon it: %+v, %v", restored, err)
	}
}
