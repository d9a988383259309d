package nearcache_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/rankings/nearcache"
)

// bound is how old an answer from a copy may be.
const bound = time.Second

// replica is one of several processes that hold the same bucket.
type replica struct {
	t      testing.TB
	store  *board.Store
	cache  *nearcache.Cache
	bucket *models.Bucket
}

// newReplica starts a process with its own connection to Redis.
func newReplica(t testing.TB, env *testenv.Env, rdb redis.UniversalClient, bucket *models.Bucket) *replica {
	t.Helper()
	store := board.NewStore(rdb, env.Keys, env.Clock.Now, nil)
	cache := nearcache.New(nearcache.Options{
		Source: store, Changes: store.Changes(),
		Buckets:      func(time.Time) []*models.Bucket { return []*models.Bucket{bucket} },
		MaxStaleness: bound, Memory: 1 << 30, OrderMemory: 1 << 30, Clock: env.Clock.Now, Log: env.Log, Spread: bound / 10,
	})
	store.NotifyWritten(cache.Written)
	testenv.Background(t, cache.Run)
	return &replica{t, store, cache, bucket}
}

func streamed(shards int) *models.Bucket {
	b := testenv.Bucket(shards)
	b.ChangeStream = true
	return b
}

// raise writes a composite. It reports whether that was acknowledged.
func (r *replica) raise(ctx context.Context, user models.RowID, composite models.Composite) bool {
	return r.store.Raise(ctx, []models.Raise{{Bucket: r.bucket, Entry: models.Entry{User: user, Composite: composite}}}) == nil
}

// held returns what the cache holds of users; false if it can't prove that.
func (r *replica) held(users ...models.RowID) ([]models.Composite, time.Time, bool) {
	composites := make([]models.Composite, len(users))
	asOf, ok := r.cache.Composites(r.bucket, users, composites)
	return composites, asOf, ok && r.cache.Fresh(asOf)
}

// equalsRedis waits until the cache holds what Redis has.
func (r *replica) equalsRedis(what string, users ...models.RowID) {
	r.t.Helper()
	testenv.Eventually(r.t, what, func() bool {
		want, err := r.store.Composites(r.t.Context(), r.bucket, users)
		if err != nil {
			return false
		}
		got, _, ok := r.held(users...)
		if !ok {
			return false
		}
		for i := range want {
			if got[i] != want[i] {
				return false
			}
		}
		return true
	})
}

// holds waits until the cache holds this composite of a user.
func (r *replica) holds(what string, user models.RowID, composite models.Composite) {
	r.t.Helper()
	testenv.Eventually(r.t, what, func() bool {
		got, _, ok := r.held(user)
		return ok && got[0] == composite
	})
}

// A process whose connection hangs, or is cut, can't prove anything, so that Redis is
// asked. It goes on where it was when the connection works again.
func TestAConnectionThatHangs(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	bucket := streamed(2)
	proxy := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	other, r := newReplica(t, env, env.Redis, bucket), newReplica(t, env, rdb, bucket)
	r.holds("the copy is complete", 1, 0)
	for i, fault := range []func(){proxy.Hold, proxy.Cut, func() { proxy.HoldReply("") }} {
		fault()
		composite := models.Composite(i + 1)
		if !other.raise(t.Context(), 1, composite) {
			t.Fatal("Redis did not respond")
		}
		acknowledged := time.Now()
		testenv.Eventually(t, "nothing is proven", func() bool {
			got, asOf, ok := r.held(1)
			if ok && asOf.After(acknowledged) && got[0] != composite {
				t.Fatalf("it has %d, want %d", got[0], composite)
			}
			return !ok
		})
		proxy.Release()
		if i == 1 {
			proxy.Start()
		}
		r.holds("it goes on", 1, composite)
	}
}

// After Redis was emptied, or a stream was trimmed beyond what was read, the copy is
// made again.
func TestALostStream(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	bucket := streamed(1)
	r := newReplica(t, env, env.Redis, bucket)
	r.holds("the copy is complete", 1, 0)
	r.raise(t.Context(), 1, 50)
	if err := env.Redis.Del(t.Context(), env.Keys.Board(bucket, 0), env.Keys.Changes(bucket.Board, 0)).Err(); err != nil {
		t.Fatal(err)
	}
	r.holds("Redis was emptied", 1, 0)
	r.raise(t.Context(), 1, 20)
	r.holds("a smaller composite is written", 1, 20)
	other := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	for composite := models.Composite(30); composite < 33; composite++ {
		if errs := other.Raise(t.Context(), []models.Raise{{Bucket: bucket, Entry: models.Entry{User: 1, Composite: composite}}}); errs != nil {
			t.Fatal(errs)
		}
		if err := env.Redis.XTrimMaxLen(t.Context(), env.Keys.Changes(bucket.Board, 0), 0).Err(); err != nil {
			t.Fatal(err)
		}
		r.equalsRedis("the stream was trimmed", 1)
	}
}

// A bucket that rankings.memory has no room for is read from Redis, and fits once
// another one has left.
func TestABucketWithoutRoom(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	large, small := streamed(1), streamed(1)
	small.Name = "20261121"
	var buckets atomic.Pointer[[]*models.Bucket]
	buckets.Store(&[]*models.Bucket{large, small})
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	cache := nearcache.New(nearcache.Options{
		Source: store, Changes: store.Changes(),
		Buckets:      func(time.Time) []*models.Bucket { return *buckets.Load() },
		MaxStaleness: bound, Memory: 1_100_000, Clock: env.Clock.Now, Log: env.Log,
	})
	store.NotifyWritten(cache.Written)
	testenv.Background(t, cache.Run)
	r := &replica{t, store, cache, large}
	other := &replica{t, store, cache, small}
	r.holds("the large bucket is held", 1, 0)
	r.raise(t.Context(), 1, 5)
	r.raise(t.Context(), 70_000, 5)
	r.holds("two pages fit", 70_000, 5)
	other.holds("the small bucket has no page yet", 1, 0)
	if room := cache.Room(); room >= 524_288 {
		t.Errorf("there is room for %d bytes", room)
	}
	other.raise(t.Context(), 1, 7)
	testenv.Eventually(t, "it has no room", func() bool { return cache.Stats().WithoutRoom.Load() == 1 })
	if _, _, ok := other.held(1); ok {
		t.Error("it is held all the same")
	}
	r.holds("the other one is still held", 70_000, 5)
	buckets.Store(&[]*models.Bucket{small})
	other.holds("it fits once the other one has left", 1, 7)
	if _, _, ok := r.held(1); ok {
		t.Error("the bucket that has left is still held")
	}
}

// Several processes write and read through connections that hang and break. No answer
// lacks what was acknowledged before the moment that it is proven for, and in the end
// all copies equal Redis.
func TestProcessesOverBadConnections(t *testing.T) {
	t.Parallel()
	const processes, users = 3, 40
	env := testenv.Real(t)
	bucket := streamed(2)
	var acknowledged [users + 1]sync.Map // composite to the time of its acknowledgement
	var running, faults sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var replicas []*replica
	var proven atomic.Int64
	for i := range processes {
		proxy := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
		rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: bound / 2, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		r := newReplica(t, env, rdb, bucket)
		replicas = append(replicas, r)
		random := rand.New(rand.NewPCG(uint64(i), 7))
		running.Go(func() {
			for composite := models.Composite(i + 1); composite < 6000; composite += processes {
				user := models.RowID(1 + int(composite)%users)
				if r.raise(ctx, user, composite) {
					acknowledged[user].Store(composite, time.Now())
				}
			}
		})
		running.Go(func() {
			for ctx.Err() == nil {
				user := models.RowID(1 + rand.IntN(users))
				got, asOf, ok := r.held(user)
				if !ok {
					runtime.Gosched()
					continue
				}
				proven.Add(1)
				acknowledged[user].Range(func(composite, at any) bool {
					if at.(time.Time).Before(asOf) && composite.(models.Composite) > got[0] {
						t.Errorf("user %d has %d, but %d was acknowledged %v before", user, got[0], composite, asOf.Sub(at.(time.Time)))
					}
					return true
				})
			}
		})
		faults.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(random.IntN(400)) * time.Millisecond):
				}
				switch random.IntN(3) {
				case 0:
					proxy.Cut()
					proxy.Start()
				case 1:
					proxy.Hold()
				default:
					proxy.Release()
				}
			}
			proxy.Release()
		})
	}
	testenv.Eventually(t, "there were enough answers", func() bool { return proven.Load() > 20_000 })
	cancel()
	testenv.Wait(t, "all that runs ends", &running)
	testenv.Wait(t, "the faults end", &faults)
	all := make([]models.RowID, users)
	for i := range all {
		all[i] = models.RowID(i + 1)
	}
	for _, r := range replicas {
		r.equalsRedis("a copy equals Redis", all...)
	}
}
