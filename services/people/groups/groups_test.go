package groups_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/codes"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/privacy"
	"stepboard/services/people/teams"
	"stepboard/services/servicetest"
)

// fixture is a service whose users are named by their rows: their ids are the decimal
// texts of these.
type fixture struct {
	*groups.Service

	t       testing.TB
	env     *testenv.Env
	privacy *privacy.Service
}

// free lets everybody try any number of codes.
type free struct{}

func (free) TakeJoin(context.Context, models.UserID) error { return nil }

func newFixture(t testing.TB, env *testenv.Env) *fixture {
	t.Helper()
	sets := servicetest.Sets(env)
	hiding := newPrivacy(env, sets)
	return &fixture{newService(env, sets, hiding, free{}), t, env, hiding}
}

// newProcess returns the service of another process.
func newProcess(env *testenv.Env, joins codes.Limiter) *groups.Service {
	sets := servicetest.Sets(env)
	return newService(env, sets, newPrivacy(env, sets), joins)
}

func newService(env *testenv.Env, sets cache.Copies, hiding *privacy.Service, joins codes.Limiter) *groups.Service {
	return groups.New(groups.NewStore(env.Gorm, teams.NewStore(env.Gorm, nil)), sets, hiding.Sets(), testenv.Numbers{DB: env.Gorm}, joins, env.Log)
}

func newPrivacy(env *testenv.Env, sets cache.Copies) *privacy.Service {
	users := testenv.Numbers{DB: env.Gorm}
	graph := friends.New(friends.NewStore(env.Gorm, nil), sets, users, friends.Limits{}, env.Log)
	return privacy.New(privacy.NewStore(env.Gorm), sets, graph, users, 0, env.Log)
}

// create makes a group with an owner and further members, who join in this order.
func (f *fixture) create(owner models.UserID, members ...models.UserID) groups.Group {
	f.t.Helper()
	group, err := f.Create(f.t.Context(), owner, groups.Settings{Name: "Family"})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range members {
		f.env.Clock.Advance(time.Second)
		if group, err = f.Join(f.t.Context(), m, *group.InviteCode); err != nil {
			f.t.Fatal(err)
		}
	}
	return group
}

// check compares the owner and the members of a group, as one of them sees it and as
// rankings read it.
func (f *fixture) check(what string, viewer models.UserID, id models.GroupID, owner models.UserID, members ...models.RowID) {
	f.t.Helper()
	group, err := f.Get(f.t.Context(), viewer, id)
	if err != nil {
		f.t.Errorf("%s: %v", what, err)
		return
	}
	page := testenv.Must(f.Members(f.t.Context(), group.Row, 0, 1000))
	listed := make([]models.RowID, len(page))
	for i, m := range page {
		listed[i] = m.Row
	}
	row := testenv.Must(testenv.Numbers{}.FindOne(f.t.Context(), viewer))
	ranked := testenv.Must(f.IDs(f.t.Context(), id, row))
	slices.Sort(ranked)
	if group.Owner != owner || group.Members != len(members) || !slices.Equal(listed, members) || !slices.Equal(ranked, members) {
		f.t.Errorf("%s: owner %s, %d members: %v, ranked %v, want owner %s and %v", what, group.Owner, group.Members, listed, ranked, owner, members)
	}
}

// refused checks the code of an error.
func (f *fixture) refused(what string, err error, code models.Code) {
	f.t.Helper()
	if models.CodeOf(err) != code {
		f.t.Errorf("%s: %v, want %s", what, err, code)
	}
}

func TestALifeOfAGroup(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		group := f.create("1", "3", "2")
		id, code := group.ID, *group.InviteCode
		f.check("joined", "2", id, "1", 1, 2, 3)
		if _, err := f.Join(ctx, "2", code); err != nil {
			t.Errorf("joining again: %v", err)
		}
		f.check("joined again", "3", id, "1", 1, 2, 3)
		_, err := f.Get(ctx, "4", id)
		f.refused("a stranger looks", err, models.CodeNotFound)
		_, err = f.IDs(ctx, id, 4)
		f.refused("a stranger ranks", err, models.CodeNotFound)
		_, err = f.IDs(ctx, id, 0)
		f.refused("nobody ranks", err, models.CodeNotFound)
		_, err = f.Join(ctx, "4", "AAAABBBBCCCCDDDD")
		f.refused("a wrong code", err, models.CodeNotFound)
		_, err = f.Change(ctx, "2", id, groups.Settings{Name: "Mine"})
		f.refused("a member renames", err, models.CodeForbidden)
		_, err = f.Renew(ctx, "4", id)
		f.refused("a stranger renews", err, models.CodeNotFound)
		f.refused("a member ends the group", f.Delete(ctx, "3", id), models.CodeForbidden)
		f.refused("a member removes another", f.Remove(ctx, "3", id, "2"), models.CodeForbidden)
		f.refused("a stranger removes a member", f.Remove(ctx, "4", id, "2"), models.CodeNotFound)

		renamed, err := f.Change(ctx, "1", id, groups.Settings{Name: "\u00a0Cafe\u0301 "})
		if err != nil || renamed.Name != "Caf\u00e9" || *renamed.InviteCode != code {
			t.Errorf("renamed: %+v, %v", renamed, err)
		}
		_, err = f.Change(ctx, "1", id, groups.Settings{Name: "\u200b"})
		f.refused("an invisible name", err, models.CodeValidationFailed)
		_, err = f.Create(ctx, "1", groups.Settings{})
		f.refused("no name", err, models.CodeValidationFailed)

		f.refused("the owner leaves", f.Remove(ctx, "1", id, "1"), "")
		f.check("the owner has left", "2", id, "3", 2, 3)
		f.refused("the owner leaves again", f.Remove(ctx, "1", id, "1"), "")
		f.refused("a stranger ends the group", f.Delete(ctx, "1", id), "")
		f.check("nothing has changed", "2", id, "3", 2, 3)
		f.refused("the next owner ends it", f.Delete(ctx, "3", id), "")
		f.refused("and again", f.Delete(ctx, "3", id), "")
		_, err = f.IDs(ctx, id, 2)
		f.refused("a group that has ended", err, models.CodeNotFound)
		_, err = f.Join(ctx, "2", code)
		f.refused("its code", err, models.CodeNotFound)
	})
}

// A challenge has at most 31 days, is seen by every member, and goes with the settings that
// leave it out.
func TestChallenges(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		first := testenv.Must(models.ParseDate("2026-11-16"))
		with := func(from, to models.Date) groups.Settings {
			return groups.Settings{Name: "Family", Challenge: &groups.Challenge{From: from, To: to}}
		}
		group := f.create("1", "2")
		check := func(what string, got groups.Group, want *groups.Challenge) {
			t.Helper()
			seen := []groups.Group{got, testenv.Must(f.Get(ctx, "2", got.ID)), testenv.Must(f.List(ctx, "2"))[0]}
			for _, g := range seen {
				if (g.ChallengeFrom == nil) != (want == nil) || want != nil && (*g.ChallengeFrom != want.From || *g.ChallengeTo != want.To) {
					t.Errorf("%s: from %v to %v, want %+v", what, g.ChallengeFrom, g.ChallengeTo, want)
				}
			}
		}
		check("no challenge", group, nil)
		for _, last := range []models.Date{first, first + models.MaxSpanDays - 1} {
			settings := with(first, last)
			check("a challenge", testenv.Must(f.Change(ctx, "1", group.ID, settings)), settings.Challenge)
		}
		for _, last := range []models.Date{first - 1, first + models.MaxSpanDays} {
			_, err := f.Change(ctx, "1", group.ID, with(first, last))
			f.refused("bad days", err, models.CodeValidationFailed)
			_, err = f.Create(ctx, "1", with(first, last))
			f.refused("bad days", err, models.CodeValidationFailed)
		}
		if _, err := f.Renew(ctx, "1", group.ID); err != nil {
			t.Error(err)
		}
		settings := with(first, first+models.MaxSpanDays-1)
		check("another code", testenv.Must(f.Get(ctx, "1", group.ID)), settings.Challenge)
		check("its end", testenv.Must(f.Change(ctx, "1", group.ID, groups.Settings{Name: "Family"})), nil)
		check("a new group", func() groups.Group {
			made := testenv.Must(f.Create(ctx, "1", settings))
			return testenv.Must(f.Join(ctx, "2", *made.InviteCode))
		}(), settings.Challenge)
	})
}

// The last member who leaves ends the group.
func TestTheLastMemberLeaves(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		group := f.create("1", "2")
		for _, user := range []models.UserID{"1", "2"} {
			f.refused("leaving", f.Remove(t.Context(), user, group.ID, user), "")
		}
		var left int64
		if err := env.Gorm.Model(&models.Group{}).Count(&left).Error; err != nil || left != 0 {
			t.Errorf("%d groups, %v", left, err)
		}
	})
}

// A user who is erased leaves every group. The next member owns it, and a group without
// members ends.
func TestErasedMembers(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		erase := func(user models.RowID, want int64) {
			t.Helper()
			if left, err := f.Erase(ctx, user); err != nil || left != want {
				t.Errorf("user %d leaves %d groups, %v, want %d", user, left, err, want)
			}
		}
		owned, alone := f.create("1", "3", "2"), f.create("1")
		erase(1, 2)
		f.check("the owner is erased", "2", owned.ID, "3", 2, 3)
		_, err := f.IDs(ctx, alone.ID, 1)
		f.refused("the group without members", err, models.CodeNotFound)
		erase(1, 0)
		erase(2, 1)
		f.check("a member is erased", "3", owned.ID, "3", 3)
	})
}

// A process that has not heard that a user was erased refuses what it can't store for the
// user.
func TestUserErasedAMomentAgo(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		group := f.create("1", "2")
		// To its directory everybody exists.
		late := groups.New(
			groups.NewStore(env.Gorm, teams.NewStore(env.Gorm, nil)), servicetest.Sets(env), f.privacy.Sets(), testenv.Numbers{}, free{}, env.Log)
		_, err := late.Join(ctx, "3", *group.InviteCode)
		f.refused("joining", err, models.CodeUnavailable)
		f.check("joining is refused", "2", group.ID, "1", 1, 2)
		_, err = late.Create(ctx, "3", groups.Settings{Name: "Family"})
		f.refused("making a group", err, models.CodeUnavailable)
		err = late.Replace(ctx, "team", groups.Replacement{Members: []models.UserID{"2", "3"}})
		f.refused("replacing the members", err, models.CodeUnavailable)
		var stored int64
		if err := env.Gorm.Model(&models.Group{}).Count(&stored).Error; err != nil || stored != 1 {
			t.Errorf("%d groups are stored, %v", stored, err)
		}
	})
}

// An invite code is valid until the owner renews it or removes a member.
func TestInviteCodes(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		group := f.create("1", "2", "3")
		codes := []string{*group.InviteCode}
		renew := func(what string, change func() error) {
			t.Helper()
			if err := change(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			codes = append(codes, *testenv.Must(f.Get(ctx, "1", group.ID)).InviteCode)
		}
		renew("renewing", func() error { _, err := f.Renew(ctx, "1", group.ID); return err })
		renew("removing", func() error { return f.Remove(ctx, "1", group.ID, "2") })
		slices.Sort(codes)
		if len(slices.Compact(codes)) != 3 {
			t.Errorf("codes %v", codes)
		}
		now := *testenv.Must(f.Get(ctx, "1", group.ID)).InviteCode
		for _, code := range codes {
			_, err := f.Join(ctx, "4", code)
			if want := models.CodeNotFound; code != now {
				f.refused("an old code", err, want)
			} else if err != nil {
				t.Errorf("the present code: %v", err)
			}
		}
		f.refused("leaving", f.Remove(ctx, "3", group.ID, "3"), "")
		f.refused("removing nobody", f.Remove(ctx, "1", group.ID, "2"), "")
		f.refused("removing somebody unknown", f.Remove(ctx, "1", group.ID, "nobody"), "")
		if got := *testenv.Must(f.Get(ctx, "1", group.ID)).InviteCode; got != now {
			t.Errorf("the code has changed without a removal")
		}
		for user, member := range map[models.UserID]bool{"1": true, "5": false, "nobody": false} {
			want := groups.Invitation{GroupID: group.ID, Name: group.Name, Members: 2, Member: member, OwnerID: "1"}
			if got, err := f.Invitation(ctx, user, strings.ToLower(now)); err != nil || got != want {
				t.Errorf("%s is invited to %+v, %v, want %+v", user, got, err, want)
			}
		}
		for _, wrong := range []string{codes[0], "AAAABBBBCCCCDDDD", ""} {
			if wrong != now {
				_, err := f.Invitation(ctx, "5", wrong)
				f.refused("a look by "+wrong, err, models.CodeNotFound)
			}
		}
		if _, err := f.Join(ctx, "5", strings.ToLower(now)); err != nil {
			t.Errorf("the code in small letters: %v", err)
		}
	})
}

// A backend's list of members replaces the one before. Such a group has no owner.
func TestGroupsOfABackend(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		name := "Office"
		set := func(name *string, members ...models.UserID) error {
			return f.Replace(ctx, "office-7", groups.Replacement{Members: members, Name: name})
		}
		f.refused("created", set(nil, "2", "1"), "")
		f.check("created", "1", "office-7", "", 1, 2)
		f.refused("replaced", set(&name, "3", "2"), "")
		f.check("replaced", "3", "office-7", "", 2, 3)
		f.refused("repeated", set(nil, "3", "2"), "")
		group := testenv.Must(f.Get(ctx, "2", "office-7"))
		if group.Name != name || group.InviteCode != nil {
			t.Errorf("%+v", group)
		}
		_, err := f.IDs(ctx, "office-7", 1)
		f.refused("a former member", err, models.CodeNotFound)
		_, err = f.Renew(ctx, "2", "office-7")
		f.refused("an invite code", err, models.CodeForbidden)
		f.refused("leaving", f.Remove(ctx, "2", "office-7", "2"), "")
		f.check("left", "3", "office-7", "", 3)
		f.refused("ended", set(nil), "")
		_, err = f.IDs(ctx, "office-7", 3)
		f.refused("a group that has ended", err, models.CodeNotFound)
		// Another group may have its id.
		f.refused("created again", set(nil, "3", "5"), "")
		f.check("created again", "3", "office-7", "", 3, 5)

		own := f.create("1").ID
		f.refused("a user's group", f.Replace(ctx, own, groups.Replacement{Members: testenv.IDs(2)}), models.CodeForbidden)
		f.check("a user's group", "1", own, "1", 1)
	})
}

// Other processes see changes at once, because the sets of members are in Redis.
func TestOtherProcessesSeeChanges(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f, other := newFixture(t, env), newProcess(env, free{})
	group := f.create("1", "2")
	for range 2 { // the second time from Redis
		if ids := testenv.Must(other.IDs(t.Context(), group.ID, 1)); len(ids) != 2 {
			t.Errorf("members %v", ids)
		}
	}
	f.refused("removing", f.Remove(t.Context(), "1", group.ID, "2"), "")
	_, err := other.IDs(t.Context(), group.ID, 2)
	f.refused("a former member in another process", err, models.CodeNotFound)
	if ids := testenv.Must(other.IDs(t.Context(), group.ID, 1)); !slices.Equal(ids, []models.RowID{1}) {
		t.Errorf("members %v", ids)
	}
}

// A member is not ranked for those who are not shown the member, in any process, but still
// listed. One's own ranking has oneself.
func TestMembersWhoAreNotShown(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		hiding := f.privacy
		other := f.Service
		if env.Redis != nil {
			other = newProcess(env, free{})
		}
		group := f.create("1", "2", "3", "4")
		expect := func(what string, want map[models.RowID][]models.RowID) {
			t.Helper()
			for viewer, members := range want {
				for _, process := range []*groups.Service{f.Service, other, other} {
					got := testenv.Must(process.IDs(ctx, group.ID, viewer))
					near, asOf, err := process.Circle(ctx, group.ID, viewer)
					slices.Sort(got)
					slices.Sort(near)
					if !slices.Equal(got, members) || !slices.Equal(near, members) || err != nil || !asOf.IsZero() {
						t.Errorf("%s: %v sees %v and %v, want %v, %v", what, viewer, got, near, members, err)
					}
				}
			}
			if list := testenv.Must(f.Members(ctx, group.Row, 0, 10)); len(list) != 4 {
				t.Errorf("%s: %d members are listed", what, len(list))
			}
		}
		all := []models.RowID{1, 2, 3, 4}
		expect("nobody hides", map[models.RowID][]models.RowID{1: all, 2: all})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(hiding.SetHidden(ctx, "2", true))
		expect("2 hides", map[models.RowID][]models.RowID{1: {1, 3, 4}, 2: all, 3: {1, 3, 4}})
		must(hiding.Choose(ctx, "3", models.HiddenFrom, "1"))
		must(hiding.Choose(ctx, "1", models.Muted, "4"))
		expect("3 hides from 1, who has muted 4", map[models.RowID][]models.RowID{1: {1}, 2: all, 3: {1, 3, 4}, 4: {1, 3, 4}})
		must(hiding.SetHidden(ctx, "2", false))
		must(hiding.Undo(ctx, "3", models.HiddenFrom, "1"))
		must(hiding.Undo(ctx, "1", models.Muted, "4"))
		expect("nobody hides any more", map[models.RowID][]models.RowID{1: all, 2: all})
	})
}

// inMemory has sets of some kinds in memory, each complete as of a moment.
type inMemory map[keys.Sets]time.Time

func (m inMemory) Members(ctx context.Context, of cache.Set, read cache.Read) ([]models.RowID, time.Time, error) {
	ids, _, err := read(ctx)
	return ids, m[of.Kind], err
}

func (inMemory) Forget([]cache.Set) {}

// A list is as old as the oldest of what it is made of, wherever the rest is from.
func TestAgeOfACircle(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env)
	group := f.create("1", "2")
	older, newer := env.Clock.Now(), env.Clock.Now().Add(time.Second)
	for _, tt := range []struct {
		memory inMemory
		asOf   time.Time
	}{
		{inMemory{}, time.Time{}},
		{inMemory{keys.Groups: older}, older},
		{inMemory{keys.NotShown: older}, older},
		{inMemory{keys.Groups: older, keys.NotShown: newer}, older},
		{inMemory{keys.Groups: newer, keys.NotShown: older}, older},
	} {
		sets, users := cache.NewStore(env.Redis, env.Keys, 0, tt.memory), testenv.Numbers{DB: env.Gorm}
		graph := friends.New(friends.NewStore(env.Gorm, nil), sets, users, friends.Limits{}, env.Log)
		hiding := privacy.New(privacy.NewStore(env.Gorm), sets, graph, users, 0, env.Log)
		process := groups.New(groups.NewStore(env.Gorm, teams.NewStore(env.Gorm, nil)), sets, hiding.Sets(), users, free{}, env.Log)
		ids, asOf, err := process.Circle(t.Context(), group.ID, 1)
		if len(ids) != 2 || !asOf.Equal(tt.asOf) || err != nil {
			t.Errorf("in memory %v: %v as of %v, %v, want %v", tt.memory, ids, asOf, err, tt.asOf)
		}
	}
}

// A user who joins and hides at the same time is not ranked after both.
func TestHidingRacesWithJoining(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		hiding := f.privacy
		group := f.create("1")
		for user := models.RowID(10); user < 30; user++ {
			done := make(chan struct{})
			var reading, changing sync.WaitGroup
			reading.Go(func() { // so that the set is loaded at every moment
				for {
					testenv.Must(f.IDs(ctx, group.ID, 1))
					select {
					case <-done:
						return
					default:
					}
				}
			})
			changing.Go(func() {
				if _, err := f.Join(ctx, testenv.ID(user), *group.InviteCode); err != nil {
					t.Error(err)
				}
			})
			changing.Go(func() {
				if err := hiding.SetHidden(ctx, testenv.ID(user), true); err != nil {
					t.Error(err)
				}
			})
			testenv.Wait(t, "the change ends", &changing)
			close(done)
			testenv.Wait(t, "the reader ends", &reading)
			if ids := testenv.Must(f.IDs(ctx, group.ID, 1)); !slices.Equal(ids, []models.RowID{1}) {
				t.Fatalf("1 sees %v", ids)
			}
		}
	})
}

// outcomes counts the codes of errors, "" for none.
type outcomes struct {
	mu    sync.Mutex
	codes map[models.Code]int
}

func (o *outcomes) add(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.codes == nil {
		o.codes = make(map[models.Code]int)
	}
	o.codes[models.CodeOf(err)]++
}

// Of many who join at the same time, as many do as the group has room for. Others leave
// and are removed meanwhile, so changes lock the same users and groups in any order.
func TestManyJoinTheLastPlaces(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		const room = 4
		members := make([]models.RowID, models.MaxGroupMembers-room-1)
		for i := range members {
			members[i] = models.RowID(100 + i)
		}
		group := f.create("1")
		testenv.Must(testenv.Numbers{DB: env.Gorm}.Ensure(ctx, testenv.IDs(members...)...))
		for part := range slices.Chunk(members, 100) {
			err := env.Gorm.Exec(`INSERT INTO group_members (group_id, user_id, joined_at) SELECT ?, user_id, ? FROM users WHERE user_id IN ?`,
				group.Row, env.Clock.Now(), part).Error
			if err != nil {
				t.Fatal(err)
			}
		}
		var joined outcomes
		var running sync.WaitGroup
		for user := range models.RowID(room * 3) {
			running.Go(func() {
				_, err := f.Join(ctx, testenv.ID(10+user), *group.InviteCode)
				joined.add(err)
			})
		}
		testenv.Wait(t, "all that runs ends", &running)
		if diff := cmp.Diff(map[models.Code]int{"": room, models.CodeGroupFull: 2 * room}, joined.codes); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if got := testenv.Must(f.Get(ctx, "1", group.ID)).Members; got != models.MaxGroupMembers {
			t.Errorf("%d members", got)
		}
		tooMany := make([]models.UserID, models.MaxGroupMembers+1)
		f.refused("a list of too many", f.Replace(ctx, "office", groups.Replacement{Members: tooMany}), models.CodeGroupFull)
	})
}

// A user who joins, makes and is put into many groups at the same time gets into as many
// as the limit allows.
func TestAUserJoinsManyGroups(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		const room, tries = 3, 12
		for range models.MaxGroups - room {
			f.create("9")
		}
		codes := make([]string, tries)
		for i := range codes {
			codes[i] = *f.create(testenv.ID(20 + i)).InviteCode
		}
		var joined outcomes
		var running sync.WaitGroup
		for i, code := range codes {
			running.Go(func() {
				var err error
				switch i % 3 {
				case 0:
					_, err = f.Join(ctx, "9", code)
				case 1:
					_, err = f.Create(ctx, "9", groups.Settings{Name: "Mine"})
				default:
					err = f.Replace(ctx, models.GroupID(code), groups.Replacement{Members: []models.UserID{"30", "9", "10"}})
				}
				joined.add(err)
			})
		}
		testenv.Wait(t, "all that runs ends", &running)
		if diff := cmp.Diff(map[models.Code]int{"": room, models.CodeGroupLimit: tries - room}, joined.codes); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if list := testenv.Must(f.List(ctx, "9")); len(list) != models.MaxGroups {
			t.Errorf("%d groups", len(list))
		}
	})
}

// One of two changes at the same time takes a user's last place. The first one has counted the user's
// groups, and waits for a row that is not committed; the second one may not count before it has ended.
func TestTwoChangesTakeAUsersLastPlace(t *testing.T) {
	t.Parallel()
	seconds := map[string]func(ctx context.Context, f *fixture, code string) error{
		"join": func(ctx context.Context, f *fixture, code string) error {
			_, err := f.Join(ctx, "9", code)
			return err
		},
		"create": func(ctx context.Context, f *fixture, _ string) error {
			_, err := f.Create(ctx, "9", groups.Settings{Name: "Mine"})
			return err
		},
		"replace": func(ctx context.Context, f *fixture, _ string) error {
			return f.Replace(ctx, "office", groups.Replacement{Members: []models.UserID{"9"}})
		},
	}
	for name, second := range seconds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := testenv.Real(t)
			f, ctx := newFixture(t, env), t.Context()
			for range models.MaxGroups - 1 {
				f.create("9")
			}
			joined, other := f.create("20"), f.create("21")
			row := env.Gorm.Begin()
			defer row.Rollback()
			if err := row.Exec(`INSERT INTO group_members (group_id, user_id, joined_at) VALUES (?, 9, now())`, joined.Row).Error; err != nil {
				t.Fatal(err)
			}
			var errs [2]error
			calls := []chan struct{}{
				testenv.Behind(t, env, row, 1, func() { _, errs[0] = f.Join(ctx, "9", *joined.InviteCode) }),
				testenv.Behind(t, env, row, 2, func() { errs[1] = second(ctx, f, *other.InviteCode) }),
			}
			row.Rollback()
			for _, ended := range calls {
				testenv.Receive(t, "the call ends", ended)
			}
			if errs[0] != nil {
				t.Errorf("the first one: %v", errs[0])
			}
			f.refused("the second one", errs[1], models.CodeGroupLimit)
			if list := testenv.Must(f.List(ctx, "9")); len(list) != models.MaxGroups {
				t.Errorf("%d groups", len(list))
			}
		})
	}
}

// Changes with a user who is just being erased wait for that, and then change nothing: nobody would
// remove the user from a group any more.
func TestChangesWaitForAnErasure(t *testing.T) {
	t.Parallel()
	changes := map[string]func(ctx context.Context, s *groups.Service, group groups.Group) error{
		"join": func(ctx context.Context, s *groups.Service, group groups.Group) error {
			_, err := s.Join(ctx, "9", *group.InviteCode)
			return err
		},
		"create": func(ctx context.Context, s *groups.Service, _ groups.Group) error {
			_, err := s.Create(ctx, "9", groups.Settings{Name: "Mine"})
			return err
		},
		"replace": func(ctx context.Context, s *groups.Service, _ groups.Group) error {
			return s.Replace(ctx, "office", groups.Replacement{Members: []models.UserID{"1", "9"}})
		},
		"remove": func(ctx context.Context, s *groups.Service, group groups.Group) error {
			return s.Remove(ctx, "1", group.ID, "9")
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := testenv.Real(t)
			testenv.NumberUsers(t, env, 9)
			group := newFixture(t, env).create("1")
			sets := servicetest.Sets(env)
			// This process has not heard of the erasure.
			s := groups.New(groups.NewStore(env.Gorm, teams.NewStore(env.Gorm, nil)), sets, newPrivacy(env, sets).Sets(), testenv.Numbers{}, free{}, env.Log)
			erasure := env.Gorm.Begin()
			defer erasure.Rollback()
			if err := erasure.Exec(`DELETE FROM users WHERE user_id = 9`).Error; err != nil {
				t.Fatal(err)
			}
			var err error
			ended := testenv.Behind(t, env, erasure, 1, func() { err = change(t.Context(), s, group) })
			if err := erasure.Commit().Error; err != nil {
				t.Fatal(err)
			}
			testenv.Receive(t, "the change ends", ended)
			if models.CodeOf(err) != models.CodeUnavailable {
				t.Errorf("the change: %v, want %s", err, models.CodeUnavailable)
			}
			var member bool
			if err := env.Gorm.Raw(`SELECT EXISTS (SELECT FROM group_members WHERE user_id = 9)`).Scan(&member).Error; err != nil || member {
				t.Errorf("an erased user is a member: %v, %v", member, err)
			}
		})
	}
}

// While members join, leave and are removed at the same time, a group has an owner who is
// a member, or it does not exist. What rankings read is in the end what SQL has.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env), t.Context()
		group := f.create("1", "2", "3", "4")
		var running sync.WaitGroup
		for user := models.RowID(1); user <= 4; user++ {
			running.Go(func() {
				id := testenv.ID(user)
				for i := range 6 {
					f.refused("leaving", f.Remove(ctx, id, group.ID, id), "")
					now, err := f.Get(ctx, testenv.ID(1+(int(user)+i)%4), group.ID)
					if err == nil && now.InviteCode != nil {
						_, err = f.Join(ctx, id, *now.InviteCode)
					}
					if code := models.CodeOf(err); code != "" && code != models.CodeNotFound {
						t.Errorf("joining: %v", err)
					}
					err = f.Remove(ctx, id, group.ID, testenv.ID(1+(int(user)+i)%4))
					if code := models.CodeOf(err); code != "" && code != models.CodeNotFound && code != models.CodeForbidden {
						t.Errorf("removing: %v", err)
					}
				}
			})
		}
		testenv.Wait(t, "all that runs ends", &running)
		var lost int64
		err := env.Gorm.Raw(`SELECT count(*) FROM groups g WHERE NOT EXISTS (
			SELECT 1 FROM group_members m WHERE m.group_id = g.group_id AND m.user_id = g.owner_id)`).Scan(&lost).Error
		if err != nil || lost != 0 {
			t.Errorf("%d groups without an owner among the members, %v", lost, err)
		}
		var members []models.RowID
		if err := env.Gorm.Raw(`SELECT user_id FROM group_members ORDER BY user_id`).Scan(&members).Error; err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			got := testenv.Must(f.IDs(ctx, group.ID, m))
			slices.Sort(got)
			if !slices.Equal(got, members) {
				t.Errorf("%v sees %v, want %v", m, got, members)
			}
		}
	})
}

// refuses limits everybody.
type refuses struct{}

var errTooOften = models.Errorf(models.CodeRateLimited, "too often")

func (refuses) TakeJoin(context.Context, models.UserID) error { return errTooOften }

// A user over the limit of tries does not learn whether a code is right.
func TestGuessingIsLimited(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	code := *newFixture(t, env).create("1").InviteCode
	for _, code := range []string{code, "AAAABBBBCCCCDDDD"} {
		if _, err := newProcess(env, refuses{}).Join(t.Context(), "2", code); !errors.Is(err, errTooOften) {
			t.Errorf("%v", err)
		}
		if _, err := newProcess(env, refuses{}).Invitation(t.Context(), "2", code); !errors.Is(err, errTooOften) {
			t.Errorf("a look: %v", err)
		}
	}
}
