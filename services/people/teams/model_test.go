//go:build !race

package teams_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/groups"
	"stepboard/services/people/teams"
)

// plan is a competition of the model: who is in which team, and who counts for which team on each day,
// days to come included.
type plan struct {
	teams.Definition

	code string
	in   map[models.RowID]models.GroupID
	days map[models.RowID]map[models.Date]models.GroupID
}

// fill makes a person count from a day on.
func (p *plan) fill(user models.RowID, group models.GroupID, from models.Date) {
	p.in[user] = group
	if p.days[user] == nil {
		p.days[user] = make(map[models.Date]models.GroupID)
	}
	for day := from; day <= p.Last; day++ {
		p.days[user][day] = group
	}
}

// enter makes a group a team.
func (p *plan) enter(group models.GroupID, members []models.RowID) {
	p.Groups = append(p.Groups, group)
	for _, user := range members {
		if _, busy := p.in[user]; busy {
			continue
		}
		from := p.First
		for day := range p.days[user] {
			from = max(from, day+1)
		}
		p.fill(user, group, from)
	}
}

// leave makes a group no team any more.
func (p *plan) leave(group models.GroupID) {
	p.Groups = slices.DeleteFunc(p.Groups, func(id models.GroupID) bool { return id == group })
	maps.DeleteFunc(p.in, func(_ models.RowID, id models.GroupID) bool { return id == group })
	for _, days := range p.days {
		maps.DeleteFunc(days, func(_ models.Date, id models.GroupID) bool { return id == group })
	}
}

// change is what has become of the members of a team.
func (p *plan) change(group models.GroupID, left, joined []models.RowID, byCode bool, today models.Date) {
	if today > p.Last || !slices.Contains(p.Groups, group) {
		return
	}
	for _, user := range left {
		if p.in[user] == group {
			delete(p.in, user)
			maps.DeleteFunc(p.days[user], func(day models.Date, _ models.GroupID) bool { return day >= today })
		}
	}
	for _, user := range joined {
		_, busy := p.in[user]
		for _, id := range p.days[user] {
			busy = busy || byCode && id != group
		}
		if !busy {
			p.fill(user, group, max(p.First, today))
		}
	}
}

// world is the service beside the model.
type world struct {
	*fixture

	rt    *rapid.T
	ids   []models.GroupID // of the groups that there are or were: two of users, then two of a backend
	plans map[models.CompetitionID]*plan
}

const people = 6

func (w *world) must(err error) {
	if err != nil {
		w.rt.Fatal(err)
	}
}

func (w *world) user() models.UserID {
	return testenv.ID(rapid.IntRange(1, people).Draw(w.rt, "user"))
}

// members returns the members of each group that exists.
func (w *world) members() map[models.GroupID][]models.RowID {
	var rows []struct {
		ID   models.GroupID `gorm:"column:external_id"`
		User models.RowID   `gorm:"column:user_id"`
	}
	w.must(w.env.Gorm.Raw(`SELECT g.external_id, m.user_id FROM groups g JOIN group_members m ON m.group_id = g.group_id ORDER BY m.user_id`).Scan(&rows).Error)
	members := make(map[models.GroupID][]models.RowID)
	for _, row := range rows {
		members[row.ID] = append(members[row.ID], row.User)
	}
	return members
}

// changeGroup changes a group by one of the ways in which groups change.
func (w *world) changeGroup() {
	ctx, user, other := w.t.Context(), w.user(), w.user()
	slot := rapid.IntRange(0, 3).Draw(w.rt, "group")
	before := w.members()
	byCode := false
	var owner models.UserID
	var stored models.Group
	w.must(w.env.Gorm.Where("external_id = ?", w.ids[slot]).Limit(1).Find(&stored).Error)
	if stored.OwnerID != nil {
		owner = testenv.ID(*stored.OwnerID)
	}
	switch kind := rapid.IntRange(0, 9).Draw(w.rt, "change"); {
	case slot >= 2:
		wanted := rapid.SliceOfNDistinct(rapid.IntRange(1, people), 0, 4, rapid.ID).Draw(w.rt, "members")
		w.must(w.groups.Replace(ctx, w.ids[slot], groups.Replacement{Members: testenv.IDs(wanted...)}))
	case owner == "":
		w.ids[slot] = testenv.Must(w.groups.Create(ctx, user, groups.Settings{Name: "Family"})).ID
	case kind < 5:
		byCode = true
		testenv.Must(w.groups.Join(ctx, user, *stored.InviteCode))
	case kind < 7:
		w.must(w.groups.Remove(ctx, user, w.ids[slot], user))
	case kind < 9:
		w.must(w.groups.Remove(ctx, owner, w.ids[slot], other))
	default:
		w.must(w.groups.Delete(ctx, owner, w.ids[slot]))
	}
	w.follow(before, byCode)
}

// follow changes the model by what has become of the groups.
func (w *world) follow(before map[models.GroupID][]models.RowID, byCode bool) {
	after := w.members()
	for _, p := range w.plans {
		for id, had := range before {
			if after[id] == nil {
				p.leave(id)
			} else {
				p.change(id, models.RowsWithout(had, after[id]), models.RowsWithout(after[id], had), byCode, w.today)
			}
		}
	}
}

// erase erases a user. Somebody else has the row afterwards.
func (w *world) erase() {
	user := models.RowID(rapid.IntRange(1, people).Draw(w.rt, "erased"))
	before := w.members()
	_, err := w.groups.Erase(w.t.Context(), user)
	w.must(err)
	w.follow(before, false)
	w.must(w.env.Gorm.Exec(`DELETE FROM competition_members WHERE user_id = ?`, user).Error)
	for _, p := range w.plans {
		delete(p.in, user)
		delete(p.days, user)
	}
}

// define defines a competition, or another one of the id.
func (w *world) define() {
	members := w.members()
	d := definition()
	d.ID = rapid.SampledFrom([]models.CompetitionID{"a", "b"}).Draw(w.rt, "competition")
	d.First = w.today + models.Date(rapid.IntRange(-3, 3).Draw(w.rt, "first"))
	d.Last = d.First + models.Date(rapid.IntRange(2, 9).Draw(w.rt, "days"))
	if rapid.Bool().Draw(w.rt, "teams") {
		there := slices.DeleteFunc(slices.Clone(w.ids), func(id models.GroupID) bool { return members[id] == nil })
		d.Groups = rapid.Permutation(there).Draw(w.rt, "groups")
		d.Groups = d.Groups[:rapid.IntRange(len(d.Groups)/2, len(d.Groups)).Draw(w.rt, "how many")]
	}
	p := w.plans[d.ID]
	if p == nil {
		p = &plan{Definition: d, in: make(map[models.RowID]models.GroupID), days: make(map[models.RowID]map[models.Date]models.GroupID)}
		p.Groups, w.plans[d.ID] = nil, p
	}
	planned := w.today < p.First
	if rapid.IntRange(0, 3).Draw(w.rt, "other days") > 0 {
		d.First, d.Last = p.First, p.Last
	}
	c, err := w.Put(w.t.Context(), d)
	if !planned && (d.First != p.First || d.Last != p.Last) {
		if models.CodeOf(err) != models.CodeCompetitionStarted {
			w.rt.Fatalf("other days of a competition that has begun: %v", err)
		}
		return
	}
	w.must(err)
	p.code, p.First, p.Last = *c.JoinCode, d.First, d.Last
	if planned {
		for user, group := range p.in {
			delete(p.days, user)
			p.fill(user, group, p.First)
		}
	}
	if d.Groups == nil {
		return
	}
	for _, id := range slices.Clone(p.Groups) {
		if !slices.Contains(d.Groups, id) {
			p.leave(id)
		}
	}
	for _, id := range d.Groups {
		if !slices.Contains(p.Groups, id) {
			p.enter(id, members[id])
		}
	}
}

// join enters a group of its owner.
func (w *world) join() {
	var group models.Group
	w.must(w.env.Gorm.Where("external_id = ?", w.ids[rapid.IntRange(0, 1).Draw(w.rt, "group")]).Limit(1).Find(&group).Error)
	for _, id := range slices.Sorted(maps.Keys(w.plans)) {
		p := w.plans[id]
		if group.OwnerID == nil || slices.Contains(p.Groups, group.ID) {
			continue
		}
		_, err := w.Join(w.t.Context(), testenv.ID(*group.OwnerID), p.code, group.ID)
		if begun := w.today >= p.First; begun != (models.CodeOf(err) == models.CodeCompetitionStarted) || !begun && err != nil {
			w.rt.Fatalf("entering a group, %v: %v", begun, err)
		}
		if err == nil {
			p.enter(group.ID, w.members()[group.ID])
		}
	}
}

// compare compares the rows with the model.
func (w *world) compare() {
	for id, p := range w.plans {
		c := testenv.Must(w.Find(w.t.Context(), id))
		names, listed := make(map[models.GroupRow]models.GroupID), []models.GroupID{}
		for _, team := range testenv.Must(w.Teams(w.t.Context(), c.Row)) {
			names[team.Group] = team.ID
			listed = append(listed, team.ID)
		}
		in, days := make(map[string]models.GroupID), make(map[string]models.GroupID)
		for _, row := range testenv.Must(w.Members(w.t.Context(), c.Row)) {
			last := c.Last
			if row.Last != nil {
				last = *row.Last
			} else {
				in[row.User.String()] = names[row.Group]
			}
			for day := row.First; day <= last; day++ {
				key := fmt.Sprint(row.User, day)
				if days[key] != "" {
					w.rt.Fatalf("%d counts twice on %s", row.User, day)
				}
				days[key] = names[row.Group]
			}
		}
		wantIn, wantDays := make(map[string]models.GroupID), make(map[string]models.GroupID)
		for user, group := range p.in {
			wantIn[user.String()] = group
		}
		for user, on := range p.days {
			for day, group := range on {
				wantDays[fmt.Sprint(user, day)] = group
			}
		}
		diff := cmp.Diff(wantIn, in) + cmp.Diff(wantDays, days) + cmp.Diff(slices.Sorted(slices.Values(p.Groups)), slices.Sorted(slices.Values(listed)))
		if diff != "" {
			w.rt.Fatalf("%s on %s (-model +stored):\n%s", id, w.today, diff)
		}
	}
}

// Whatever happens to groups and competitions, each person counts on each day for the team that a model
// says.
func TestWhoCountsWhere(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, people)
		rapid.Check(t, func(rt *rapid.T) {
			for _, table := range []string{"competitions", "competition_teams", "competition_members", "group_members", "groups"} {
				if err := env.Gorm.Exec(`DELETE FROM ` + table).Error; err != nil {
					rt.Fatal(err)
				}
			}
			f.today = start
			w := &world{f, rt, []models.GroupID{"none", "none", "x", "y"}, make(map[models.CompetitionID]*plan)}
			for range 4 {
				w.changeGroup()
			}
			w.define()
			for range rapid.IntRange(10, 30).Draw(rt, "steps") {
				switch kind := rapid.IntRange(0, 11).Draw(rt, "step"); {
				case kind < 6:
					w.changeGroup()
				case kind < 7:
					w.erase()
				case kind < 9:
					w.define()
				case kind < 10:
					w.join()
				default:
					f.today++
				}
				w.compare()
			}
		})
	})
}
