package competitions

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"stepboard/internal/column"
	"stepboard/models"
	"stepboard/services/platform/cursor"
)

// viewer is who asks for a competition.
type viewer struct {
	row models.RowID // 0 for backends and operators
	// team is the team that the viewer is in; 0 for none.
	team models.GroupRow
}

// List returns the competitions of a user, all for an empty one, without lines of the standings, the one
// that begins last first. Two queries.
func (s *Service) List(ctx context.Context, user models.UserID) ([]View, error) {
	var list []models.Competition
	row, err := s.rowOf(ctx, user)
	switch {
	case err != nil:
		return nil, err
	case user == "":
		list, err = s.o.Calls.All(ctx)
	case row != 0:
		list, err = s.o.Calls.OfUser(ctx, row)
	}
	return column.Of(list, func(c models.Competition) View { return View{Competition: c, State: s.state(&c)} }), err
}

func (s *Service) rowOf(ctx context.Context, user models.UserID) (models.RowID, error) {
	if user == "" {
		return 0, nil
	}
	return s.o.Directory.FindOne(ctx, user)
}

// state returns how far a competition is.
func (s *Service) state(c *models.Competition) State {
	today := c.First
	if b, err := s.o.Catalog.Definitions.Board(c.Board); err == nil {
		today = b.Today(s.o.Clock())
	}
	switch {
	case c.Revision > 0:
		return Final
	case today < c.First:
		return Planned
	case today <= c.Last:
		return Running
	default:
		return Closing
	}
}

// find returns a competition and who asks for it. CodeNotFound unless a group of the user is a team in it.
func (s *Service) find(ctx context.Context, user models.UserID, id models.CompetitionID) (models.Competition, viewer, error) {
	var v viewer
	c, err := s.o.Calls.Find(ctx, id)
	if err == nil {
		v.row, err = s.rowOf(ctx, user)
	}
	if err != nil || user == "" {
		return c, v, err
	}
	var own []models.GroupRow
	if v.row != 0 {
		own, err = s.o.Calls.TeamsOf(ctx, c.Row, v.row)
	}
	if err == nil && len(own) == 0 {
		err = models.Errorf(models.CodeNotFound, "there is no competition %s of a group of this user", id)
	}
	return c, v, err
}

// Get returns a competition. CodeNotFound unless a group of the viewer is a team in it. Four queries, those of
// the standing, and one more in the moment in which it becomes final.
func (s *Service) Get(ctx context.Context, user models.UserID, id models.CompetitionID) (View, error) {
	c, v, err := s.find(ctx, user, id)
	if err != nil {
		return View{}, err
	}
	view := View{Competition: c, State: s.state(&c)}
	st, err := s.standing(ctx, &c)
	if errors.Is(err, errFirst) {
		return view, nil
	}
	if err == nil && st.row.Revision > c.Revision { // it has become final since it was read
		c, err = s.o.Calls.Find(ctx, id)
	}
	if err != nil {
		return View{}, err
	}
	view = View{Competition: c, State: s.state(&c), AsOf: &st.row.AsOf}
	if v.row == 0 {
		return view, nil
	}
	if group, ok := st.teamOf[v.row]; ok {
		v.team = group
		line := s.teamLine(&c, st, v, st.of[group])
		view.MyTeam = &line
	}
	if i, ok := st.users[v.row]; ok {
		lines, err := s.people(ctx, st, v, nil, []int{i})
		if err != nil {
			return View{}, err
		}
		view.Me = &lines[0]
	}
	return view, nil
}

// smallTeam is how many people a team has at least whose score strangers are shown, where they may not
// see each other.
const smallTeam = 3

// private reports that a board shows people to nobody but their friends and groups.
func (s *Service) private(c *models.Competition) bool {
	b, err := s.o.Catalog.Definitions.Board(c.Board)
	return err != nil || b.Global == models.AudienceService
}

func (s *Service) teamLine(c *models.Competition, st present, v viewer, i int) TeamLine {
	t := st.teams[i]
	line := TeamLine{Rank: int64(i) + 1, Group: t.ID, Name: t.Name, Members: t.present}
	if v.row == 0 || t.Group == v.team || t.present >= smallTeam || !s.private(c) {
		line.Score = new(t.shown())
	}
	if v.row == 0 {
		line.NotCounting = new(max(0, t.Members-t.present))
	}
	return line
}

// ask finds the standing that a query asks for.
func (s *Service) ask(ctx context.Context, q Query) (c models.Competition, v viewer, st present, err error) {
	if c, v, err = s.find(ctx, q.Viewer, q.ID); err != nil {
		return c, v, st, err
	}
	if st, err = s.standing(ctx, &c); err == nil {
		v.team = st.teamOf[v.row]
	}
	return c, v, st, err
}

// Teams returns a page of the teams. CodeNotFound unless a group of the viewer is a team;
// CodeUnavailable before the first standing.
func (s *Service) Teams(ctx context.Context, q Query) (page Page[TeamLine], err error) {
	c, v, st, err := s.ask(ctx, q)
	if err != nil {
		return page, err
	}
	scope := []string{"competition teams", string(q.ID), string(q.Viewer)}
	after, err := s.o.Cursors.Open(ctx, q.Cursor, scope...)
	if err != nil {
		return page, err
	}
	rank := func(t teamPlace) int64 { return int64(st.of[t.Group]) + 1 }
	first, shown, next := cursor.Cut(st.teams, after, q.Limit,
		func(t teamPlace, at models.Cursor) int { return cmp.Compare(rank(t), at.Key) },
		func(t teamPlace) models.Cursor { return models.Cursor{Key: rank(t)} })
	page = Page[TeamLine]{AsOf: st.row.AsOf, Final: st.row.Revision > 0, Total: int64(len(st.teams)), Entries: []TeamLine{}}
	for i := range shown {
		page.Entries = append(page.Entries, s.teamLine(&c, st, v, first+i))
	}
	page.NextCursor = s.o.Cursors.Next(next, scope...)
	return page, nil
}

// People returns a page of the people of a competition, or of one team, ranked among all. On a board
// whose global lists are for backends, users see those of their own team: CodeForbidden for another one.
// CodeNotFound unless a group of the viewer is a team, or if the group is none; CodeUnavailable before
// the first standing.
func (s *Service) People(ctx context.Context, q Query) (page Page[Person], err error) {
	c, v, st, err := s.ask(ctx, q)
	if err != nil {
		return page, err
	}
	only := models.GroupRow(0)
	if q.Group != "" {
		i := slices.IndexFunc(st.teams, func(t teamPlace) bool { return t.ID == q.Group })
		if i < 0 {
			return page, models.Errorf(models.CodeNotFound, "the group %s is no team of the competition", q.Group)
		}
		only = st.teams[i].Group
	}
	if v.row != 0 && s.private(&c) {
		if only != 0 && only != v.team {
			return page, models.Errorf(models.CodeForbidden, "people of other teams are not shown on this board")
		}
		if only = v.team; only == 0 {
			only = -1 // none
		}
	}
	notShown := make(map[models.RowID]bool)
	if v.row != 0 {
		rows, _, err := s.o.Privacy.NotShown(ctx, v.row)
		if err != nil {
			return page, err
		}
		for _, row := range rows {
			notShown[row] = true
		}
	}
	var listed []int
	for i, p := range st.people {
		// The list of a team would tell in which an anonymous person is. Who was erased is in no list of the next standing.
		anonymous := v.row != 0 && p.User != v.row && (p.User == 0 || st.hidden[p.User] || notShown[p.User]) ||
			st.row.Revision == 0 && s.o.Rules.Erased(p.User)
		if only == 0 || p.group == only && !anonymous {
			listed = append(listed, i)
		}
	}
	scope := []string{"competition people", string(q.ID), strconv.Itoa(int(only)), string(q.Viewer)}
	after, err := s.o.Cursors.Open(ctx, q.Cursor, scope...)
	if err != nil {
		return page, err
	}
	_, shown, next := cursor.Cut(listed, after, q.Limit,
		func(i int, at models.Cursor) int { return st.people[i].ComparePosition(at) },
		func(i int) models.Cursor { return st.people[i].Position() })
	page = Page[Person]{
		AsOf: st.row.AsOf, Final: st.row.Revision > 0, Total: int64(len(listed)), NextCursor: s.o.Cursors.Next(next, scope...),
	}
	page.Entries, err = s.people(ctx, st, v, notShown, shown)
	return page, err
}

// people returns lines of a standing, by index, as a viewer is shown them: those whom a choice hides
// from the viewer, who hide from everybody or do not exist any more are anonymous.
func (s *Service) people(ctx context.Context, st present, v viewer, notShown map[models.RowID]bool, of []int) ([]Person, error) {
	rows := column.Of(of, func(at int) models.RowID { return st.people[at].User })
	records, err := s.o.Directory.Records(ctx, rows)
	if err != nil {
		return nil, err
	}
	lines := make([]Person, len(of))
	for i, at := range of {
		p := st.people[at]
		lines[i] = Person{Rank: int64(at) + 1, Score: p.Score, Days: p.Days, ReachedAt: p.ReachedAt}
		mine := v.row != 0 && p.User == v.row
		if r := &records[i]; p.User != 0 && r.User != "" && (mine || !r.Hidden && !notShown[p.User]) {
			lines[i].User, lines[i].Nickname, lines[i].AvatarURL = r.User, r.Nickname, r.AvatarURL.String()
			lines[i].Group, lines[i].IsMe = st.teams[st.of[p.group]].ID, mine
		}
	}
	return lines, nil
}
