package cache

import (
	"slices"
	"testing"
	"time"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// protocol runs the steps of the cache's protocol for one set.
type protocol struct {
	t      *testing.T
	copies Copies
	store  *Store         // copies in Redis; nil in memory
	clock  *testenv.Clock // of copies in memory
	of     Set
}

func newProtocol(t *testing.T, env *testenv.Env, owner int) *protocol {
	store := NewStore(env.Redis, env.Keys, 0, nil)
	return &protocol{t: t, copies: store, store: store, of: Set{keys.Friends, int64(owner)}}
}

func newLocalProtocol(t *testing.T, owner int) *protocol {
	clock := testenv.NewClock(testenv.Noon)
	return &protocol{t: t, copies: newLocal(clock), clock: clock, of: Set{keys.Friends, int64(owner)}}
}

// lifetime is that of copies in memory.
const lifetime = time.Hour

// newLocal returns copies in memory, with room for all.
func newLocal(clock *testenv.Clock) *Local { return NewLocal(1<<30, lifetime, clock.Now) }

func (p *protocol) get() copied {
	p.t.Helper()
	return testenv.Must(p.copies.find(p.t.Context(), p.of))[0]
}

// reader is a reader that has begun to read the set. It may store it only if it holds the right
// to do so.
type reader struct {
	claim   claim // in Redis
	reading *Reading
	stores  bool
}

func (p *protocol) tryBegin() (r reader, granted bool) {
	p.t.Helper()
	if local, ok := p.copies.(*Local); ok {
		r.reading, r.stores = local.begin(p.of)
		return r, r.reading != nil
	}
	c, granted, err := p.store.beginLoad(p.t.Context(), p.of, p.get().generation)
	if err != nil {
		p.t.Fatal(err)
	}
	return reader{claim: c}, granted
}

func (p *protocol) begin() reader {
	p.t.Helper()
	r, granted := p.tryBegin()
	if !granted {
		p.t.Fatal("the reader may not load")
	}
	return r
}

// end stores what a reader has read, if that is allowed.
func (p *protocol) end(r reader, members []models.RowID) (stored bool) {
	p.t.Helper()
	if local, ok := p.copies.(*Local); ok {
		local.memory.End(r.reading, members, r.stores)
		return r.stores
	}
	return testenv.Must(p.store.store(p.t.Context(), p.of, r.claim, members))
}

func (p *protocol) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *protocol) mark(token string) {
	p.t.Helper()
	p.must(p.copies.mark(p.t.Context(), writer{token: token}, []Set{p.of}))
}

func (p *protocol) clear(token string) {
	p.t.Helper()
	p.must(p.copies.clear(p.t.Context(), writer{token: token}, []Set{p.of}))
}

// markStripe and clearStripe are mark and clear of a bulk change.
func (p *protocol) markStripe(token string) {
	p.t.Helper()
	p.must(p.copies.mark(p.t.Context(), writer{token: token, bulk: true}, []Set{p.of}))
}

func (p *protocol) clearStripe(token string) {
	p.t.Helper()
	p.must(p.copies.clear(p.t.Context(), writer{token: token, bulk: true}, []Set{p.of}))
}

// keep follows a change of unknown outcome.
func (p *protocol) keep(token string) {
	p.t.Helper()
	p.must(p.copies.keep(p.t.Context(), writer{token: token}, []Set{p.of}))
}

// drop drops all copies; in Redis it begins a new generation.
func (p *protocol) drop() {
	p.t.Helper()
	p.must(p.copies.DropAll(p.t.Context()))
}

// tryStore tries to store a set, and checks whether it is found then.
func (p *protocol) tryStore(r reader, want bool) {
	p.t.Helper()
	stored := p.end(r, []models.RowID{7, 8})
	if found := p.get().found; found != want || (found && !stored) {
		p.t.Fatalf("found %v, stored %v, want %v", found, stored, want)
	}
}

// When a reader may store a set and when not, step by step. TestNoOutdatedSetIsFound tries every order.
func TestAReaderStoresOnlyCurrentSets(t *testing.T) {
	t.Parallel()
	type test struct {
		name string
		run  func(*protocol)
	}
	tests := []test{
		{"nobody changes it", func(p *protocol) {
			p.tryStore(p.begin(), true)
		}},
		{"a second reader begins after the change", func(p *protocol) {
			first := p.begin()
			p.mark("writer")
			p.clear("writer")
			second := p.begin()
			p.tryStore(first, false)
			p.tryStore(second, true)
		}},
		{"one of two changes ends", func(p *protocol) {
			p.mark("first")
			p.mark("second")
			p.clear("second")
			p.tryStore(p.begin(), false)
			reader := p.begin()
			p.clear("first")
			p.tryStore(reader, false)
			p.tryStore(p.begin(), true)
		}},
		{"a bulk change is under way when the reader begins", func(p *protocol) {
			p.markStripe("writer")
			p.tryStore(p.begin(), false)
			reader := p.begin()
			p.clearStripe("writer")
			p.tryStore(reader, false)
			p.tryStore(p.begin(), true)
		}},
		{"a bulk change and another one", func(p *protocol) {
			p.markStripe("bulk")
			p.mark("writer")
			p.clear("writer")
			p.tryStore(p.begin(), false)
			p.mark("writer")
			p.clearStripe("bulk")
			p.tryStore(p.begin(), false)
			p.clear("writer")
			p.tryStore(p.begin(), true)
		}},
		{"a bulk change removes what was stored, and nothing else", func(p *protocol) {
			other := &protocol{t: p.t, copies: p.copies, store: p.store, of: Set{p.of.Kind, p.of.Owner + keys.Stripes}}
			p.tryStore(p.begin(), true)
			other.tryStore(other.begin(), true)
			p.markStripe("writer")
			if p.get().found || !other.get().found {
				p.t.Fatalf("the set is stored: %v; another one: %v", p.get().found, other.get().found)
			}
			p.clearStripe("writer")
		}},
		{"all sets are dropped after the reader began", func(p *protocol) {
			reader := p.begin()
			p.drop()
			p.tryStore(reader, false)
			p.tryStore(p.begin(), true)
		}},
		{"all sets are dropped after the set was stored", func(p *protocol) {
			p.tryStore(p.begin(), true)
			p.drop()
			if p.get().found {
				p.t.Fatal("a set that was dropped is found")
			}
			p.tryStore(p.begin(), true)
		}},
		{"the outcome of a change is unknown", func(p *protocol) {
			p.tryStore(p.begin(), true)
			p.mark("writer")
			reader := p.begin()
			p.keep("writer")
			p.tryStore(reader, false)
			p.tryStore(p.begin(), false)
			p.mark("another")
			p.clear("another")
			p.tryStore(p.begin(), false)
		}},
		{"a member is removed", func(p *protocol) {
			p.tryStore(p.begin(), true)
			w := writer{token: "writer", gone: 7}
			p.must(p.copies.mark(p.t.Context(), w, []Set{p.of}))
			if got := p.get(); !got.found || !slices.Equal(got.members, []models.RowID{8}) {
				p.t.Fatalf("%+v", got)
			}
			p.must(p.copies.clear(p.t.Context(), w, []Set{p.of}))
			if got := p.get(); !got.found || !slices.Equal(got.members, []models.RowID{8}) {
				p.t.Fatalf("%+v", got)
			}
		}},
		{"a second reader", func(p *protocol) {
			first := p.begin()
			if _, granted := p.tryBegin(); granted {
				p.t.Fatal("both may load")
			}
			p.tryStore(first, true)
		}},
	}
	inRedis := []test{
		{"a writer dies and its mark expires", func(p *protocol) {
			p.mark("writer")
			key := p.store.keys.SetChanging(p.of.Kind, p.of.Owner)
			ttl := p.store.rdb.PTTL(p.t.Context(), key).Val()
			if ttl <= 0 || ttl > markTTL {
				p.t.Fatalf("the mark expires after %v", ttl)
			}
			p.tryStore(p.begin(), false)
			p.store.rdb.Unlink(p.t.Context(), key) // the minute is over
			p.tryStore(p.begin(), true)
		}},
		{"a mark was left without an expiry", func(p *protocol) {
			key := p.store.keys.SetChanging(p.of.Kind, p.of.Owner)
			p.store.rdb.SAdd(p.t.Context(), key, "writer")
			p.tryStore(p.begin(), false)
			if ttl := p.store.rdb.PTTL(p.t.Context(), key).Val(); ttl <= 0 || ttl > markTTL {
				p.t.Fatalf("the mark expires after %v", ttl)
			}
		}},
		{"the writer of a bulk change dies and its mark expires", func(p *protocol) {
			p.markStripe("writer")
			key := p.store.keys.SetsChanging(keys.StripeOf(p.of.Owner))
			if ttl := p.store.rdb.PTTL(p.t.Context(), key).Val(); ttl <= 0 || ttl > markTTL {
				p.t.Fatalf("the mark expires after %v", ttl)
			}
			p.store.rdb.Persist(p.t.Context(), key) // a connection broke before the expiry was set
			p.tryStore(p.begin(), false)
			if ttl := p.store.rdb.PTTL(p.t.Context(), key).Val(); ttl <= 0 || ttl > markTTL {
				p.t.Fatalf("the mark expires after %v", ttl)
			}
			p.store.rdb.Unlink(p.t.Context(), key) // the minute is over
			p.tryStore(p.begin(), true)
		}},
		{"a reader without the right to load", func(p *protocol) {
			first := p.begin()
			p.tryStore(reader{claim: claim{token: "somebody else", generation: first.claim.generation}}, false)
			p.tryStore(first, true)
		}},
		{"the generation is lost, and the set is not", func(p *protocol) {
			p.tryStore(p.begin(), true)
			reader := p.begin()
			p.store.rdb.Unlink(p.t.Context(), p.store.keys.SetsGeneration(keys.StripeOf(p.of.Owner)))
			if p.get().found {
				p.t.Fatal("a set without a generation is found")
			}
			if _, granted := p.tryBegin(); granted {
				p.t.Fatal("both may load")
			}
			if next := p.get(); next.generation == "" || next.generation == reader.claim.generation || next.found {
				p.t.Fatalf("the next generation after %s is %+v", reader.claim.generation, next)
			}
			p.tryStore(reader, false)
			p.tryStore(p.begin(), true)
		}},
	}
	onRedis(t, func(t *testing.T, env *testenv.Env) {
		for i, tt := range slices.Concat(tests, inRedis) {
			t.Run(tt.name, func(t *testing.T) { tt.run(newProtocol(t, env, i+1)) })
		}
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		for i, tt := range tests {
			t.Run(tt.name, func(t *testing.T) { tt.run(newLocalProtocol(t, i+1)) })
		}
	})
}

// Only a set with the stamp of its stripe's generation is found, whatever else is
// stored under its name.
func TestStamps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		stored     []string
		generation string
		found      bool
		members    int
		broken     bool
	}{
		{"nothing", nil, "5", false, 0, false},
		{"an empty set", []string{"-5"}, "5", true, 0, false},
		{"a set", []string{"-5", "7", "8"}, "5", true, 2, false},
		{"the stamp is not the first", []string{"7", "-5", "8"}, "5", true, 2, false},
		{"another generation", []string{"-4", "7"}, "5", false, 0, false},
		{"a longer number", []string{"-55", "7"}, "5", false, 0, false},
		{"no stamp", []string{"7", "8"}, "5", false, 0, false},
		{"no generation", []string{"-5", "7"}, "", false, 0, false},
		{"no stamp and no generation", []string{"7"}, "", false, 0, false},
		{"no number and no generation", []string{"-", "7"}, "", false, 0, false},
		{"two stamps", []string{"-4", "-5"}, "5", false, 0, false},
		{"two stamps, the other order", []string{"-5", "-4"}, "5", false, 0, false},
		{"not a row id", []string{"-5", "x"}, "5", false, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			members, found, err := parseSet(tt.stored, tt.generation)
			if found != tt.found || len(members) != tt.members || (err != nil) != tt.broken {
				t.Errorf("%v, %v, %v", members, found, err)
			}
		})
	}
}

// A mark lasts until its change has ended, and until the readers have ended who began
// before the commit. A transaction that stalls ends before, too.
func TestMarksOutlastChanges(t *testing.T) {
	t.Parallel()
	if ChangeTimeout+loadingTTL > markTTL/2 {
		t.Errorf("a change may take %v and a reader %v, a mark lasts for %v", ChangeTimeout, loadingTTL, markTTL)
	}
	var idle string
	if err := testenv.Real(t).Gorm.Raw("SHOW idle_in_transaction_session_timeout").Scan(&idle).Error; err != nil {
		t.Fatal(err)
	}
	if d, err := time.ParseDuration(idle); err != nil || d <= 0 || d > markTTL/2 {
		t.Errorf("a stalled transaction lives for %q", idle)
	}
}
