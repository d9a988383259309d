package friends_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/people/friends"
	"stepboard/services/people/privacy"
	"stepboard/services/servicetest"
)

// numbered is a service whose users are named by their rows. Their user ids are the
// decimal texts of these.
type numbered struct {
	*friends.Service

	sets cache.Copies
}

func newService(t testing.TB, env *testenv.Env) numbered {
	t.Helper()
	return newServiceOn(env, servicetest.Sets(env))
}

func newServiceOn(env *testenv.Env, sets cache.Copies) numbered {
	return limited(env, sets, friends.Limits{Pending: 1000, PerDay: 1000})
}

func limited(env *testenv.Env, sets cache.Copies, limits friends.Limits) numbered {
	return numbered{friends.New(friends.NewStore(env.Gorm, nil), sets, testenv.Numbers{DB: env.Gorm}, limits, env.Log), sets}
}

// newPrivacy returns the privacy of a service's users.
func newPrivacy(env *testenv.Env, s numbered) *privacy.Service {
	return privacy.New(privacy.NewStore(env.Gorm), s.sets, s.Service, testenv.Numbers{DB: env.Gorm}, 0, env.Log)
}

func (s numbered) SendRequest(ctx context.Context, from, to models.RowID) (friends.Status, bool, error) {
	return s.Service.SendRequest(ctx, testenv.ID(from), testenv.ID(to))
}

func (s numbered) Accept(ctx context.Context, user, other models.RowID) error {
	return s.Service.Accept(ctx, testenv.ID(user), testenv.ID(other))
}

func (s numbered) Decline(ctx context.Context, user, other models.RowID) error {
	return s.Service.Decline(ctx, testenv.ID(user), testenv.ID(other))
}

func (s numbered) Remove(ctx context.Context, user, other models.RowID) error {
	return s.Service.Remove(ctx, testenv.ID(user), testenv.ID(other))
}

func (s numbered) Replace(ctx context.Context, user models.RowID, list []models.RowID) error {
	return s.Service.Replace(ctx, testenv.ID(user), testenv.IDs(list...))
}

func (s numbered) List(ctx context.Context, user, after models.RowID, limit int) ([]friends.Friend, error) {
	return s.Service.List(ctx, testenv.ID(user), after, limit)
}

func (s numbered) Requests(
	ctx context.Context, user models.RowID, after models.Cursor, limit int,
) ([]friends.Request, error) {
	return s.Service.Requests(ctx, testenv.ID(user), after, limit)
}

func (s numbered) Import(ctx context.Context, edges []models.Edge) (int, []friends.Rejected, error) {
	list := make([]friends.Edge, len(edges))
	for i, e := range edges {
		list[i] = friends.Edge{A: testenv.ID(e.A), B: testenv.ID(e.B)}
	}
	rows, err := s.Resolve(ctx, list)
	if err != nil {
		return 0, nil, err
	}
	return s.Service.Import(ctx, rows)
}

// exist creates users.
func exist(t testing.TB, env *testenv.Env, rows ...models.RowID) {
	t.Helper()
	testenv.Must(testenv.Numbers{DB: env.Gorm}.Ensure(t.Context(), testenv.IDs(rows...)...))
	for _, row := range rows {
		if err := env.Gorm.Table("users").Where("user_id = ?", row).Update("nickname", "user "+row.String()).Error; err != nil {
			t.Fatal(err)
		}
	}
}

func sortedIDs(t testing.TB, service numbered, user models.RowID) []models.RowID {
	t.Helper()
	ids, err := service.IDs(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

// checkGraph compares the stored graph with the expected friends of each user:
// both sides, the counts, and the lists that are returned.
func checkGraph(t testing.TB, env *testenv.Env, service numbered, want map[models.RowID][]models.RowID) {
	t.Helper()
	var rows []models.User
	if err := env.Gorm.Find(&rows).Error; err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		expected := slices.Clone(want[row.Row])
		slices.Sort(expected)
		if got := sortedIDs(t, service, row.Row); !slices.Equal(got, expected) {
			t.Errorf("user %v has friends %v, want %v", row.Row, got, expected)
		}
		if row.FriendCount != len(expected) {
			t.Errorf("user %v counts %d friends, want %d", row.Row, row.FriendCount, len(expected))
		}
		for _, friend := range expected {
			if !slices.Contains(want[friend], row.Row) {
				t.Fatalf("the test expects one half of a friendship: %v and %v", row.Row, friend)
			}
		}
	}
}

func TestSendRequestRefuses(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := newService(t, env)
		exist(t, env, 1)
		if _, _, err := service.SendRequest(t.Context(), 1, 1); models.CodeOf(err) != models.CodeValidationFailed {
			t.Errorf("oneself: %v", err)
		}
		if _, _, err := service.SendRequest(t.Context(), 1, 99); models.CodeOf(err) != models.CodeUserNotFound {
			t.Errorf("nobody: %v", err)
		}
		// Sending a request creates the sender, so that others can answer.
		if _, _, err := service.SendRequest(t.Context(), 77, 1); err != nil {
			t.Error(err)
		}
		if err := service.Accept(t.Context(), 1, 77); err != nil {
			t.Error(err)
		}
	})
}

func TestFriendLimit(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, ctx := newService(t, env), t.Context()
		full := make([]models.RowID, models.MaxFriends)
		for i := range full {
			full[i] = models.RowID(10_000 + i)
		}
		// Some at a time: all at once takes a data folder nearly as long as a
		// change may take.
		for some := range slices.Chunk(full, 250) {
			edges := make([]models.Edge, len(some))
			for i, friend := range some {
				edges[i] = models.Edge{A: 1, B: friend}
			}
			if added, rejected, err := service.Import(ctx, edges); err != nil || added != len(some) || len(rejected) > 0 {
				t.Fatal(added, rejected, err)
			}
		}
		if err := service.Replace(ctx, 1, full); err != nil {
			t.Fatal(err)
		}
		if got := sortedIDs(t, service, 1); !slices.Equal(got, full) {
			t.Fatalf("%d friends, want %d", len(got), len(full))
		}
		exist(t, env, 2)
		if _, _, err := service.SendRequest(ctx, 1, 2); models.CodeOf(err) != models.CodeFriendLimit {
			t.Errorf("a full user asks: %v", err)
		}
		if _, _, err := service.SendRequest(ctx, 2, 1); models.CodeOf(err) != models.CodeFriendLimit {
			t.Errorf("a full user is asked: %v", err)
		}
		if err := service.Replace(ctx, 2, []models.RowID{1, 3}); models.CodeOf(err) != models.CodeFriendLimit {
			t.Errorf("a list with a full user: %v", err)
		}
		if got := sortedIDs(t, service, 2); len(got) != 0 {
			t.Errorf("the refused list left %v", got)
		}
		if err := service.Replace(ctx, 2, append(full, 3)); models.CodeOf(err) != models.CodeFriendLimit {
			t.Errorf("a list too long: %v", err)
		}
		added, rejected, err := service.Import(ctx, []models.Edge{{A: 2, B: 3}, {A: 1, B: 4}, {A: 10_000, B: 1}, {A: 5, B: 5}})
		if err != nil || added != 1 {
			t.Errorf("import: %d added, %v", added, err)
		}
		slices.SortFunc(rejected, func(a, b friends.Rejected) int { return a.Index - b.Index })
		if len(rejected) != 2 || rejected[0].Index != 1 || models.CodeOf(rejected[0].Err) != models.CodeFriendLimit || rejected[1].Index != 3 {
			t.Errorf("rejected %v", rejected)
		}
		// A place that is freed can be taken; accepting finds the limit too.
		if err := service.Remove(ctx, 1, 10_000); err != nil {
			t.Fatal(err)
		}
		for _, other := range []models.RowID{2, 3} {
			if _, _, err := service.SendRequest(ctx, other, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := service.Accept(ctx, 1, 2); err != nil {
			t.Error(err)
		}
		if err := service.Accept(ctx, 1, 3); models.CodeOf(err) != models.CodeFriendLimit {
			t.Errorf("accepting one too many: %v", err)
		}
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, ctx := newService(t, env), t.Context()
		var others []models.RowID
		for id := models.RowID(2); id <= 12; id++ {
			others = append(others, id)
		}
		exist(t, env, others...)
		for _, id := range others {
			env.Clock.Advance(time.Millisecond)
			if _, _, err := service.SendRequest(ctx, id, 2+(id-1)%11); err != nil {
				t.Fatal(err)
			}
		}
		exist(t, env, 1)
		for i, id := range others {
			if i%3 != 0 { // some of them at the same moment
				env.Clock.Advance(time.Millisecond)
			}
			if _, _, err := service.SendRequest(ctx, id, 1); err != nil {
				t.Fatal(err)
			}
		}
		var seen []models.RowID
		var position models.Cursor
		for {
			page, err := service.Requests(ctx, 1, position, 4)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				if !r.Incoming || r.Nickname != "user "+r.Row.String() || r.User != testenv.ID(r.Row) {
					t.Errorf("request %+v", r)
				}
				seen = append(seen, r.Row)
				position = r.Cursor()
			}
		}
		slices.Reverse(seen)
		if !slices.Equal(seen, others) {
			t.Errorf("requests, oldest first: %v, want %v", seen, others)
		}

		if err := service.Replace(ctx, 1, others); err != nil {
			t.Fatal(err)
		}
		seen = nil
		var after models.RowID
		for {
			page, err := service.List(ctx, 1, after, 4)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, f := range page {
				seen, after = append(seen, f.Row), f.Row
			}
		}
		if !slices.Equal(seen, others) {
			t.Errorf("friends %v, want %v", seen, others)
		}
	})
}

// Two users who change their friendship at the same time neither deadlock nor
// end with half a friendship.
func TestConcurrentChangesOfAPair(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service, ctx := newService(t, env), t.Context()
		exist(t, env, 1, 2, 3, 4)
		var wg sync.WaitGroup
		do := func(change func() error) {
			wg.Go(func() {
				for range 15 {
					if err := change(); err != nil && models.CodeOf(err) != models.CodeNotFound {
						t.Error(err)
					}
				}
			})
		}
		for _, p := range []models.Edge{{A: 1, B: 2}, {A: 2, B: 1}, {A: 2, B: 3}, {A: 3, B: 1}} {
			do(func() error { _, _, err := service.SendRequest(ctx, p.A, p.B); return err })
			do(func() error { return service.Accept(ctx, p.A, p.B) })
			do(func() error { return service.Remove(ctx, p.A, p.B) })
			do(func() error {
				err := service.Replace(ctx, p.A, []models.RowID{p.B, 4})
				if models.CodeOf(err) == models.CodeUnavailable {
					return nil // it gives up on a list that never holds still
				}
				return err
			})
		}
		testenv.Wait(t, "the calls end", &wg)
		var links []models.Friendship
		if err := env.Gorm.Find(&links).Error; err != nil {
			t.Fatal(err)
		}
		want := make(map[models.RowID][]models.RowID)
		for _, link := range links {
			want[link.UserID] = append(want[link.UserID], link.FriendID)
		}
		checkGraph(t, env, service, want)
	})
}
