package friends_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/friends"
)

// Without Redis lists are read from SQL, and changes are refused, because other
// replicas could not learn of them.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := newService(t, env)
		if err := service.Replace(t.Context(), 1, []models.RowID{2}); err != nil {
			t.Fatal(err)
		}
		if err := env.Redis.Close(); err != nil {
			t.Fatal(err)
		}
		if got := sortedIDs(t, service, 1); !slices.Equal(got, []models.RowID{2}) {
			t.Errorf("friends %v", got)
		}
		if err := service.Remove(t.Context(), 1, 2); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("a change: %v", err)
		}
		if got := sortedIDs(t, service, 1); !slices.Equal(got, []models.RowID{2}) {
			t.Errorf("the refused change left %v", got)
		}
	})
}

// Without Postgres lists that are in Redis are still returned.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := newService(t, env)
		if err := service.Replace(t.Context(), 1, []models.RowID{2}); err != nil {
			t.Fatal(err)
		}
		sortedIDs(t, service, 1)
		if err := env.SQL.Close(); err != nil {
			t.Fatal(err)
		}
		if got := sortedIDs(t, service, 1); !slices.Equal(got, []models.RowID{2}) {
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
	for n, user := range map[int]models.RowID{0: 1, 1: 2, 200: 3, models.MaxFriends: 4} {
		list := make([]models.RowID, n)
		for i := range list {
			list[i] = models.RowID(100_000*int(user) + i)
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

// A change whose commit outlasts its marks leaves sets from before it. Sending the
// change again removes them, although it finds nothing to change.
func TestARepeatedChangeRemovesStaleSets(t *testing.T) {
	t.Parallel()
	const user, other, nobody = models.RowID(1), models.RowID(2), models.RowID(0)
	for _, tt := range []struct {
		name    string
		friends bool // after the change
		change  func(context.Context, *friends.Service) error
	}{
		{"remove", false, func(ctx context.Context, s *friends.Service) error { return s.Remove(ctx, user, other) }},
		{"accept", true, func(ctx context.Context, s *friends.Service) error { return s.Accept(ctx, user, other) }},
		{"request", true, func(ctx context.Context, s *friends.Service) error {
			_, _, err := s.SendRequest(ctx, user, other)
			return err
		}},
		{"replace", true, func(ctx context.Context, s *friends.Service) error {
			return s.Replace(ctx, user, []models.RowID{other})
		}},
		{"replace by nobody", false, func(ctx context.Context, s *friends.Service) error { return s.Replace(ctx, user, nil) }},
		{"import", true, func(ctx context.Context, s *friends.Service) error {
			_, _, err := s.Import(ctx, []models.Edge{{A: user, B: other}})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testenv.Each(t, func(t *testing.T, env *testenv.Env) {
				service, ctx := newService(t, env), t.Context()
				lists := map[models.RowID][]models.RowID{user: {}, other: {}}
				stale := map[models.RowID]models.RowID{user: other, other: user}
				if tt.friends {
					lists = map[models.RowID][]models.RowID{user: {other}, other: {user}}
					stale = map[models.RowID]models.RowID{user: nobody, other: nobody}
				}
				if err := service.Replace(ctx, user, lists[user]); err != nil {
					t.Fatal(err)
				}
				if tt.name == "replace by nobody" {
					delete(lists, other) // an empty list does not say who was on it
				}
				for id, member := range stale {
					if err := env.Redis.SAdd(ctx, env.Keys.Friends(id), int64(member)).Err(); err != nil {
						t.Fatal(err)
					}
				}
				if err := tt.change(ctx, service); err != nil {
					t.Fatal(err)
				}
				for id, want := range lists {
					if got := sortedIDs(t, service, id); !slices.Equal(got, want) {
						t.Errorf("user %v has friends %v, want %v", id, got, want)
					}
				}
			})
		})
	}
}
