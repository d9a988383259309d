package friends_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// Without Redis lists are read from SQL, and changes are refused, because other
// replicas could not learn of them.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
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
}

// Without SQL lists of which there are copies are still returned.
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
			t.Errorf("a list without a copy: %v", err)
		}
	})
}

// A change whose commit outlasts its marks leaves sets from before it. Sending the
// change again removes them, although it finds nothing to change.
func TestARepeatedChangeRemovesStaleSets(t *testing.T) {
	t.Parallel()
	const user, other, nobody = models.RowID(1), models.RowID(2), models.RowID(99)
	for _, tt := range []struct {
		name    string
		friends bool // after the change
		change  func(context.Context, numbered) error
	}{
		{"remove", false, func(ctx context.Context, s numbered) error { return s.Remove(ctx, user, other) }},
		{"accept", true, func(ctx context.Context, s numbered) error { return s.Accept(ctx, user, other) }},
		{"request", true, func(ctx context.Context, s numbered) error {
			_, _, err := s.SendRequest(ctx, user, other)
			return err
		}},
		{"replace", true, func(ctx context.Context, s numbered) error {
			return s.Replace(ctx, user, []models.RowID{other})
		}},
		{"replace by nobody", false, func(ctx context.Context, s numbered) error { return s.Replace(ctx, user, nil) }},
		{"import", true, func(ctx context.Context, s numbered) error {
			_, _, err := s.Import(ctx, []models.Edge{{A: user, B: other}})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := testenv.Real(t)
			service, ctx := newService(t, env), t.Context()
			exist(t, env, user, other)
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
				storeSet(t, env, id, member)
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
	}
}

// storeSet stores a friend set with one member, of the current generation.
func storeSet(t *testing.T, env *testenv.Env, user, member models.RowID) {
	t.Helper()
	sortedIDs(t, newService(t, env), user) // now there is a generation
	key := env.Keys.Set(keys.Friends, int64(user))
	generation := env.Redis.Get(t.Context(), env.Keys.SetsGeneration(keys.StripeOf(int64(user)))).Val()
	if err := env.Redis.Del(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	if err := env.Redis.SAdd(t.Context(), key, "-"+generation, int64(member)).Err(); err != nil {
		t.Fatal(err)
	}
	if got := sortedIDs(t, newService(t, env), user); !slices.Equal(got, []models.RowID{member}) {
		t.Fatalf("the set in Redis is read as %v", got)
	}
}

// If the outcome of a commit is unknown, the copies of everybody whom the change
// concerns stay out of use for as long as a copy would be believed, those of lost
// friends included.
func TestAChangeOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	service, ctx := newService(t, env), t.Context()
	if err := service.Replace(ctx, 1, []models.RowID{2}); err != nil {
		t.Fatal(err)
	}
	failCommits(t, env)
	if err := service.Replace(ctx, 1, []models.RowID{3}); models.CodeOf(err) != models.CodeUnavailable {
		t.Fatalf("a commit of unknown outcome: %v", err)
	}
	for user := int64(1); user <= 3; user++ {
		left := env.Redis.PTTL(ctx, env.Keys.SetChanging(keys.Friends, user)).Val()
		if left < 50*time.Minute {
			t.Errorf("the mark of user %d is left for %v", user, left)
		}
	}
	if got := sortedIDs(t, service, 2); !slices.Equal(got, []models.RowID{1}) {
		t.Errorf("user 2 has friends %v", got)
	}
	if n := env.Redis.Exists(ctx, env.Keys.Set(keys.Friends, 2)).Val(); n != 0 {
		t.Error("a set was stored")
	}
}

// failCommits makes commits fail that add friendships. A commit that fails is, to the
// service, one whose outcome it does not know.
func failCommits(t *testing.T, env *testenv.Env) {
	t.Helper()
	for _, statement := range []string{
		`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'at the commit'; END $$`,
		`CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON friendships DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`,
	} {
		if err := env.Gorm.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
}
