package friends_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// Without Redis lists are read from SQL, and changes are refused, because other
// replicas could not learn of them.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := newService(t, env)
		if err := service.Replace(t.Context(), 1, []models.UserID{2}); err != nil {
			t.Fatal(err)
		}
		if err := env.Redis.Close(); err != nil {
			t.Fatal(err)
		}
		if got := sortedIDs(t, service, 1); !slices.Equal(got, []models.UserID{2}) {
			t.Errorf("friends %v", got)
		}
		if err := service.Remove(t.Context(), 1, 2); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("a change: %v", err)
		}
		if got := sortedIDs(t, service, 1); !slices.Equal(got, []models.UserID{2}) {
			t.Errorf("the refused change left %v", got)
		}
	})
}

// Without Postgres lists that are in Redis are still returned.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := newService(t, env)
		if err := service.Replace(t.Context(), 1, []models.UserID{2}); err != nil {
			t.Fatal(err)
		}
		sortedIDs(t, service, 1)
		if err := env.SQL.Close(); err != nil {
			t.Fatal(err)
		}
		if got := sortedIDs(t, service, 1); !slices.Equal(got, []models.UserID{2}) {
			t.Errorf("friends %v", got)
		}
		if _, err := service.IDs(t.Context(), 2); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("a list that is not in Redis: %v", err)
		}
	})
}

// A set costs one round trip, has Redis's compact encoding at any size, and
// also stores that a list is empty.
func TestTheSetInRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	service, ctx := newService(t, env), t.Context()
	for n, user := range map[int]models.UserID{0: 1, 1: 2, 200: 3, models.MaxFriends: 4} {
		list := make([]models.UserID, n)
		for i := range list {
			list[i] = models.UserID(100_000*int(user) + i)
		}
		if err := service.Replace(ctx, user, list); err != nil {
			t.Fatal(err)
		}
		if got := sortedIDs(t, service, user); !slices.Equal(got, list) {
			t.Errorf("loaded %d friends, want %d", len(got), n)
		}
		key := env.Keys.Friends(user)
		if encoding := env.Redis.ObjectEncoding(ctx, key).Val(); encoding != "intset" {
			t.Errorf("%d friends are kept as %s", n, encoding)
		}
		if ttl := env.Redis.PTTL(ctx, key).Val(); ttl <= 50*time.Minute || ttl > time.Hour {
			t.Errorf("%d friends are kept for %v", n, ttl)
		}
		counter := &testenv.RoundTrips{}
		env.Redis.AddHook(counter)
		if got := sortedIDs(t, service, user); !slices.Equal(got, list) {
			t.Errorf("read %d friends, want %d", len(got), n)
		}
		if counter.Trips() != 1 {
			t.Errorf("%d friends cost %d round trips", n, counter.Trips())
		}
	}
	if n := fmt.Sprint(env.Redis.Exists(ctx, env.Keys.FriendsLoading(1)).Val()); n != "0" {
		t.Error("a reader's token was left behind")
	}
}
