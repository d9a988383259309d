package cache

import (
	mathrand "math/rand/v2"
	"slices"
	"testing"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// leaver is the member that removals remove.
const leaver models.RowID = 1

// model runs the protocol of one set in a random order of steps. The set has a member
// whose number is the set's version, and leaver until a removal. Writers die and Redis
// goes back in time at any moment.
type model struct {
	*protocol
	random *mathrand.Rand

	// version is the last one that was committed, and least the oldest one that may be
	// found.
	version, least models.RowID
	// removed reports that a removal was committed, and gone that leaver may be found no more.
	removed, gone bool
	readers       []modelReader
	writers       []modelWriter

	kept snapshot
	// stale is true while Redis went back in time and nobody has noticed.
	stale bool
}

type modelReader struct {
	reader
	members []models.RowID // that were read, or nil
}

type modelWriter struct {
	writer
	unmarked  bool // Redis may have lost the mark
	kept      bool // it has given up
	committed bool
	version   models.RowID // that was committed, or 0
}

// snapshot holds the keys of a set and its stripe in Redis: sets and texts by key.
type snapshot struct {
	sets  map[string][]string
	texts map[string]string
}

// changing returns the keys of the marks of the set and of its stripe.
func (m *model) changing() []string {
	k, of := m.store.keys, m.of
	return []string{k.SetChanging(of.Kind, of.Owner), k.SetsChanging(keys.StripeOf(of.Owner))}
}

func (m *model) names() (sets, texts []string) {
	k, of := m.store.keys, m.of
	return append(m.changing(), k.Set(of.Kind, of.Owner)),
		[]string{k.SetLoading(of.Kind, of.Owner), k.SetsGeneration(keys.StripeOf(of.Owner))}
}

// snapshot keeps the state of Redis.
func (m *model) snapshot() {
	sets, texts := m.names()
	m.kept = snapshot{make(map[string][]string), make(map[string]string)}
	for _, key := range sets {
		m.kept.sets[key] = m.store.rdb.SMembers(m.t.Context(), key).Val()
	}
	for _, key := range texts {
		m.kept.texts[key] = m.store.rdb.Get(m.t.Context(), key).Val()
	}
}

// goBack brings the kept state back.
func (m *model) goBack() {
	ctx := m.t.Context()
	sets, texts := m.names()
	pipe := m.store.rdb.Pipeline()
	for _, key := range append(sets, texts...) {
		pipe.Del(ctx, key)
	}
	for key, value := range m.kept.texts {
		if value != "" {
			pipe.Set(ctx, key, value, 0)
		}
	}
	for key, members := range m.kept.sets {
		for _, member := range members {
			pipe.SAdd(ctx, key, member)
		}
	}
	_, err := pipe.Exec(ctx)
	m.must(err)
	m.stale = true
	for i := range m.writers {
		m.writers[i].unmarked = true
	}
}

// readerStep moves a reader to its next step: it claims the set, reads it, stores it.
func (m *model) readerStep() {
	if len(m.readers) < 3 && m.random.IntN(2) == 0 {
		if r, granted := m.tryBegin(); granted {
			m.readers = append(m.readers, modelReader{reader: r})
		}
		return
	}
	if len(m.readers) == 0 {
		return
	}
	i := m.random.IntN(len(m.readers))
	if r := &m.readers[i]; r.members == nil {
		r.members = []models.RowID{m.version}
		if !m.removed {
			r.members = append(r.members, leaver)
		}
		return
	}
	m.end(m.readers[i].reader, m.readers[i].members)
	m.readers = append(m.readers[:i:i], m.readers[i+1:]...)
}

// writerStep moves a writer to its next step: it marks, commits, clears and answers.
// While its mark is there, nothing older may be found from the commit on; otherwise from
// the answer on.
func (m *model) writerStep() {
	ctx := m.t.Context()
	if len(m.writers) < 2 && m.random.IntN(4) == 0 {
		w := modelWriter{writer: writer{token: newToken(), bulk: m.random.IntN(2) == 0}}
		if !w.bulk {
			w.gone = models.RowID(m.random.IntN(2)) * leaver
		}
		m.must(m.copies.mark(ctx, w.writer, []Set{m.of}))
		m.writers = append(m.writers, w)
		return
	}
	if len(m.writers) == 0 {
		return
	}
	i := m.random.IntN(len(m.writers))
	w := &m.writers[i]
	if !w.committed {
		w.committed = true
		if w.gone != 0 {
			m.removed = true
		} else {
			m.version++
			w.version = m.version
		}
		if !w.unmarked {
			m.require(w)
		}
		if w.kept {
			m.writers = append(m.writers[:i:i], m.writers[i+1:]...)
		}
		return
	}
	m.must(m.copies.clear(ctx, w.writer, []Set{m.of}))
	m.require(w)
	m.writers = append(m.writers[:i:i], m.writers[i+1:]...)
}

// giveUp ends a writer that does not know whether it has committed. If it has not, it still may as
// long as its mark lasts.
func (m *model) giveUp() {
	if len(m.writers) == 0 || m.writers[0].kept {
		return
	}
	w := &m.writers[0]
	w.kept = true
	m.must(m.copies.keep(m.t.Context(), w.writer, []Set{m.of}))
	if w.committed {
		m.writers = m.writers[1:]
	}
}

// require forbids to find the set as it was before a change.
func (m *model) require(w *modelWriter) {
	m.least = max(m.least, w.version)
	m.gone = m.gone || w.gone != 0
}

// crash ends a writer, wherever it is.
func (m *model) crash() {
	if len(m.writers) > 0 {
		m.writers = m.writers[1:]
	}
}

// expire ends the marks of writers that died, and those that Redis has brought back.
// The tokens of readers last less long.
func (m *model) expire() {
	if m.store == nil {
		if !slices.ContainsFunc(m.writers, func(w modelWriter) bool { return w.kept }) {
			m.clock.Advance(lifetime)
		}
		return
	}
	ctx, rdb := m.t.Context(), m.store.rdb
	m.must(rdb.Del(ctx, m.store.keys.SetLoading(m.of.Kind, m.of.Owner)).Err())
	for _, changing := range m.changing() {
		for _, token := range rdb.SMembers(ctx, changing).Val() {
			if !slices.ContainsFunc(m.writers, func(w modelWriter) bool { return w.token == token }) {
				m.must(rdb.SRem(ctx, changing, token).Err())
			}
		}
	}
}

// notice is the recovery after Redis went back in time.
func (m *model) notice() {
	m.drop()
	m.stale = false
}

// check fails if a set is found that lacks a change. It reports whether one is found.
func (m *model) check() (found bool) {
	m.t.Helper()
	c := m.get()
	if !c.found || m.stale {
		return c.found
	}
	versions := slices.DeleteFunc(slices.Clone(c.members), func(member models.RowID) bool { return member == leaver })
	if len(versions) != 1 || versions[0] < m.least || (m.gone && len(c.members) > 1) {
		m.t.Fatalf("the set is found as %v, the oldest version may be %d, %d is gone: %v", c.members, m.least, leaver, m.gone)
	}
	return true
}

// Whatever the order of steps, and wherever writers die and Redis goes back in time, no
// set is found that lacks a change, once the way back was noticed. In memory writers don't die
// and nothing goes back.
func TestNoOutdatedSetIsFound(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, env *testenv.Env) {
		runModels(t, 200, func(owner int) *protocol { return newProtocol(t, env, owner) }, func(m *model) []func() {
			return []func(){m.crash, m.expire, m.snapshot, m.goBack, m.notice}
		})
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		runModels(t, 5000, func(owner int) *protocol { return newLocalProtocol(t, owner) }, func(m *model) []func() {
			return []func(){m.expire, m.notice}
		})
	})
}

// runModels takes 60 steps with each of n sets: those of readers and writers, and further ones.
func runModels(t *testing.T, n int, newProtocol func(owner int) *protocol, further func(*model) []func()) {
	seed, found := mathrand.Uint64(), 0
	t.Logf("seed %d", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	for owner := range n {
		m := &model{protocol: newProtocol(owner), random: random, version: leaver + 1}
		steps := append([]func(){
			m.readerStep, m.readerStep, m.readerStep, m.readerStep, m.readerStep, m.readerStep,
			m.writerStep, m.writerStep, m.writerStep, m.giveUp,
		}, further(m)...)
		for range 60 {
			steps[random.IntN(len(steps))]()
			if m.check() {
				found++
			}
		}
	}
	if found < 3*n/2 {
		t.Errorf("a set was found after %d steps only", found)
	}
}
