package simulation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// competitions holds what is known of the competitions of groups.
type competitions struct {
	random *rand.Rand
	known  map[models.CompetitionRow]*competition
	// asked is the definition that a step sends, entering and group are the competition and the group that
	// it enters, and ended is the competition that it deletes.
	asked    *definition
	entering models.CompetitionRow
	group    models.GroupRow
	ended    models.CompetitionID
	// members are those of each group as of the last look.
	members map[models.GroupRow][]models.RowID
	// looked says when a replica was last asked for a standing, by its clock.
	looked map[string]time.Time
	// decisions counts what operators have decided about scores, and what else may change an archived day: each once
	// when it begins, and once when it ends.
	decisions int
}

// definition is what a backend has said of a competition. Its groups are nil if they stay.
type definition struct {
	models.Competition
	open   bool
	groups []models.GroupRow
}

// competition is one with a memory of its own: who counts for which team on each day, days to come included.
type competition struct {
	models.Competition
	groups []models.GroupRow
	in     map[models.RowID]models.GroupRow
	days   map[models.RowID]map[models.Date]models.GroupRow
	// unsure says that it has changed at a moment at which replicas may not have had the same day.
	unsure bool
	// final is the first final standing; nil unless a round without faults has made it.
	final *expectedStanding
	// decisions is how many there were when it became final.
	decisions int
}

func newCompetitions(seed uint64) competitions {
	return competitions{
		random: rand.New(rand.NewPCG(seed, 6)), known: make(map[models.CompetitionRow]*competition),
		members: make(map[models.GroupRow][]models.RowID), looked: make(map[string]time.Time),
	}
}

// compete takes a step about competitions, or none.
func (w *world) compete() {
	others := w.random
	w.random = w.competing.random
	defer func() { w.random = others }()
	r := w.replicas[w.random.IntN(len(w.replicas))]
	if w.random.IntN(2) > 0 || r.app == nil || w.failure != nil {
		return
	}
	a := pick(w, []action{
		{"create a group", 1, false, (*world).createTeam},
		{"join a group", 4, false, (*world).joinGroup},
		{"leave a group", 3, false, (*world).leaveGroup},
		{"replace members", 1, false, (*world).replaceMembers},
		{"define a competition", 4, true, (*world).defineCompetition},
		{"delete a competition", 1, true, (*world).deleteCompetition},
		{"enter a competition", 3, true, (*world).enterCompetition},
		{"competitions", 3, true, func(w *world, ctx context.Context, r *replica) { w.doRound(ctx, r, "competitions") }},
		{"compare standings", 5, true, (*world).compareStandings},
	}, func(a action) int { return a.weight })
	p := plan{}
	if a.name != "compare standings" && w.random.IntN(3) == 0 {
		p = w.broken(r, a)
	}
	w.take(r, a, p)
	w.competing.asked, w.competing.entering, w.competing.ended = nil, 0, ""
}

// list returns the known competitions, ordered by row.
func (c *competitions) list() (list []*competition) {
	for _, row := range slices.Sorted(maps.Keys(c.known)) {
		list = append(list, c.known[row])
	}
	return list
}

// groupsNow returns the groups that exist, and their rows in order.
func (w *world) groupsNow() (rows []models.GroupRow, of map[models.GroupRow]models.Group) {
	var found []models.Group
	check(w.truth.Gorm.Order("group_id").Find(&found).Error)
	of = make(map[models.GroupRow]models.Group)
	for _, g := range found {
		rows = append(rows, g.Row)
		of[g.Row] = g
	}
	return rows, of
}

// createTeam creates a group, if there are few.
func (w *world) createTeam(ctx context.Context, r *replica) {
	if rows, _ := w.groupsNow(); len(rows) < 4 {
		w.createGroup(ctx, r)
	}
}

// defineCompetition defines one of two competitions, or changes it.
func (w *world) defineCompetition(ctx context.Context, r *replica) {
	today, limit := dayOf(w.now(r)), w.model.started+6
	d := definition{open: w.random.IntN(3) > 0}
	d.ID, d.Board, d.Name = []models.CompetitionID{"spring", "autumn"}[w.random.IntN(2)], "steps", fmt.Sprintf("walk %d", w.random.IntN(3))
	d.First = min(limit, max(w.model.started, today+models.Date(w.random.IntN(5)-2)))
	d.Last = min(limit, d.First+models.Date(w.random.IntN(5)))
	d.Measure, d.Team, d.Cap = models.MeasureScore, []models.TeamMeasure{models.TeamMean, models.TeamSum}[w.random.IntN(2)], int64(150*w.random.IntN(2))
	if w.random.IntN(3) == 0 {
		d.Measure, d.Goal, d.Cap = models.MeasureGoalDays, 100, 0
	}
	rows, groups := w.groupsNow()
	if w.random.IntN(4) > 0 {
		w.random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		d.groups = append([]models.GroupRow{}, rows[:min(len(rows), 1+w.random.IntN(3))]...)
	}
	var had *competition
	for _, c := range w.competing.list() {
		if c.ID == d.ID {
			had = c
		}
	}
	if had != nil && w.random.IntN(4) > 0 {
		d.First, d.Last, d.Measure, d.Team, d.Cap, d.Goal = had.First, had.Last, had.Measure, had.Team, had.Cap, had.Goal
	}
	want := http.StatusOK
	if had != nil && (today >= had.First && !sameRule(had.Competition, d.Competition) || had.Revision > 0 && d.groups != nil && !sameGroups(d.groups, had.groups)) {
		want = http.StatusConflict
	}
	body := map[string]any{"board": d.Board, "name": d.Name, "from": d.First.String(), "to": d.Last.String(), "measure": d.Measure, "team": d.Team, "cap": d.Cap, "goal": d.Goal, "open": d.open}
	if d.groups != nil {
		ids := []models.GroupID{}
		for _, row := range d.groups {
			ids = append(ids, groups[row].ID)
		}
		body["groups"] = ids
	}
	w.competing.asked = &d
	same, sure := w.undisturbed(), w.sameDay()
	got := w.competitionCall(ctx, r, w.token("backend", auth.ScopeService), "PUT", "/v1/competitions/"+string(d.ID), string(must(json.Marshal(body))))
	w.lookAtTeams(r)
	if got.unknown() || !same() || !sure || had != nil && had.unsure {
		return
	}
	if got.status != want {
		w.failf("status %d, want %d", got.status, want)
	}
	if got.status == http.StatusOK && !slices.ContainsFunc(w.competing.list(), func(c *competition) bool { return c.is(d) && (d.groups == nil || sameGroups(d.groups, c.groups)) }) {
		w.failf("%s is not what was defined", d.ID)
	}
}

// sameDay reports whether all replicas have the same day.
func (w *world) sameDay() bool {
	return dayOf(w.clock.Now().Add(-skewLimit)) == dayOf(w.clock.Now().Add(skewLimit))
}

func sameRule(a, b models.Competition) bool {
	return a.First == b.First && a.Last == b.Last && a.Measure == b.Measure && a.Team == b.Team && a.Cap == b.Cap && a.Goal == b.Goal
}

func sameGroups(a, b []models.GroupRow) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// is reports whether a competition is what was defined, groups apart.
func (c *competition) is(d definition) bool {
	return c.ID == d.ID && c.Name == d.Name && sameRule(c.Competition, d.Competition) && d.open == (c.JoinCode != nil)
}

func (w *world) deleteCompetition(ctx context.Context, r *replica) {
	id := []models.CompetitionID{"spring", "autumn"}[w.random.IntN(2)]
	w.competing.ended = id
	same := w.undisturbed()
	got := w.call(ctx, r, w.token("backend", auth.ScopeService), "DELETE", "/v1/competitions/"+string(id), "")
	w.lookAtTeams(r)
	there := slices.ContainsFunc(w.competing.list(), func(c *competition) bool { return c.ID == id })
	if !got.unknown() && same() && (got.status != http.StatusNoContent || there) {
		w.failf("status %d, and %s is there: %v", got.status, id, there)
	}
}

// enterCompetition lets the owner of a group enter it by the code of a competition.
func (w *world) enterCompetition(ctx context.Context, r *replica) {
	list := slices.DeleteFunc(w.competing.list(), func(c *competition) bool { return c.JoinCode == nil })
	rows, groups := w.groupsNow()
	rows = slices.DeleteFunc(rows, func(row models.GroupRow) bool { return groups[row].OwnerID == nil })
	if len(list) == 0 || len(rows) == 0 {
		return
	}
	c, group := list[w.random.IntN(len(list))], groups[rows[w.random.IntN(len(rows))]]
	user := w.userOf(*group.OwnerID)
	if user == "" {
		return
	}
	w.competing.entering, w.competing.group = c.Row, group.Row
	want := http.StatusOK
	if !slices.Contains(c.groups, group.Row) && dayOf(w.now(r)) >= c.First {
		want = http.StatusConflict
	}
	same, unsure := w.undisturbed(), w.late(r) || !w.sameDay() || c.unsure
	body := fmt.Sprintf(`{"code":%q,"group_id":%q}`, *c.JoinCode, group.ID)
	got := w.competitionCall(ctx, r, w.token(user, ""), "POST", "/v1/competitions/join", body)
	w.lookAtTeams(r)
	if got.unknown() || unsure || !same() {
		return
	}
	if in := slices.Contains(c.groups, group.Row); got.status != want || in != (want == http.StatusOK) {
		w.failf("status %d, want %d; the group is in: %v", got.status, want, in)
	}
}

// competitionCall makes a call that may look at standings.
func (w *world) competitionCall(ctx context.Context, r *replica, token, method, path, body string) reply {
	got := w.call(ctx, r, token, method, path, body)
	for _, c := range w.competing.known {
		w.competing.looked[r.name+fmt.Sprint(c.Row)] = w.now(r)
	}
	return got
}

// lookAtTeams reads what the database has of groups and competitions, which one step of r has changed, and
// compares who counts in them with the model.
func (w *world) lookAtTeams(r *replica) {
	var found []models.Competition
	check(w.truth.Gorm.Order("competition_id").Find(&found).Error)
	var pairs []models.TeamMember
	check(w.truth.Gorm.Raw(`SELECT m.group_id, m.user_id FROM group_members m JOIN users u ON u.user_id = m.user_id ORDER BY m.group_id, m.user_id`).Scan(&pairs).Error)
	before, now := w.competing.members, make(map[models.GroupRow][]models.RowID)
	for _, m := range pairs {
		now[m.Group] = append(now[m.Group], m.User)
	}
	w.competing.members = now
	if len(found)+len(w.competing.known) == 0 {
		return
	}
	_, groups := w.groupsNow()
	for _, c := range w.competing.list() {
		if !slices.ContainsFunc(found, func(f models.Competition) bool { return f.Row == c.Row }) {
			if w.competing.ended != c.ID {
				w.failf("%s is deleted, which nobody has asked for", c.ID)
			}
			delete(w.competing.known, c.Row)
			continue
		}
		c.follow(before, now, groups, dayOf(w.now(r)), w.sameDay())
	}
	for _, f := range found {
		w.lookAtCompetition(f)
	}
}

// follow changes who counts by what has become of the groups.
func (c *competition) follow(before, now map[models.GroupRow][]models.RowID, groups map[models.GroupRow]models.Group, today models.Date, sure bool) {
	for _, group := range slices.Clone(c.groups) {
		g, exists := groups[group]
		left, joined := models.RowsWithout(before[group], now[group]), models.RowsWithout(now[group], before[group])
		switch {
		case c.Revision > 0, exists && (today > c.Last || len(left)+len(joined) == 0):
			continue
		case !exists:
			c.leave(group)
			continue
		}
		c.unsure = c.unsure || !sure
		for _, user := range left {
			if c.in[user] == group {
				delete(c.in, user)
				maps.DeleteFunc(c.days[user], func(day models.Date, _ models.GroupRow) bool { return day >= today })
			}
		}
		for _, user := range joined {
			_, busy := c.in[user]
			for _, other := range c.days[user] {
				busy = busy || g.InviteCode != nil && other != group
			}
			if !busy {
				c.fill(user, group, max(c.First, today))
			}
		}
	}
}

// fill makes a person count from a day on.
func (c *competition) fill(user models.RowID, group models.GroupRow, from models.Date) {
	c.in[user] = group
	if c.days[user] == nil {
		c.days[user] = make(map[models.Date]models.GroupRow)
	}
	for day := from; day <= c.Last; day++ {
		c.days[user][day] = group
	}
}

// leave makes a group no team any more.
func (c *competition) leave(group models.GroupRow) {
	c.groups = slices.DeleteFunc(c.groups, func(g models.GroupRow) bool { return g == group })
	maps.DeleteFunc(c.in, func(_ models.RowID, g models.GroupRow) bool { return g == group })
	for _, days := range c.days {
		maps.DeleteFunc(days, func(_ models.Date, g models.GroupRow) bool { return g == group })
	}
}

// lookAtCompetition compares a competition with the model. If it differs, somebody must have asked for it.
func (w *world) lookAtCompetition(f models.Competition) {
	c := w.competing.known[f.Row]
	if c == nil {
		c = &competition{Competition: models.Competition{Row: f.Row}, in: make(map[models.RowID]models.GroupRow), days: make(map[models.RowID]map[models.Date]models.GroupRow)}
		w.competing.known[f.Row] = c
	}
	var teams []models.GroupRow
	check(w.truth.Gorm.Raw(`SELECT group_id FROM competition_teams WHERE competition_id = ? ORDER BY entered_at, group_id`, f.Row).Scan(&teams).Error)
	was := c.Competition
	c.Competition = f
	if f.JoinCode != nil {
		w.names[*f.JoinCode] = "code of " + string(f.ID)
	}
	if f.Revision > was.Revision {
		if f.Revision != 1 {
			w.failf("%s has revision %d", f.ID, f.Revision)
		}
		w.model.outcomes[fmt.Sprintf("competition.final %s %d", f.ID, f.Revision)]++
		c.decisions = w.decisions()
	}
	if was.Revision > 0 {
		return
	}
	w.redefine(c, was, teams)
	w.compareMembers(c)
}

// redefine gives the model of a competition the definition and the teams that the database has. Somebody
// must have asked for what has changed.
func (w *world) redefine(c *competition, was models.Competition, teams []models.GroupRow) {
	entering := teams
	switch d := w.competing.asked; {
	case sameRule(was, c.Competition) && was.Name == c.Name && (was.JoinCode == nil) == (c.JoinCode == nil) && sameGroups(teams, c.groups):
		return
	case d != nil && c.is(*d) && (d.groups == nil || sameGroups(d.groups, teams)):
		if d.groups != nil {
			entering = d.groups
		}
	case w.competing.entering == c.Row && was.ID != "" && c.is(definition{was, was.JoinCode != nil, nil}) && sameGroups(teams, append(slices.Clone(c.groups), w.competing.group)):
	default:
		w.failf("%s of %v is now %+v of %v, which nobody has asked for", c.ID, c.groups, c.Competition, teams)
	}
	if !sameRule(was, c.Competition) && was.ID != "" && dayOf(w.clock.Now().Add(-skewLimit)) >= was.First {
		w.failf("%s had begun and changes from %v to %v", c.ID, was, c.Competition)
	}
	if was.First != c.First || was.Last != c.Last {
		for user, group := range c.in {
			delete(c.days, user)
			c.fill(user, group, c.First)
		}
	}
	for _, group := range slices.Clone(c.groups) {
		if !slices.Contains(teams, group) {
			c.leave(group)
		}
	}
	for _, group := range entering {
		if !slices.Contains(c.groups, group) {
			c.enter(group, w.competing.members[group])
		}
	}
}

// enter makes a group a team.
func (c *competition) enter(group models.GroupRow, members []models.RowID) {
	c.groups = append(c.groups, group)
	for _, user := range members {
		if _, busy := c.in[user]; busy {
			continue
		}
		from := c.First
		for day := range c.days[user] {
			from = max(from, day+1)
		}
		c.fill(user, group, from)
	}
}

// compareMembers compares who counts in a competition, apart from those who were erased, with the model.
func (w *world) compareMembers(c *competition) {
	var rows []models.TeamMember
	check(w.truth.Gorm.Where("competition_id = ? AND user_id IN (SELECT user_id FROM users)", c.Row).Find(&rows).Error)
	users := w.usersNow()
	gone := func(user models.RowID) bool { return users[user].User == "" }
	maps.DeleteFunc(c.in, func(user models.RowID, _ models.GroupRow) bool { return gone(user) })
	maps.DeleteFunc(c.days, func(user models.RowID, _ map[models.Date]models.GroupRow) bool { return gone(user) })
	if c.unsure {
		return
	}
	in, days := make(map[models.RowID]models.GroupRow), make(map[models.RowID]map[models.Date]models.GroupRow)
	for _, row := range rows {
		last := c.Last
		if row.Last != nil {
			last = *row.Last
		} else {
			in[row.User] = row.Group
		}
		for day := row.First; day <= last; day++ {
			if days[row.User] == nil {
				days[row.User] = make(map[models.Date]models.GroupRow)
			}
			if days[row.User][day] != 0 {
				w.failf("%s counts twice on %s", users[row.User].User, day)
			}
			days[row.User][day] = row.Group
		}
	}
	maps.DeleteFunc(c.days, func(_ models.RowID, days map[models.Date]models.GroupRow) bool { return len(days) == 0 })
	if !maps.Equal(in, c.in) || !maps.EqualFunc(days, c.days, maps.Equal) {
		w.failf("in %s are %v on %v, and must be %v on %v", c.ID, in, days, c.in, c.days)
	}
}

// usersNow returns the users that exist.
func (w *world) usersNow() map[models.RowID]models.User {
	var found []models.User
	check(w.truth.Gorm.Find(&found).Error)
	users := make(map[models.RowID]models.User)
	for _, u := range found {
		users[u.Row] = u
	}
	return users
}

// total is what a person or a team has.
type total struct {
	group                models.GroupRow
	user                 models.RowID
	score, days, counted int64
	rose, least          models.Timestamp
	present              int64
}

// add adds the score of a day.
func (t *total) add(points int64, at models.Timestamp) {
	t.score += points
	t.days++
	if points > 0 {
		t.rose = max(t.rose, at)
	}
	if t.least == 0 || at < t.least {
		t.least = at
	}
}

func (t *total) at() models.Timestamp {
	if t.score == 0 {
		return t.least
	}
	return t.rose
}

// expectedStanding is what the rule makes of scores: teams and people, first is first.
type expectedStanding struct {
	teams, people []*total
	in            map[models.RowID]models.GroupRow
	ids           map[models.GroupRow]models.GroupID
	begun         int64
}

// shownScores returns what a replica shows each user of the own days; false if it does not show all.
func (w *world) shownScores(ctx context.Context, r *replica) (map[models.RowID]map[models.Date]*value, bool) {
	all := make(map[models.RowID]map[models.Date]*value)
	for _, user := range people {
		days, ok := w.checkHistory(ctx, r, user, false)
		if !ok {
			return nil, false
		}
		all[w.row(user)] = days
	}
	return all, true
}

// expected computes the standing of a competition.
func (w *world) expected(c *competition, shown map[models.RowID]map[models.Date]*value, today models.Date) *expectedStanding {
	users := w.usersNow()
	type key struct {
		user  models.RowID
		group models.GroupRow
	}
	e := &expectedStanding{in: maps.Clone(c.in), ids: make(map[models.GroupRow]models.GroupID), begun: int64(max(0, min(today, c.Last)-c.First+1))}
	_, groups := w.groupsNow()
	teams, persons := make(map[models.GroupRow]*total), make(map[key]*total)
	for _, group := range c.groups {
		teams[group] = &total{group: group}
		e.ids[group] = groups[group].ID
		e.teams = append(e.teams, teams[group])
	}
	for user, group := range c.in {
		teams[group].present++
		persons[key{user, group}] = &total{group: group, user: user, present: 1}
	}
	for user, days := range c.days {
		for day, group := range days {
			if day > today {
				continue
			}
			teams[group].counted++
			v := shown[user][day]
			if v == nil || users[user].Hidden {
				continue
			}
			points := v.score
			switch {
			case c.Measure == models.MeasureGoalDays:
				points = min(points/c.Goal, 1)
			case c.Cap > 0:
				points = min(points, c.Cap)
			}
			teams[group].add(points, v.at)
			if p := persons[key{user, group}]; p != nil {
				p.add(points, v.at)
			}
		}
	}
	for _, p := range persons {
		if p.days > 0 {
			e.people = append(e.people, p)
		}
	}
	if c.Team == models.TeamSum {
		for _, t := range e.teams {
			t.counted = 0
		}
	}
	slices.SortFunc(e.teams, func(a, b *total) int {
		return cmp.Or(cmp.Compare(b.score*max(a.counted, 1), a.score*max(b.counted, 1)), cmp.Compare(a.rose, b.rose), cmp.Compare(e.ids[a.group], e.ids[b.group]))
	})
	slices.SortFunc(e.people, func(a, b *total) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.at(), b.at()), b.user.CompareText(a.user))
	})
	return e
}

// teamLine is a team in an answer, and personLine a person.
type teamLine struct {
	Rank    int64          `json:"rank"`
	GroupID models.GroupID `json:"group_id"`
	Score   *int64         `json:"score"`
	Members int64          `json:"members"`
}

func (l *teamLine) String() string {
	if l == nil {
		return "none"
	}
	return fmt.Sprintf("%d. %s of %d: %d", l.Rank, l.GroupID, l.Members, *l.Score)
}

type personLine struct {
	Rank      int64             `json:"rank"`
	UserID    *models.UserID    `json:"user_id"`
	GroupID   *models.GroupID   `json:"group_id"`
	Score     int64             `json:"score"`
	Days      int64             `json:"days"`
	ReachedAt *models.Timestamp `json:"reached_at"`
}

func (l personLine) String() string {
	who := "somebody"
	if l.UserID != nil {
		who = fmt.Sprintf("%s of %s", *l.UserID, *l.GroupID)
	}
	return fmt.Sprintf("%d. %s: %d on %d days at %d", l.Rank, who, l.Score, l.Days, *l.ReachedAt)
}

// team returns the line of a team.
func (e *expectedStanding) team(i int) *teamLine {
	t := e.teams[i]
	score := t.score
	if t.counted > 0 {
		score = t.score * e.begun / t.counted
	}
	return &teamLine{int64(i) + 1, e.ids[t.group], &score, t.present}
}

// compareStandings lets a replica compute all standings, and compares them with the model.
func (w *world) compareStandings(ctx context.Context, r *replica) {
	if r.staleness > 0 || len(w.competing.known) == 0 {
		return
	}
	running := make(map[models.CompetitionRow]bool)
	for _, c := range w.competing.list() {
		running[c.Row] = c.Revision == 0
	}
	w.doRound(ctx, r, "users") // it may not have heard of who hides, and of who was erased, since the last one
	w.doRound(ctx, r, "competitions")
	w.lookAtTeams(r)
	shown, ok := w.shownScores(ctx, r)
	if !ok || w.late(r) {
		return
	}
	now := models.TimestampOf(w.now(r))
	for _, c := range w.competing.list() {
		var asOf []time.Time
		check(w.truth.Gorm.Raw(`SELECT as_of FROM standings WHERE competition_id = ? ORDER BY revision DESC`, c.Row).Scan(&asOf).Error)
		if len(asOf) == 0 || running[c.Row] && models.TimestampOf(asOf[0]) != now {
			return // the round did not reach a store
		}
		e := c.final
		if running[c.Row] && !c.unsure {
			e = w.expected(c, shown, dayOf(w.now(r)))
		}
		if c.Revision > 0 {
			c.final = e
		}
		if e == nil {
			continue
		}
		name := r.name + fmt.Sprint(c.Row)
		fresh := w.now(r).Sub(w.competing.looked[name]).Abs() >= time.Second
		w.competing.looked[name] = w.now(r)
		if fresh {
			w.compareStanding(ctx, r, c, e, "")
			w.compareStanding(ctx, r, c, e, people[w.competing.random.IntN(len(people))])
		}
	}
}

// followStandings lets a replica compare the standings while some are not final.
func (w *world) followStandings(r *replica) {
	if slices.ContainsFunc(w.competing.list(), func(c *competition) bool { return c.Revision == 0 }) {
		w.take(r, action{"compare standings", 0, true, (*world).compareStandings}, plan{})
	}
}

// compareStanding compares what a viewer, empty for a backend, is shown of a competition with the model.
func (w *world) compareStanding(ctx context.Context, r *replica, c *competition, e *expectedStanding, viewer models.UserID) {
	path, token, row := "/v1/competitions/"+string(c.ID), w.token("backend", auth.ScopeService), models.RowID(0)
	member := viewer == ""
	if viewer != "" {
		token, row = w.token(viewer, ""), w.row(viewer)
		member = slices.ContainsFunc(c.groups, func(g models.GroupRow) bool { return slices.Contains(w.competing.members[g], row) })
	}
	got := w.call(ctx, r, token, "GET", path, "")
	switch {
	case got.unknown():
		return
	case member != (got.status == http.StatusOK), !member && got.status != http.StatusNotFound:
		w.failf("status %d; %s is a member of a team: %v", got.status, viewer, member)
	case !member:
		return
	}
	view := decode[struct {
		State  string      `json:"state"`
		Me     *personLine `json:"me"`
		MyTeam *teamLine   `json:"my_team"`
	}](w, got.body)
	state := map[bool]string{true: "closing", false: "running"}[dayOf(w.now(r)) > c.Last]
	if dayOf(w.now(r)) < c.First {
		state = "planned"
	}
	if c.Revision > 0 {
		state = "final"
	}
	if view.State != state {
		w.failf("%s is %s, and must be %s", c.ID, view.State, state)
	}
	var wantTeams, wantPeople []string
	var mine *teamLine
	for i, t := range e.teams {
		wantTeams = append(wantTeams, e.team(i).String())
		if row != 0 && e.in[row] == t.group {
			mine = e.team(i)
		}
	}
	wantMe, users := "", w.usersNow()
	for i, p := range e.people {
		at, id := p.at(), e.ids[p.group]
		l := personLine{Rank: int64(i) + 1, Score: p.score, Days: p.days, ReachedAt: &at}
		if u := users[p.user]; u.User != "" && (p.user == row || !u.Hidden && !w.model.notShown(viewer, u.User)) {
			l.UserID, l.GroupID = &u.User, &id
		}
		if row != 0 && p.user == row {
			wantMe = fmt.Sprintf("%d. %s: %d on %d days", l.Rank, id, l.Score, l.Days)
		}
		wantPeople = append(wantPeople, l.String())
	}
	if view.MyTeam.String() != mine.String() {
		w.failf("%s is shown the team %v, and must be %v", viewer, view.MyTeam, mine)
	}
	me := ""
	if view.Me != nil {
		me = fmt.Sprintf("%d. %s: %d on %d days", view.Me.Rank, *view.Me.GroupID, view.Me.Score, view.Me.Days)
	}
	if me != wantMe {
		w.failf("%s is shown the own place %q, and must be %q", viewer, me, wantMe)
	}
	teams, ok := allLines[*teamLine](ctx, w, r, token, path+"/teams")
	if ok && !slices.Equal(teams, wantTeams) {
		w.failf("the teams of %s are %v, and must be %v", c.ID, teams, wantTeams)
	}
	people, ok := allLines[personLine](ctx, w, r, token, path+"/people")
	if ok && !slices.Equal(people, wantPeople) && !w.oldSets(r) {
		w.failf("the people of %s shown to %q are %v, and must be %v", c.ID, viewer, people, wantPeople)
	}
}

// allLines reads all pages of a standing. ok is false if one of them could not be read.
func allLines[T fmt.Stringer](ctx context.Context, w *world, r *replica, token, path string) (lines []string, ok bool) {
	cursor := ""
	for {
		got := w.call(ctx, r, token, "GET", path+"?limit=2"+cursor, "")
		if got.status != http.StatusOK {
			if !got.unknown() {
				w.failf("a standing is refused")
			}
			return nil, false
		}
		page := decode[struct {
			Entries []T     `json:"entries"`
			Next    *string `json:"next_cursor"`
		}](w, got.body)
		for _, l := range page.Entries {
			lines = append(lines, l.String())
		}
		if page.Next == nil {
			return lines, true
		}
		cursor = "&cursor=" + url.QueryEscape(*page.Next)
	}
}

// deciding notes a decision about scores, which ends when the returned function is called.
func (w *world) deciding() (done func()) {
	w.competing.decisions++
	return func() { w.competing.decisions++ }
}

// decisions returns how often something has happened that may change an archived day.
func (w *world) decisions() int {
	return w.competing.decisions + len(w.model.erasures) + w.servers
}

// meddle lets operators decide about scores of competitions whose days are all archived, before they become final.
func (w *world) meddle() {
	others := w.random
	w.random = w.competing.random
	defer func() { w.random = others }()
	for _, c := range w.competing.list() {
		r := w.replicas[w.random.IntN(len(w.replicas))]
		archived := c.Revision == 0
		for day := c.First; day <= c.Last; day++ {
			archived = archived && w.model.archived[day]
		}
		if !archived || r.app == nil || w.random.IntN(3) == 0 {
			continue
		}
		p := plan{}
		a := action{"correct", 1, false, func(w *world, ctx context.Context, r *replica) {
			w.correctDay(ctx, r, w.person(), c.First+models.Date(w.random.IntN(int(c.Last-c.First)+1)))
		}}
		held := slices.DeleteFunc(w.heldRows(), func(h models.Hold) bool { return h.Day < c.First || h.Day > c.Last || h.State != models.HoldOpen })
		if len(held) > 0 && w.random.IntN(4) > 0 {
			h := held[w.random.IntN(len(held))]
			a = action{"release a held total", 1, false, func(w *world, ctx context.Context, r *replica) {
				w.decideThat(ctx, r, h, models.HoldReleased, h.Score)
			}}
			if w.random.IntN(4) > 0 { // a released total may stay unwritten
				p = w.brokenAlone(r, a)
			}
		}
		w.take(r, a, p)
		if w.random.IntN(3) == 0 {
			w.takeRound(r, "holds")
			w.lookAtHolds()
		}
	}
}

// checkFinals checks that all competitions are final, once all of their days are archived, and that none of their days
// has changed since but by a later decision. A queue may apply late what was uploaded before.
func (w *world) checkFinals() {
	for _, c := range w.competing.list() {
		switch {
		case c.Revision != 1:
			w.failf("%s ended on %s and has revision %d", c.ID, c.Last, c.Revision)
		case c.ChangedAt != nil && c.decisions == w.decisions() && !w.queued:
			w.failf("a day of %s has changed since it became final, and nobody has decided anything since", c.ID)
		}
	}
}
