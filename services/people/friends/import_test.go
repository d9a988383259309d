package friends_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
)

// importModel is the friend graph of a few people, to which edges are added one after
// another. Counts begin anywhere, so that some people are almost full.
type importModel struct {
	counts            map[models.RowID]int
	friends, requests map[models.Edge]bool // both sides
}

func (m *importModel) add(edges []models.Edge) (added int, rejected []string) {
	for i, e := range edges {
		switch {
		case e.A == e.B:
			rejected = append(rejected, fmt.Sprintf("%d: nobody can be a friend of oneself", i))
		case m.friends[e]:
		case m.counts[e.A] >= models.MaxFriends:
			rejected = append(rejected, fmt.Sprintf("%d: user %v has %d friends already", i, e.A, models.MaxFriends))
		case m.counts[e.B] >= models.MaxFriends:
			rejected = append(rejected, fmt.Sprintf("%d: user %v has %d friends already", i, e.B, models.MaxFriends))
		default:
			added++
			for _, side := range []models.Edge{e, {A: e.B, B: e.A}} {
				m.friends[side] = true
				delete(m.requests, side)
				m.counts[side.A]++
			}
		}
	}
	return added, rejected
}

// stored returns what the database has of the people from..to.
func stored(t testing.TB, env *testenv.Env, from, to models.RowID) *importModel {
	t.Helper()
	m := &importModel{
		counts: make(map[models.RowID]int), friends: make(map[models.Edge]bool), requests: make(map[models.Edge]bool),
	}
	var users []models.User
	var rows []models.Friendship
	var requests []models.FriendRequest
	for _, table := range []any{&users, &rows, &requests} {
		if err := env.Gorm.Where("user_id BETWEEN ? AND ?", from, to).Find(table).Error; err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range users {
		m.counts[user.Row] = user.FriendCount
	}
	for _, row := range rows {
		m.friends[models.Edge{A: row.UserID, B: row.FriendID}] = true
	}
	for _, r := range requests {
		m.requests[models.Edge{A: r.UserID, B: r.OtherID}] = true
	}
	return m
}

// Imports, requests, removals and replacements of the same people run at the same time.
// None fails, and counts, both sides of all friendships, and cached sets agree.
func TestImportsAmongOtherChanges(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	service, ctx := newService(t, env), t.Context()
	const people = 40
	testenv.NumberUsers(t, env, people)
	anybody := func() models.RowID { return models.RowID(1 + rand.IntN(people)) }
	var working sync.WaitGroup
	work := func(times int, change func() error) {
		working.Go(func() {
			for range times {
				if err := change(); err != nil && models.CodeOf(err) != models.CodeValidationFailed {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		work(40, func() error {
			edges := make([]models.Edge, 100)
			for i := range edges {
				edges[i] = models.Edge{A: anybody(), B: anybody()}
			}
			_, _, err := service.Service.Import(ctx, edges)
			return err
		})
	}
	for range 3 {
		work(150, func() error {
			_, _, err := service.SendRequest(ctx, anybody(), anybody())
			return err
		})
		work(150, func() error { return service.Remove(ctx, anybody(), anybody()) })
		work(150, func() error {
			_, err := service.IDs(ctx, anybody())
			return err
		})
	}
	testenv.Wait(t, "the work ends", &working)
	graph := stored(t, env, 1, people)
	want := make(map[models.RowID][]models.RowID)
	for side := range graph.friends {
		want[side.A] = append(want[side.A], side.B)
		if graph.requests[side] {
			t.Errorf("friends %v have a request", side)
		}
	}
	checkGraph(t, env, service, want)
}

// A friendship that another change adds while the import waits for its users stays as it
// is, and the other edges are added.
func TestImportOfAFriendshipThatIsAddedMeanwhile(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	service, ctx := newService(t, env), t.Context()
	testenv.NumberUsers(t, env, 3)
	other := env.Gorm.Begin()
	defer other.Rollback()
	for _, statement := range []string{
		`UPDATE users SET friend_count = friend_count + 1 WHERE user_id IN (1, 2)`,
		`INSERT INTO friendships (user_id, friend_id, created_at) VALUES (1, 2, now()), (2, 1, now())`,
	} {
		if err := other.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	var added int
	var rejected []friends.Rejected
	var err error
	imported := testenv.Behind(t, env, other, 1, func() {
		added, rejected, err = service.Service.Import(ctx, []models.Edge{{A: 1, B: 2}, {A: 1, B: 3}})
	})
	if err := other.Commit().Error; err != nil {
		t.Fatal(err)
	}
	testenv.Receive(t, "the import ends", imported)
	if err != nil || added != 1 || len(rejected) != 0 {
		t.Errorf("%d added, rejected %v, %v", added, rejected, err)
	}
	checkGraph(t, env, service, map[models.RowID][]models.RowID{1: {2, 3}, 2: {1}, 3: {1}})
}

// Edges of a user who was erased after the rows were looked up are refused, and the
// others are added.
func TestImportOfAUserWhoIsGone(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, ctx := newService(t, env), t.Context()
		testenv.NumberUsers(t, env, 2)
		added, rejected, err := service.Service.Import(ctx, []models.Edge{{A: 3, B: 1}, {A: 1, B: 2}, {A: 2, B: 3}})
		if err != nil || added != 1 || len(rejected) != 2 || rejected[0].Index != 0 || rejected[1].Index != 2 {
			t.Fatalf("%d added, rejected %v, %v", added, rejected, err)
		}
		for _, r := range rejected {
			if models.CodeOf(r.Err) != models.CodeUserNotFound {
				t.Errorf("edge %d: %v", r.Index, r.Err)
			}
		}
		checkGraph(t, env, service, map[models.RowID][]models.RowID{1: {2}, 2: {1}})
	})
}

// An import removes the cached sets of its users, and no others, and leaves no mark.
func TestImportAndCachedSets(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	service, ctx := newService(t, env), t.Context()
	testenv.NumberUsers(t, env, 3)
	for user := models.RowID(1); user <= 3; user++ {
		sortedIDs(t, service, user)
	}
	if _, _, err := service.Service.Import(ctx, []models.Edge{{A: 1, B: 2}}); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[int64]int64{1: 0, 2: 0, 3: 1} {
		if n := env.Redis.Exists(ctx, env.Keys.Set(keys.Friends, user)).Val(); n != want {
			t.Errorf("user %d has %d sets, want %d", user, n, want)
		}
		if n := env.Redis.Exists(ctx, env.Keys.SetsChanging(keys.StripeOf(user))).Val(); n != 0 {
			t.Errorf("the stripe of user %d is marked", user)
		}
	}
	for user, want := range map[models.RowID][]models.RowID{1: {2}, 2: {1}, 3: nil} {
		if got := sortedIDs(t, service, user); !slices.Equal(got, want) {
			t.Errorf("user %v has friends %v, want %v", user, got, want)
		}
	}
}

// Imported friendships begin at the time of the import, on both sides. Those that exist
// keep their beginning.
func TestImportedFriendshipsBeginNow(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, ctx := newService(t, env), t.Context()
		testenv.NumberUsers(t, env, 3)
		first := env.Clock.Now()
		for _, edges := range [][]models.Edge{{{A: 2, B: 1}}, {{A: 1, B: 2}, {A: 3, B: 1}}} {
			if _, _, err := service.Service.Import(ctx, edges); err != nil {
				t.Fatal(err)
			}
			env.Clock.Advance(time.Minute)
		}
		for edge, want := range map[models.Edge]time.Time{
			{A: 1, B: 2}: first, {A: 2, B: 1}: first,
			{A: 1, B: 3}: first.Add(time.Minute), {A: 3, B: 1}: first.Add(time.Minute),
		} {
			got, _, err := service.Since(ctx, edge.A, edge.B)
			if err != nil || !got.Equal(want.Truncate(time.Microsecond)) {
				t.Errorf("friends %v since %v, %v, want %v", edge, got, err, want)
			}
		}
	})
}

// If it is unknown whether an import was committed, nobody's list is cached for an hour,
// but those of others are.
func TestAnImportOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	service, ctx := newService(t, env), t.Context()
	testenv.NumberUsers(t, env, 2+keys.Stripes)
	failCommits(t, env)
	if _, _, err := service.Service.Import(ctx, []models.Edge{{A: 1, B: 2}}); models.CodeOf(err) != models.CodeUnavailable {
		t.Fatalf("a commit of unknown outcome: %v", err)
	}
	for user := int64(1); user <= 2; user++ {
		if left := env.Redis.PTTL(ctx, env.Keys.SetChanging(keys.Friends, user)).Val(); left < 50*time.Minute {
			t.Errorf("the mark of user %d is left for %v", user, left)
		}
	}
	sortedIDs(t, service, 1)
	sortedIDs(t, service, 1+keys.Stripes) // of the same stripe
	if n := env.Redis.Exists(ctx, env.Keys.Set(keys.Friends, 1)).Val(); n != 0 {
		t.Error("the list of user 1 is cached")
	}
	if n := env.Redis.Exists(ctx, env.Keys.Set(keys.Friends, 1+keys.Stripes)).Val(); n != 1 {
		t.Error("the list of another user is not cached")
	}
}

// Edges between a user and the same user create nobody.
func TestResolve(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := newService(t, env)
		got, err := service.Resolve(t.Context(), []friends.Edge{{A: "7", B: "8"}, {A: "9", B: "9"}, {A: "8", B: "6"}})
		want := []models.Edge{{A: 7, B: 8}, {}, {A: 8, B: 6}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
		if users := stored(t, env, 1, 99).counts; len(users) != 3 {
			t.Errorf("users %v", users)
		}
	})
}
