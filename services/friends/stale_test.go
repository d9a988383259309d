package friends

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/recovery"
)

// protocol runs the steps of the cache's protocol for one user's list.
type protocol struct {
	t     *testing.T
	cache *Cache
	user  models.RowID
}

func (p *protocol) begin() string {
	p.t.Helper()
	token, granted, err := p.cache.beginLoad(p.t.Context(), p.user)
	if err != nil || !granted {
		p.t.Fatalf("the reader may not load: %v", err)
	}
	return token
}

func (p *protocol) mark(token string) {
	p.t.Helper()
	if err := p.cache.mark(p.t.Context(), token, []models.RowID{p.user}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *protocol) clear(token string) {
	p.t.Helper()
	if err := p.cache.clear(p.t.Context(), token, []models.RowID{p.user}); err != nil {
		p.t.Fatal(err)
	}
}

// store tries to store a list, and checks whether that was allowed.
func (p *protocol) store(token string, want bool) {
	p.t.Helper()
	stored, err := p.cache.store(p.t.Context(), p.user, token, []models.RowID{7, 8})
	if err != nil || stored != want {
		p.t.Fatalf("stored %v, %v, want %v", stored, err, want)
	}
	if _, found, err := p.cache.get(p.t.Context(), p.user); err != nil || found != want {
		p.t.Fatalf("found %v, %v, want %v", found, err, want)
	}
}

// Every way in which a reader and writers can overlap, step by step.
func TestAReaderStoresOnlyCurrentLists(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		run  func(*protocol)
	}{
		{"nobody changes it", func(p *protocol) {
			p.store(p.begin(), true)
		}},
		{"a change is under way when the reader begins", func(p *protocol) {
			p.mark("writer")
			p.store(p.begin(), false)
		}},
		{"a change begins after the reader", func(p *protocol) {
			reader := p.begin()
			p.mark("writer")
			p.store(reader, false)
		}},
		{"a change begins and ends after the reader began", func(p *protocol) {
			reader := p.begin()
			p.mark("writer")
			p.clear("writer")
			p.store(reader, false)
		}},
		{"a second reader begins after the change", func(p *protocol) {
			first := p.begin()
			p.mark("writer")
			p.clear("writer")
			second := p.begin()
			p.store(first, false)
			p.store(second, true)
		}},
		{"one of two changes ends", func(p *protocol) {
			p.mark("first")
			p.mark("second")
			p.clear("second")
			p.store(p.begin(), false)
			reader := p.begin()
			p.clear("first")
			p.store(reader, false)
			p.store(p.begin(), true)
		}},
		{"a change removes what was stored", func(p *protocol) {
			p.store(p.begin(), true)
			p.mark("writer")
			if _, found, err := p.cache.get(p.t.Context(), p.user); err != nil || found {
				p.t.Fatalf("the set is stored despite the mark: %v", err)
			}
		}},
		{"a writer dies and its mark expires", func(p *protocol) {
			p.mark("writer")
			key := p.cache.keys.FriendsChanging(p.user)
			ttl := p.cache.rdb.PTTL(p.t.Context(), key).Val()
			if ttl <= 0 || ttl > markTTL {
				p.t.Fatalf("the mark expires after %v", ttl)
			}
			p.store(p.begin(), false)
			p.cache.rdb.Unlink(p.t.Context(), key) // the minute is over
			p.store(p.begin(), true)
		}},
		{"a mark was left without an expiry", func(p *protocol) {
			key := p.cache.keys.FriendsChanging(p.user)
			p.cache.rdb.SAdd(p.t.Context(), key, "writer")
			p.store(p.begin(), false)
			if ttl := p.cache.rdb.PTTL(p.t.Context(), key).Val(); ttl <= 0 || ttl > markTTL {
				p.t.Fatalf("the mark expires after %v", ttl)
			}
		}},
		{"two readers at once", func(p *protocol) {
			first := p.begin()
			if _, granted, err := p.cache.beginLoad(p.t.Context(), p.user); err != nil || granted {
				p.t.Fatalf("both may load: %v", err)
			}
			p.store("somebody else", false)
			p.store(first, true)
		}},
	}
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for i, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				tt.run(&protocol{t: t, cache: NewCache(env.Redis, env.Keys), user: models.RowID(i + 1)})
			})
		}
	})
}

// Readers load as fast as they can on two replicas, and copies vanish at random
// as if they had expired. Every reader sees every change once it is
// acknowledged.
func TestReadersRacingWriters(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	replicas := []*Service{
		New(NewStore(env.Gorm), NewCache(env.Redis, env.Keys), env.Log),
		New(NewStore(env.Gorm), NewCache(env.Redis, env.Keys), env.Log),
	}
	const user, changes = models.RowID(1), 300
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 6 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := replicas[i%2].IDs(t.Context(), user); err != nil {
					t.Error(err)
					return
				}
				if rand.IntN(4) == 0 {
					env.Redis.Unlink(t.Context(), env.Keys.Friends(user))
				}
			}
		})
	}
	for n := range changes {
		friend := models.RowID(100 + n)
		if err := replicas[n%2].Replace(t.Context(), user, []models.RowID{friend}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for i, replica := range replicas {
				if ids, err := replica.IDs(t.Context(), user); err != nil || !slices.Equal(ids, []models.RowID{friend}) {
					t.Fatalf("after change %d replica %d returns %v, %v", n, i, ids, err)
				}
			}
		}
	}
	close(stop)
	readers.Wait()
}

// A change must have ended well before its marks expire.
func TestChangesEndBeforeTheirMarks(t *testing.T) {
	t.Parallel()
	if changeTimeout > markTTL/2 {
		t.Errorf("a change may take %v, its marks last for %v", changeTimeout, markTTL)
	}
	env := testenv.Real(t)
	var idle string
	if err := env.Gorm.Raw("SHOW idle_in_transaction_session_timeout").Scan(&idle).Error; err != nil {
		t.Fatal(err)
	}
	if d, err := time.ParseDuration(idle); err != nil || d <= 0 || d > markTTL/2 {
		t.Errorf("a stalled transaction lives for %q", idle)
	}
}

// staleSets drops friend sets after a loss.
func staleSets(s *Service, env *testenv.Env, k keys.Builder) *recovery.Recovery {
	return &recovery.Recovery{Detector: recovery.NewWriterDetector(env.Redis, k, recovery.Friends), Replay: s.DropStale(env.Clock.Now)}
}

// When Redis may have forgotten writes, all sets of this prefix are dropped,
// and no other keys. Otherwise nothing is.
func TestStaleSetsAreDropped(t *testing.T) {
	t.Parallel()
	t.Run("one server", func(t *testing.T) { t.Parallel(); testDropStale(t, testenv.Real(t)) })
	t.Run("embedded", func(t *testing.T) { t.Parallel(); testDropStale(t, testenv.Embedded(t)) })
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := testenv.StartCluster(t)
		testDropStale(t, testenv.RealOn(t, cluster.Use))
	})
}

// A Redis that went back in time has a reader's token again that a change had
// removed. The reader stores nothing with it once stale sets were dropped.
func TestTokensAreDroppedWithStaleSets(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := &protocol{t: t, cache: NewCache(env.Redis, env.Keys), user: 1}
		stale := staleSets(New(NewStore(env.Gorm), p.cache, env.Log), env, env.Keys)
		if _, err := stale.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		reader := p.begin()
		p.mark("writer")
		p.clear("writer")
		if err := env.Redis.Set(t.Context(), env.Keys.FriendsLoading(1), reader, loadingTTL).Err(); err != nil {
			t.Fatal(err)
		}
		if err := env.Redis.HSet(t.Context(), env.Keys.LossCheckpoint("friends", 0), "server", "another").Err(); err != nil {
			t.Fatal(err)
		}
		if dropped, err := stale.Run(t.Context()); err != nil || dropped != 0 {
			t.Fatalf("%d sets dropped, %v", dropped, err)
		}
		p.store(reader, false)
		p.store(p.begin(), true)
	})
}

// Two masters at once: a process changes friends on the old one after another
// process has checkpointed the new one, which goes on to serve the set from before
// the change. Once the first process reaches the new master, the set is dropped.
func TestChangesOnAnOldMaster(t *testing.T) {
	t.Parallel()
	env, split := testenv.Real(t), testenv.StartSplit(t)
	process := func(rdb *redis.Client) (*Service, *recovery.Recovery) {
		s := New(NewStore(env.Gorm), NewCache(rdb, env.Keys), env.Log)
		return s, &recovery.Recovery{Detector: recovery.NewWriterDetector(rdb, env.Keys, recovery.Friends), Replay: s.DropStale(env.Clock.Now)}
	}
	first, firstStale := process(split.Former)
	second, secondStale := process(split.Promoted)
	run := func(r *recovery.Recovery) {
		t.Helper()
		if _, err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	friendsOf := func(s *Service) []models.RowID { return testenv.Must(s.IDs(t.Context(), 1)) }
	run(firstStale)
	if err := first.Replace(t.Context(), 1, []models.RowID{2}); err != nil {
		t.Fatal(err)
	}
	split.Promote()
	run(secondStale)
	if got := friendsOf(second); !slices.Equal(got, []models.RowID{2}) {
		t.Fatalf("before the change the second process reads %v", got)
	}
	if err := first.Remove(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	run(firstStale)
	run(secondStale)

	split.Heal()
	run(firstStale)
	for _, s := range []*Service{first, second} {
		if got := friendsOf(s); len(got) != 0 {
			t.Errorf("in the end a process reads %v", got)
		}
	}
}

// A slot that moves loses no data, so its checkpoint on another server is no
// restart. A key in it is still dropped.
func TestSetsAreDroppedWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env := testenv.RealOn(t, cluster.Use)
	s := New(NewStore(env.Gorm), NewCache(env.Redis, env.Keys), env.Log)
	stale := staleSets(s, env, env.Keys)
	dropStale := func(want int64) {
		t.Helper()
		if dropped, err := stale.Run(t.Context()); err != nil || dropped != want {
			t.Errorf("%d sets dropped, %v, want %d", dropped, err, want)
		}
	}
	fill := func() {
		for user := range models.RowID(50) {
			if err := env.Redis.SAdd(t.Context(), env.Keys.Friends(user+1), 7).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	slotOf := func(key string) int {
		return int(testenv.Must(env.Redis.ClusterKeySlot(t.Context(), key).Result()))
	}
	dropStale(0) // this Redis has no checkpoint
	fill()
	slot := slotOf(env.Keys.LossCheckpoint("friends", 5))
	from, to := cluster.Owners(slot)
	cluster.MoveSlot(slot, from, to)
	dropStale(0)
	if marked := testenv.Must(env.Redis.HExists(t.Context(), env.Keys.LossCheckpoint("friends", 5), "mark").Result()); marked {
		t.Error("a checkpoint whose slot has moved counts as a loss")
	}

	slot = slotOf(env.Keys.Friends(1))
	if err := env.Redis.SAdd(t.Context(), env.Keys.FriendsChanging(1), "writer").Err(); err != nil {
		t.Fatal(err)
	}
	from, to = cluster.Owners(slot)
	cluster.BeginMove(slot, from, to)
	if !cluster.MoveKey(slot, from, to) {
		t.Fatal("there is nothing to move")
	}
	for i := range 128 {
		if err := env.Redis.HSet(t.Context(), env.Keys.LossCheckpoint("friends", i), "server", "another").Err(); err != nil {
			t.Fatal(err)
		}
	}
	dropStale(50)
	dropStale(0)
	for cluster.MoveKey(slot, from, to) {
	}
	cluster.EndMove(slot, from, to)
}

func testDropStale(t *testing.T, env *testenv.Env) {
	t.Helper()
	const users = 3000 // several steps of the scan
	// One of two prefixes matches the other as a pattern.
	wild, plain := keys.Builder{Prefix: env.Keys.Prefix + `a*[b]?\`}, keys.Builder{Prefix: env.Keys.Prefix + "axb1"}
	s := New(NewStore(env.Gorm), NewCache(env.Redis, wild), env.Log)
	stale := staleSets(s, env, wild)
	fill := func() {
		pipe := env.Redis.Pipeline()
		for user := range models.RowID(users) {
			pipe.SAdd(t.Context(), wild.Friends(user+1), 7)
		}
		pipe.SAdd(t.Context(), plain.Friends(1), 7)
		pipe.SAdd(t.Context(), wild.FriendsChanging(1), "writer")
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dropStale := func(want int64) {
		t.Helper()
		fill()
		if dropped, err := stale.Run(t.Context()); err != nil || dropped != want {
			t.Errorf("%d sets dropped, %v, want %d", dropped, err, want)
		}
		for key, want := range map[string]int64{
			wild.Friends(1): min(1, users-want), wild.Friends(users): min(1, users-want), plain.Friends(1): 1, wild.FriendsChanging(1): 1,
		} {
			if found, err := env.Redis.Exists(t.Context(), key).Result(); err != nil || found != want {
				t.Errorf("%s exists: %d, %v, want %d", key, found, err, want)
			}
		}
	}
	dropStale(users) // this Redis has no checkpoint
	dropStale(0)
	dropStale(0)
	checkpoint := wild.LossCheckpoint("friends", 0)
	if err := env.Redis.HSet(t.Context(), checkpoint, "server", "another").Err(); err != nil {
		t.Fatal(err)
	}
	dropStale(users)
	dropStale(0)
	if err := env.Redis.Del(t.Context(), checkpoint).Err(); err != nil {
		t.Fatal(err)
	}
	dropStale(users)
}
