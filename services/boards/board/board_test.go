package board_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// drawUser prefers ids whose texts are prefixes of each other: equal composites
// are ordered by the texts.
func drawUser(t *rapid.T) models.RowID {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(1, 150), func(n int64) models.RowID { return models.RowID(n) }),
		rapid.SampledFrom([]models.RowID{10, 100, 1000, 10_000, 9, 99, 999, 1<<20 - 1, 1 << 20}),
	).Draw(t, "user")
}

// drawComposite prefers few values, so that many users tie, and the extremes.
func drawComposite(t *rapid.T) models.Composite {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(1, 4), func(n int64) models.Composite { return models.Composite(n) }),
		rapid.SampledFrom([]models.Composite{1<<53 - 1, 1<<53 - 2, 1<<28 - 1, 1 << 28}),
	).Draw(t, "composite")
}

// model holds the entries that a bucket should have.
type model map[models.RowID]models.Composite

func (m model) raise(e models.Entry) { m[e.User] = max(m[e.User], e.Composite) }

func (m model) ranked() []models.Entry {
	entries := make([]models.Entry, 0, len(m))
	for user, composite := range m {
		entries = append(entries, models.Entry{User: user, Composite: composite})
	}
	slices.SortFunc(entries, models.Entry.Compare)
	return entries
}

// window returns the result that Window should return.
func (m model) window(at models.Entry, back, forward int) board.Window {
	ranked := m.ranked()
	before, _ := slices.BinarySearchFunc(ranked, at, models.Entry.Compare)
	return board.Window{
		Total:  int64(len(ranked)),
		Before: int64(before),
		Ahead:  ranked[max(0, before-back):before],
		Behind: ranked[before:min(len(ranked), before+forward)],
	}
}

// After random updates, in any batches and any order, on any number of shards,
// the store returns what a sorted list would.
func TestBucketsAgreeWithASortedList(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, env *testenv.Env, open opener) {
		store := open(env.Clock.Now)
		ctx := t.Context()
		round := 0
		rapid.Check(t, func(t *rapid.T) {
			round++
			bucket := testenv.Bucket(rapid.SampledFrom([]int{1, 3, 16}).Draw(t, "shards"))
			bucket.Name = fmt.Sprintf("round%d", round)
			want := model{}
			for range rapid.IntRange(1, 4).Draw(t, "batches") {
				raises := make([]models.Raise, rapid.IntRange(0, 40).Draw(t, "batch"))
				for i := range raises {
					raises[i] = models.Raise{Bucket: bucket, Entry: models.Entry{User: drawUser(t), Composite: drawComposite(t)}}
					want.raise(raises[i].Entry)
				}
				for range rapid.IntRange(1, 2).Draw(t, "times") { // a replay changes nothing
					if errs := store.Raise(ctx, raises); errs != nil {
						t.Fatal(errs)
					}
				}
			}
			checkComposites(ctx, t, store, bucket, want)
			empty := testenv.Bucket(3)
			empty.Name = bucket.Name + "x"
			counts, err := store.Counts(ctx, []*models.Bucket{bucket, empty, bucket})
			if n := int64(len(want)); err != nil || !slices.Equal(counts, []int64{n, 0, n}) {
				t.Fatalf("counts %v, %v, want %d", counts, err, n)
			}
			for range 4 {
				at := models.Entry{User: drawUser(t), Composite: drawComposite(t)}
				if rapid.Bool().Draw(t, "from the top") {
					at = board.Top
				} else if ranked := want.ranked(); len(ranked) > 0 && rapid.Bool().Draw(t, "at an entry") {
					at = rapid.SampledFrom(ranked).Draw(t, "at")
				}
				back, forward := rapid.IntRange(0, 12).Draw(t, "back"), rapid.IntRange(0, 12).Draw(t, "forward")
				got, err := store.Window(ctx, bucket, at, back, forward)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.window(at, back, forward), got, emptyAsNil()); diff != "" {
					t.Fatalf("window of %d and %d around %v:\n%s", back, forward, at, diff)
				}
			}
		})
	})
}

func emptyAsNil() cmp.Option {
	return cmp.Transformer("entries", func(list []models.Entry) string { return fmt.Sprint(list) })
}

func checkComposites(ctx context.Context, t *rapid.T, store board.Reader, bucket *models.Bucket, want model) {
	users := rapid.SliceOfN(rapid.Custom(drawUser), 0, 30).Draw(t, "users")
	got, err := store.Composites(ctx, bucket, users)
	if err != nil {
		t.Fatal(err)
	}
	for i, user := range users {
		if got[i] != want[user] {
			t.Fatalf("user %v has %d, want %d", user, got[i], want[user])
		}
	}
}

// A binary search finds a position among very many users with the same
// composite.
func TestWindowAmongManyTies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, env *testenv.Env, open opener) {
		store := open(env.Clock.Now)
		for _, shards := range []int{1, 3} {
			bucket := testenv.Bucket(shards)
			bucket.Name = fmt.Sprintf("ties%d", shards)
			want := model{}
			var raises []models.Raise
			for user := models.RowID(1); user <= 3000; user++ {
				e := models.Entry{User: user, Composite: 77}
				want.raise(e)
				raises = append(raises, models.Raise{Bucket: bucket, Entry: e})
			}
			if errs := store.Raise(t.Context(), raises); errs != nil {
				t.Fatal(errs)
			}
			for _, user := range []models.RowID{1, 9, 10, 999, 1000, 2999, 3000, 3001, 5, 99_999} {
				at := models.Entry{User: user, Composite: 77}
				got, err := store.Window(t.Context(), bucket, at, 3, 3)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.window(at, 3, 3), got, emptyAsNil()); diff != "" {
					t.Errorf("%d shards, user %v:\n%s", shards, user, diff)
				}
			}
		}
	})
}

// If one shard fails, only its updates get an error.
func TestRaiseReportsWhatFailed(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	bucket := testenv.Bucket(2)
	// Shard 1 is no sorted set: updates of odd users fail.
	if err := env.Redis.Set(t.Context(), env.Keys.Board(bucket, 1), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	raises := make([]models.Raise, 4)
	for i := range raises {
		raises[i] = models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(i + 1), Composite: 5}}
	}
	errs := store.Raise(t.Context(), raises)
	for i, err := range errs {
		odd := raises[i].User%2 == 1
		if odd != (models.CodeOf(err) == models.CodeUnavailable) || odd != (err != nil) {
			t.Errorf("user %v: %v", raises[i].User, err)
		}
	}
	members, err := env.Redis.ZRange(t.Context(), env.Keys.Board(bucket, 0), 0, -1).Result()
	if err != nil || !slices.Equal(members, []string{"2", "4"}) {
		t.Errorf("shard 0 holds %v, %v", members, err)
	}
}

// A batch costs one round trip and one command for each key. Scores and windows
// cost one round trip.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	counter := &testenv.RoundTrips{}
	env.Redis.AddHook(counter)
	store := board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	for _, shards := range []int{1, 4} {
		bucket := testenv.Bucket(shards)
		bucket.Name = fmt.Sprintf("trips%d", shards)
		var raises []models.Raise
		var users []models.RowID
		for user := models.RowID(1); user <= 100; user++ {
			users = append(users, user)
			raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: user, Composite: 9}})
		}
		check := func(what string, commands int, do func() error) {
			t.Helper()
			for range 2 { // the first time may connect
				counter.Reset()
				if err := do(); err != nil {
					t.Fatal(err)
				}
			}
			if counter.Trips() != 1 || counter.Commands() != commands {
				t.Errorf("%s on %d shards: %d round trips and %d commands, want 1 and %d", what, shards, counter.Trips(), counter.Commands(), commands)
			}
		}
		check("raise", shards, func() error {
			if errs := store.Raise(t.Context(), raises); errs != nil {
				return errs[0]
			}
			return nil
		})
		check("composites", shards, func() error {
			_, err := store.Composites(t.Context(), bucket, users)
			return err
		})
		check("composites of seven buckets", 7*shards, func() error {
			_, err := store.CompositesOf(t.Context(), slices.Repeat([]*models.Bucket{bucket}, 7), users)
			return err
		})
		check("window", shards, func() error {
			_, err := store.Window(t.Context(), bucket, board.Top, 0, 10)
			return err
		})
	}
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}()
	store := board.NewStore(rdb, keys.Builder{}, time.Now, nil)
	bucket := testenv.Bucket(1)
	entry := models.Entry{User: 1, Composite: 1}
	if errs := store.Raise(t.Context(), []models.Raise{{Bucket: bucket, Entry: entry}}); models.CodeOf(errs[0]) != models.CodeUnavailable {
		t.Errorf("raise: %v", errs)
	}
	if _, err := store.Composites(t.Context(), bucket, []models.RowID{1}); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("composites: %v", err)
	}
	if _, err := store.Window(t.Context(), bucket, board.Top, 0, 1); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("window: %v", err)
	}
	if _, err := store.Counts(t.Context(), []*models.Bucket{bucket}); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("counts: %v", err)
	}
}
