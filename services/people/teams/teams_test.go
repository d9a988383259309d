package teams_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/privacy"
	"stepboard/services/people/teams"
	"stepboard/services/servicetest"
)

// fixture has groups and competitions of users whose ids are the decimal texts of their rows. today is
// the day on every board.
type fixture struct {
	*teams.Service

	t      testing.TB
	env    *testenv.Env
	groups *groups.Service
	today  models.Date
}

// free lets everybody try any number of codes.
type free struct{}

func (free) TakeJoin(context.Context, models.UserID) error { return nil }

// start is the first day of most competitions here, and the day on which tests begin.
const start = models.Date(20_000)

func newFixture(t testing.TB, env *testenv.Env, people int) *fixture {
	t.Helper()
	testenv.NumberUsers(t, env, people)
	f := &fixture{t: t, env: env, today: start}
	sets, users := servicetest.Sets(env), testenv.Numbers{DB: env.Gorm}
	graph := friends.New(friends.NewStore(env.Gorm, nil), sets, users, friends.Limits{}, env.Log)
	hiding := privacy.New(privacy.NewStore(env.Gorm), sets, graph, users, 0, env.Log)
	store := teams.NewStore(env.Gorm, func(board string) (models.Date, error) { return f.today, check(board) })
	f.groups = groups.New(groups.NewStore(env.Gorm, store), sets, hiding.Sets(), users, free{}, env.Log)
	f.Service = teams.New(store, check, users, free{})
	return f
}

// check knows one board.
func check(board string) error {
	if board != "steps" {
		return models.Errorf(models.CodeBoardNotFound, "there is no board %s", board)
	}
	return nil
}

// definition returns a competition of a week with groups.
func definition(ids ...models.GroupID) teams.Definition {
	return teams.Definition{
		ID: "week", Board: "steps", Name: "Week", First: start, Last: start + 6,
		Measure: models.MeasureScore, Team: models.TeamMean, Open: true, Groups: ids,
	}
}

// put defines a competition.
func (f *fixture) put(d teams.Definition) models.Competition {
	f.t.Helper()
	c, err := f.Put(f.t.Context(), d)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// replace sets the members of a group of a backend.
func (f *fixture) replace(id models.GroupID, members ...models.UserID) {
	f.t.Helper()
	if err := f.groups.Replace(f.t.Context(), id, groups.Replacement{Members: members}); err != nil {
		f.t.Fatal(err)
	}
}

// refused checks the code of an error.
func (f *fixture) refused(what string, err error, code models.Code) {
	f.t.Helper()
	if models.CodeOf(err) != code {
		f.t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// counting returns how many people are in each team, and how many in its group.
func (f *fixture) counting(c models.Competition) map[models.GroupID][2]int {
	f.t.Helper()
	present := make(map[models.GroupRow]int)
	for _, m := range testenv.Must(f.Members(f.t.Context(), c.Row)) {
		if m.Last == nil {
			present[m.Group]++
		}
	}
	counts := make(map[models.GroupID][2]int)
	for _, team := range testenv.Must(f.Teams(f.t.Context(), c.Row)) {
		counts[team.ID] = [2]int{present[team.Group], team.Members}
	}
	return counts
}

func TestDefinitionsAreChecked(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	f := newFixture(t, env, 1)
	f.replace("a", "1")
	for name, tt := range map[string]struct {
		change func(d *teams.Definition)
		code   models.Code
	}{
		"as it is":             {func(*teams.Definition) {}, ""},
		"the longest":          {func(d *teams.Definition) { d.Last = d.First + 365 }, ""},
		"too long":             {func(d *teams.Definition) { d.Last = d.First + 366 }, models.CodeValidationFailed},
		"ends before it began": {func(d *teams.Definition) { d.Last = d.First - 1 }, models.CodeValidationFailed},
		"no name":              {func(d *teams.Definition) { d.Name = " " }, models.CodeValidationFailed},
		"a negative cap":       {func(d *teams.Definition) { d.Cap = -1 }, models.CodeValidationFailed},
		"a goal of scores":     {func(d *teams.Definition) { d.Goal = 1 }, models.CodeValidationFailed},
		"goal days":            {func(d *teams.Definition) { d.Measure, d.Goal = models.MeasureGoalDays, 1 }, ""},
		"goal days, no goal":   {func(d *teams.Definition) { d.Measure = models.MeasureGoalDays }, models.CodeValidationFailed},
		"another measure":      {func(d *teams.Definition) { d.Measure = "" }, models.CodeValidationFailed},
		"another team measure": {func(d *teams.Definition) { d.Team = "max" }, models.CodeValidationFailed},
		"a board of no use":    {func(d *teams.Definition) { d.Board = "other" }, models.CodeBoardNotFound},
		"an unknown group":     {func(d *teams.Definition) { d.Groups = []models.GroupID{"a", "b"} }, models.CodeValidationFailed},
		"a group twice":        {func(d *teams.Definition) { d.Groups = []models.GroupID{"a", "a"} }, models.CodeValidationFailed},
		"too many groups":      {func(d *teams.Definition) { d.Groups = make([]models.GroupID, 201) }, models.CodeValidationFailed},
	} {
		d := definition("a")
		d.ID = models.CompetitionID(name)
		tt.change(&d)
		_, err := f.Put(t.Context(), d)
		f.refused(name, err, tt.code)
		if _, err = f.Find(t.Context(), d.ID); (err == nil) != (tt.code == "") {
			t.Errorf("%s is stored: %v", name, err)
		}
	}
}

// From the first day on, what is ranked stays as it is, and groups enter and leave until it is final.
func TestWhatChangesOnceItHasBegun(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env, 4), t.Context()
		f.replace("a", "1")
		f.replace("b", "2")
		f.today = start - 1
		d := definition("a")
		first := f.put(d)
		d.Cap, d.Last = 5, start+7
		planned := f.put(d)
		if planned.Row != first.Row || *planned.JoinCode != *first.JoinCode || planned.Cap != 5 || planned.Last != start+7 {
			t.Errorf("%+v, then %+v", first, planned)
		}
		f.today = start
		for name, change := range map[string]func(d *teams.Definition){
			"first day": func(d *teams.Definition) { d.First-- },
			"last day":  func(d *teams.Definition) { d.Last++ },
			"cap":       func(d *teams.Definition) { d.Cap++ },
			"measure":   func(d *teams.Definition) { d.Measure, d.Goal = models.MeasureGoalDays, 1 },
			"team":      func(d *teams.Definition) { d.Team = models.TeamSum },
		} {
			other := d
			change(&other)
			_, err := f.Put(ctx, other)
			f.refused(name, err, models.CodeCompetitionStarted)
		}
		d.Name, d.Open, d.Groups = "Month", false, []models.GroupID{"b"}
		running := f.put(d)
		if stored := testenv.Must(f.Find(ctx, d.ID)); running.Name != "Month" || running.JoinCode != nil || !cmp.Equal(stored, running) {
			t.Errorf("%+v, stored %+v", running, stored)
		}
		want := map[models.GroupID][2]int{"b": {1, 1}}
		if got := f.counting(running); !cmp.Equal(got, want) {
			t.Errorf("the teams: %v, want %v", got, want)
		}
		if err := env.Gorm.Exec(`UPDATE competitions SET revision = 1, final_at = ?`, env.Clock.Now()).Error; err != nil {
			t.Fatal(err)
		}
		d.Groups = nil
		f.put(d)
		d.Groups = []models.GroupID{"a", "b"}
		_, err := f.Put(ctx, d)
		f.refused("a team enters a final one", err, models.CodeCompetitionStarted)
		f.replace("b", "2", "3")
		if want = map[models.GroupID][2]int{"b": {1, 2}}; !cmp.Equal(f.counting(running), want) {
			t.Errorf("a person has joined a team of a final one: %v", f.counting(running))
		}
		for range 2 {
			f.refused("deleted", f.Delete(ctx, d.ID), "")
		}
		var left int64
		err = env.Gorm.Raw(`SELECT (SELECT count(*) FROM competition_members) + (SELECT count(*) FROM competition_teams)`).Scan(&left).Error
		if _, missing := f.Find(ctx, d.ID); left != 0 || err != nil || models.CodeOf(missing) != models.CodeNotFound {
			t.Errorf("left of a deleted one: %d rows, %v, %v", left, err, missing)
		}
	})
}

func TestOwnersEnterTheirGroups(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env, 4), t.Context()
		f.today = start - 1
		d := definition()
		code := *f.put(d).JoinCode
		own := func(owner models.UserID) groups.Group {
			return testenv.Must(f.groups.Create(ctx, owner, groups.Settings{Name: "Family"}))
		}
		group, late := own("1"), own("3")
		testenv.Must(f.groups.Join(ctx, "2", *group.InviteCode))
		join := func(what string, user models.UserID, code string, id models.GroupID, want models.Code) {
			t.Helper()
			c, err := f.Join(ctx, user, code, id)
			if f.refused(what, err, want); err == nil && c.ID != d.ID {
				t.Errorf("%s: %+v", what, c)
			}
		}
		join("another code", "1", "AAAABBBBCCCCDDDD", group.ID, models.CodeNotFound)
		join("a member", "2", code, group.ID, models.CodeForbidden)
		join("a stranger", "3", code, group.ID, models.CodeNotFound)
		join("nobody", "nobody", code, group.ID, models.CodeNotFound)
		join("no group", "1", code, "none", models.CodeNotFound)
		join("the owner", "1", code, group.ID, "")
		f.today = start
		join("again", "1", code, group.ID, "")
		join("late", "3", code, late.ID, models.CodeCompetitionStarted)
		d.Groups, d.Open = nil, false
		c := f.put(d)
		join("once it is closed", "1", code, group.ID, models.CodeNotFound)
		if got, want := f.counting(c), (map[models.GroupID][2]int{group.ID: {2, 2}}); !cmp.Equal(got, want) {
			t.Errorf("the teams: %v, want %v", got, want)
		}
		for user, want := range map[models.RowID][]models.GroupRow{2: {group.Row}, 3: nil} {
			if got := testenv.Must(f.TeamsOf(ctx, c.Row, user)); !slices.Equal(got, want) {
				t.Errorf("the teams of %d: %v, want %v", user, got, want)
			}
			if got := testenv.Must(f.OfUser(ctx, user)); len(got) != len(want) {
				t.Errorf("the competitions of %d: %v", user, got)
			}
		}
	})
}

// What is not final yet is to be ranked from its first day on, and needs the scores of its days.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env, 1), t.Context()
		expect := func(what string, earliest models.Date, ids ...models.CompetitionID) {
			t.Helper()
			var got []models.CompetitionID
			for _, c := range testenv.Must(f.Unfinished(ctx)) {
				got = append(got, c.ID)
			}
			if day := testenv.Must(f.Earliest(ctx)); !slices.Equal(got, ids) || *day != earliest {
				t.Errorf("%s: %v from %v, want %v from %v", what, got, *day, ids, earliest)
			}
		}
		if day := testenv.Must(f.Earliest(ctx)); day != nil {
			t.Errorf("without any: %v", *day)
		}
		for i, id := range []models.CompetitionID{"later", "now", "past"} {
			d := definition()
			d.ID, d.First = id, start+1-models.Date(i)
			f.put(d)
		}
		expect("three", start-1, "later", "now", "past")
		set := func(columns map[string]any) {
			t.Helper()
			if err := env.Gorm.Model(&models.Competition{}).Where("external_id = 'past'").Updates(columns).Error; err != nil {
				t.Fatal(err)
			}
		}
		set(map[string]any{"revision": 1, "final_at": time.Unix(0, 0)})
		expect("one is final", start, "later", "now")
		set(map[string]any{"recompute": true})
		expect("once more", start-1, "later", "now", "past")
		if all := testenv.Must(f.All(ctx)); len(all) != 3 || all[0].ID != "past" {
			t.Errorf("all: %+v", all)
		}
	})
}

// A competition of 366 days has room for 2732 people. Who joins a team when it is full does not count,
// and does not begin to when there is room.
func TestAFullCompetition(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		const people = 2732
		f, ctx := newFixture(t, env, people+3), t.Context()
		for _, id := range []models.GroupID{"big", "small", "more"} {
			f.replace(id, testenv.ID(people))
		}
		if err := env.Gorm.Exec(`INSERT INTO group_members (group_id, user_id, joined_at)
			SELECT group_id, user_id, ? FROM groups, users WHERE groups.external_id = 'big' AND user_id < ?`, env.Clock.Now(), people-1).Error; err != nil {
			t.Fatal(err)
		}
		f.replace("small", testenv.IDs(people-1)...)
		f.replace("more", testenv.IDs(people+1)...)
		d := definition("small", "big")
		d.Last = start + models.MaxCompetitionDays - 1
		c := f.put(d)
		expect := func(what string, counting, members int) {
			t.Helper()
			want := map[models.GroupID][2]int{"big": {people - 1, people - 1}, "small": {counting, members}}
			if got := f.counting(c); !cmp.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		expect("full", 1, 1)
		d.Groups = append(d.Groups, "more")
		_, err := f.Put(ctx, d)
		f.refused("a team more", err, models.CodeCompetitionFull)
		f.replace("small", testenv.IDs(people-1, people+2)...)
		expect("a person more", 1, 2)
		f.replace("small", testenv.IDs(people+2)...)
		expect("a place is free", 0, 1)
		f.replace("small", testenv.IDs(people+2, people+1, people+3)...)
		expect("two more", 1, 3)
	})
}

// While people join and leave a group that enters and leaves a competition, at the same time as another
// group of theirs, all who count are members, and who has always been a member counts.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f, ctx := newFixture(t, env, 8), t.Context()
		f.replace("a", "1")
		f.replace("b", "2")
		var running sync.WaitGroup
		for worker, do := range []func(i int) error{
			func(i int) error {
				return f.groups.Replace(ctx, "a", groups.Replacement{Members: testenv.IDs(1, 3+i%4)})
			},
			func(i int) error {
				return f.groups.Replace(ctx, "b", groups.Replacement{Members: testenv.IDs(2, 3+i%2)})
			},
			func(i int) error { _, err := f.Put(ctx, definition([]models.GroupID{"a", "b"}[:i%3]...)); return err },
			func(i int) error { _, err := f.groups.Erase(ctx, models.RowID(3+i%4)); return err },
		} {
			running.Go(func() {
				for i := range 15 {
					if err := do(i); err != nil {
						t.Errorf("worker %d: %v", worker, err)
					}
				}
			})
		}
		testenv.Wait(t, "all that runs ends", &running)
		c := f.put(definition("a", "b"))
		var wrong int64
		err := env.Gorm.Raw(`SELECT
			(SELECT count(*) FROM competition_members r WHERE r.last_day IS NULL AND NOT EXISTS (
				SELECT 1 FROM group_members m WHERE m.group_id = r.group_id AND m.user_id = r.user_id))
			+ (SELECT count(*) FROM group_members m WHERE m.user_id <= 2 AND NOT EXISTS (
				SELECT 1 FROM competition_members r WHERE r.user_id = m.user_id AND r.last_day IS NULL))`).Scan(&wrong).Error
		if err != nil || wrong != 0 {
			t.Errorf("%d people count and are no members, or do not count: %v, %v", wrong, f.counting(c), err)
		}
	})
}

// Who joins a team that is just leaving a competition does not count in it.
func TestAChangeWaitsForTheCompetition(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	f := newFixture(t, env, 2)
	f.replace("a", "1")
	c := f.put(definition("a"))
	leaving := env.Gorm.Begin()
	defer leaving.Rollback()
	for _, statement := range []string{
		`UPDATE competitions SET name = 'Without'`, `DELETE FROM competition_members`, `DELETE FROM competition_teams`,
	} {
		if err := leaving.Exec(statement).Error; err != nil {
			t.Fatal(err)
		}
	}
	var err error
	ended := testenv.Behind(t, env, leaving, 1, func() {
		err = f.groups.Replace(t.Context(), "a", groups.Replacement{Members: testenv.IDs(1, 2)})
	})
	if err := leaving.Commit().Error; err != nil {
		t.Fatal(err)
	}
	testenv.Receive(t, "the change ends", ended)
	if rows := testenv.Must(f.Members(t.Context(), c.Row)); err != nil || len(rows) != 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}
