package demo

import (
	"cmp"
	"context"
	"slices"

	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/people/groups"
	"stepboard/services/people/teams"
	"stepboard/services/rankings/ranking"
)

// roles are the positions of the people whom the first person meets in each state that an
// operator or another user can put somebody into. All but the blocked one are friends.
type roles struct {
	hidden     int // hides from everybody
	hiddenFrom int // is not shown the first person's scores
	muted      int // is not shown to the first person
	blocked    int // has asked the first person for friendship before
	lowered    int // has a lower score today than was reported
	excluded   int // is not ranked from today on
}

// firstRole is the first position that has a role. The guide shows calls about the people
// before it.
const firstRole = 5

// chooseRoles chooses the people with roles. Nobody of the middle third of the first
// person's friends has one, because the first person begins there. It returns nil if
// there are too few people.
func (p *people) chooseRoles() *roles {
	found := p.friendsBySteps(0)
	n := len(found)
	if n < 3 || p.few() {
		return nil
	}
	outer := slices.Concat(found[:n/3-1], found[n*2/3+1:])
	outer = slices.DeleteFunc(outer, func(position int) bool { return position < firstRole })
	last := len(outer) - 1
	if last < 4 {
		return nil
	}
	r := &roles{muted: outer[0], hiddenFrom: outer[1], hidden: outer[last], blocked: len(p.ids) * 5 / 8}
	for slices.Contains(found, r.blocked) {
		r.blocked++
	}
	rest := outer[2:last]
	slices.Sort(rest) // the page offers the first positions
	r.lowered, r.excluded = rest[0], rest[1]
	return r
}

// few reports whether there are so few people that many know everybody.
func (p *people) few() bool { return len(p.ids) < 4*smallWorldNeighbours }

// friendsBySteps returns the positions of a person's friends, by their steps when the demo
// begins, the fewest first.
func (p *people) friendsBySteps(position int) []int {
	var found []int
	for _, e := range p.edges {
		switch p.ids[position] {
		case e.A:
			found = append(found, p.positions[e.B])
		case e.B:
			found = append(found, p.positions[e.A])
		}
	}
	slices.SortFunc(found, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.stepsBetween(a, 0, startHour), p.stepsBetween(b, 0, startHour)), cmp.Compare(a, b))
	})
	return found
}

// assignRoles hides, mutes, blocks and corrects the people with roles.
func (s *simulation) assignRoles(ctx context.Context) error {
	r := s.chooseRoles()
	if r == nil {
		return nil
	}
	me, today := s.ids[0], s.walkDay.day
	if _, _, err := s.app.Friends.SendRequest(ctx, s.ids[r.blocked], me); err != nil {
		return err
	}
	if err := s.app.Privacy.SetHidden(ctx, s.ids[r.hidden], true); err != nil {
		return err
	}
	for kind, position := range map[models.ChoiceKind]int{
		models.HiddenFrom: r.hiddenFrom, models.Muted: r.muted, models.Blocked: r.blocked,
	} {
		if err := s.app.Privacy.Choose(ctx, me, kind, s.ids[position]); err != nil {
			return err
		}
	}
	if err := s.halve(ctx, me, today-1); err != nil {
		return err
	}
	if err := s.halve(ctx, s.ids[r.lowered], today); err != nil {
		return err
	}
	_, err := s.app.Corrections.Create(ctx, corrections.Request{
		Board: stepsBoard, User: s.ids[r.excluded], Kind: models.CorrectionExclude,
		Reason: "Steps were entered by hand", Actor: demoOperator,
	})
	return err
}

// halve corrects a person's score of a day to half of it.
func (s *simulation) halve(ctx context.Context, user models.UserID, day models.Date) error {
	reported, err := s.app.Ranking.Me(ctx, ranking.Query{Board: stepsBoard, Viewer: user, Date: &day})
	if err != nil || reported.Score == nil {
		return err
	}
	half := *reported.Score / 2
	_, err = s.app.Corrections.Create(ctx, corrections.Request{
		Board: stepsBoard, Date: &day, User: user, Kind: models.CorrectionSet, Score: &half, Message: "These steps look like a shaken phone. Write to us if you walked them.",
		Reason: "The phone was shaken", Actor: demoOperator,
	})
	return err
}

// circle describes a group of the demo: its owner and the other members, by position.
type circle struct {
	name    string
	owner   int
	members []int
	// challenge says that a challenge is under way, and competes that it is a team of the competition.
	challenge, competes bool
}

// The challenge of the demo has begun challengeBegan days ago, and ends in challengeLeft days.
const challengeBegan, challengeLeft models.Date = 9, 4

// The competition of the demo has begun competitionBegan days ago, and ends in competitionLeft days. No day
// counts more than competitionCap steps. Its id is that of the examples of the API's description.
const competitionBegan, competitionLeft, competitionCap = 13, 7, 30_000

// circles returns the demo's groups. The first person is in all of them, and owns the
// first one.
func (p *people) circles() []circle {
	family, office, walkers := circle{name: "Family", competes: true}, circle{name: "Office", owner: 5, competes: true}, circle{name: "Walkers", owner: 12, challenge: true}
	for position := range min(len(p.ids), 2*offeredPeople) {
		if position > 0 && position <= 4 {
			family.members = append(family.members, position)
		}
		if position == 0 || position > office.owner && position < offeredPeople {
			office.members = append(office.members, position)
		}
		if position != walkers.owner && position%2 == 0 {
			walkers.members = append(walkers.members, position)
		}
	}
	return slices.DeleteFunc([]circle{family, office, walkers}, func(c circle) bool { return c.owner >= len(p.ids) })
}

// makeGroups makes the demo's groups, whose members join by invite code, and lets some of them compete.
func (s *simulation) makeGroups(ctx context.Context) error {
	today := s.walkDay.day
	competition := teams.Definition{
		ID: "spring-walk", Board: stepsBoard, Name: "Spring walk", First: today - competitionBegan, Last: today + competitionLeft,
		Cap: competitionCap, Measure: models.MeasureScore, Team: models.TeamMean,
	}
	for _, c := range s.circles() {
		settings := groups.Settings{Name: c.name}
		if c.challenge {
			settings.Challenge = &groups.Challenge{From: today - challengeBegan, To: today + challengeLeft}
		}
		group, err := s.app.Groups.Create(ctx, s.ids[c.owner], settings)
		if err != nil {
			return err
		}
		for _, position := range c.members {
			if _, err := s.app.Groups.Join(ctx, s.ids[position], *group.InviteCode); err != nil {
				return err
			}
		}
		if c.competes {
			competition.Groups = append(competition.Groups, group.ID)
		}
	}
	_, err := s.app.Teams.Put(ctx, competition)
	return err
}
