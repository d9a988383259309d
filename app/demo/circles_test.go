package demo

import (
	"slices"
	"testing"

	"stepboard/app"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/groups"
	"stepboard/services/rankings/competitions"
	"stepboard/services/rankings/ranking"
)

// Whatever the seed, the people with roles are different friends of the first person, who
// still begins in the middle.
func TestDemoRoles(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		p, err := newPeople(t.Context(), Options{Users: 400, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		r := p.chooseRoles()
		if r == nil {
			t.Fatalf("seed %d: nobody has a role", seed)
		}
		found := p.friendsBySteps(0)
		roles := []int{r.hidden, r.hiddenFrom, r.muted, r.lowered, r.excluded}
		for _, position := range roles {
			if !slices.Contains(found, position) {
				t.Errorf("seed %d: %d of %+v is not a friend", seed, position, *r)
			}
			if dailyScore(p.stepsBetween(position, 0, startHour)) == dailyScore(p.stepsBetween(0, 0, startHour))+startGap {
				t.Errorf("seed %d: %d of %+v is the friend to overtake", seed, position, *r)
			}
		}
		if slices.Contains(found, r.blocked) || r.blocked == p.shaken() {
			t.Errorf("seed %d: %+v blocks a friend", seed, *r)
		}
		slices.Sort(roles)
		if len(slices.Compact(roles)) != 5 {
			t.Errorf("seed %d: %+v gives somebody two roles", seed, *r)
		}
	}
}

// The first person meets every state that a user can be in.
func TestDemoCircles(t *testing.T) {
	t.Parallel()
	s := populated(t, testenv.Local(t), 400)
	a, p := s.app, s.people
	r, me, today := p.chooseRoles(), p.ids[0], p.walkDay.day
	ranked := testenv.Must(a.Ranking.Friends(t.Context(), ranking.Query{Board: stepsBoard, Viewer: me, Limit: 200}))
	isRanked := func(position int) bool {
		return slices.ContainsFunc(ranked.Entries, func(e models.RankedEntry) bool { return e.User == p.ids[position] })
	}
	if isRanked(r.hidden) || isRanked(r.muted) || isRanked(r.excluded) || !isRanked(r.hiddenFrom) || !isRanked(r.lowered) {
		t.Errorf("%+v are ranked: %+v", *r, ranked.Entries)
	}
	theirs := ranking.Query{Board: stepsBoard, Viewer: p.ids[r.hiddenFrom], Limit: 200}
	others := testenv.Must(a.Ranking.Friends(t.Context(), theirs))
	if slices.ContainsFunc(others.Entries, func(e models.RankedEntry) bool { return e.User == me }) {
		t.Error("the first person is shown to whom they hide from")
	}
	for kind, position := range map[models.ChoiceKind]int{
		models.HiddenFrom: r.hiddenFrom, models.Muted: r.muted, models.Blocked: r.blocked,
	} {
		list := testenv.Must(a.Privacy.List(t.Context(), me, kind, 0, 10))
		if len(list) != 1 || list[0].User != p.ids[position] || list[0].Nickname != p.names[position] {
			t.Errorf("%s: %+v", kind, list)
		}
	}
	for _, tt := range []struct {
		position int
		day      models.Date
		want     ranking.Correction
	}{{0, today - 1, ranking.CorrectionSet}, {r.lowered, today, ranking.CorrectionSet}, {r.excluded, today, ranking.CorrectionExcluded}} {
		mine := testenv.Must(a.Ranking.Me(t.Context(), ranking.Query{Board: stepsBoard, Viewer: p.ids[tt.position], Date: &tt.day}))
		if mine.Correction == nil || *mine.Correction != tt.want {
			t.Errorf("the score of %d is corrected to %v, want %s", tt.position, mine.Correction, tt.want)
		}
	}
	list := testenv.Must(a.Groups.List(t.Context(), me))
	names := make([]string, len(list))
	for i, g := range list {
		names[i] = g.Name
		if len(p.circles()[slices.IndexFunc(p.circles(), func(c circle) bool { return c.name == g.Name })].members)+1 != g.Members {
			t.Errorf("%s has %d members", g.Name, g.Members)
		}
	}
	checkChallenge(t, a, me, list[slices.IndexFunc(list, func(g groups.Group) bool { return g.Name == "Walkers" })], today)
	checkCompetition(t, a, me)
	slices.Sort(names)
	if !slices.Equal(names, []string{"Family", "Office", "Walkers"}) {
		t.Errorf("the first person is in %q", names)
	}
	owns := func(g groups.Group) bool { return g.Owner == me }
	if !slices.ContainsFunc(list, owns) || !slices.ContainsFunc(list, func(g groups.Group) bool { return !owns(g) }) {
		t.Errorf("the first person should own some groups and not others: %+v", list)
	}
}

// checkChallenge checks that a group's challenge is under way, and that its members have
// walked on the days so far.
func checkChallenge(t *testing.T, a *app.App, me models.UserID, group groups.Group, today models.Date) {
	t.Helper()
	if group.ChallengeFrom == nil || *group.ChallengeFrom >= today || *group.ChallengeTo <= today {
		t.Fatalf("the challenge of %s is from %v to %v", group.Name, group.ChallengeFrom, group.ChallengeTo)
	}
	span := &ranking.Span{From: *group.ChallengeFrom, To: group.ChallengeTo}
	ranked := testenv.Must(a.Ranking.Group(t.Context(), ranking.Query{Board: stepsBoard, Viewer: me, Limit: 200, Span: span}, group.ID))
	if ranked.Me == nil || int(ranked.Total) < group.Members-3 {
		t.Fatalf("%d of %d members are ranked, me: %+v", ranked.Total, group.Members, ranked.Me)
	}
	if days := int64(today-*group.ChallengeFrom) + 1; ranked.Me.Days < days/2 || ranked.Me.Days > days {
		t.Errorf("the first person has walked on %d of %d days", ranked.Me.Days, days)
	}
}

// checkCompetition checks that two groups compete, in which all count but the first person, who counts in one.
func checkCompetition(t *testing.T, a *app.App, me models.UserID) {
	t.Helper()
	list := testenv.Must(a.Competitions.List(t.Context(), me))
	if len(list) != 1 || list[0].State != competitions.Running {
		t.Fatalf("the competitions of the first person are %+v", list)
	}
	members, counting := 0, 0
	for _, team := range testenv.Must(a.Teams.Teams(t.Context(), list[0].Row)) {
		members += team.Members
	}
	for _, m := range testenv.Must(a.Teams.Members(t.Context(), list[0].Row)) {
		if m.Last == nil {
			counting++
		}
	}
	if counting < 10 || counting != members-1 {
		t.Errorf("%d of %d members count", counting, members)
	}
}

// In a demo of any size the groups have members, each once.
func TestDemoCirclesInAnyNumber(t *testing.T) {
	t.Parallel()
	for users := 1; users <= 60; users++ {
		p := testenv.Must(newPeople(t.Context(), Options{Users: users, Seed: 1}))
		_ = p.chooseRoles() // must not fail with few people
		for _, c := range p.circles() {
			members := append(slices.Clone(c.members), c.owner)
			slices.Sort(members)
			if members[len(members)-1] >= users || len(slices.Compact(slices.Clone(members))) != len(members) {
				t.Errorf("%d users: %+v", users, c)
			}
		}
	}
}
