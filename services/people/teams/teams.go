// Package teams keeps competitions: their definitions, the groups that are teams in them, and on which
// days a person counts for which team.
//
// package groups tells it of each change of a group, in the transaction of that change. So whoever
// joins a group counts from that day on, and whoever leaves it no more, while the days before stay with
// the team. A person counts in one team of a competition on a day: the first. Who does not count in a
// team, because of another one or because the competition is full, does not begin to when that changes.
// Locks are taken in the order users, groups, competitions, each ascending.
package teams

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"stepboard/internal/codes"
	"stepboard/models"
)

// Definition is what a backend or an operator says of a competition.
type Definition struct {
	ID          models.CompetitionID
	Board       string
	Name        string
	First, Last models.Date
	// Cap is the most that counts of a day, 0 for no limit; Goal is that of MeasureGoalDays.
	Cap, Goal int64
	Measure   models.Measure
	Team      models.TeamMeasure
	// Open gives it a code by which the owners of groups enter them.
	Open bool
	// Groups are the teams, at most MaxCompetitionTeams; nil leaves those that are there.
	Groups []models.GroupID
}

// Team is a group in a competition.
type Team struct {
	Group models.GroupRow `gorm:"column:group_id"`
	ID    models.GroupID  `gorm:"column:external_id"`
	Name  string
	// Members is how many are in the group, whether they count or not.
	Members int
}

// Service defines competitions and enters groups. Safe for concurrent use.
type Service struct {
	store     *Store
	check     func(board string) error
	directory models.Users
	joins     codes.Limiter
}

// New returns a service. check returns CodeBoardNotFound or CodeBoardKind for a board that can't have
// competitions.
func New(store *Store, check func(board string) error, directory models.Users, joins codes.Limiter) *Service {
	return &Service{store: store, check: check, directory: directory, joins: joins}
}

// Put creates or replaces a competition, and returns it. All members of a group that enters count from
// the first day, or from the day after they have counted for another team. Of a group that leaves
// nobody counts any more. Errors: CodeValidationFailed; CodeBoardNotFound and CodeBoardKind;
// CodeCompetitionStarted if it has begun and board, days or rule differ, or if it is final and groups
// differ; CodeCompetitionFull; CodeUnavailable. One transaction; then nothing has changed.
func (s *Service) Put(ctx context.Context, d Definition) (c models.Competition, err error) {
	if err := d.normalize(); err != nil {
		return c, err
	}
	if err := s.check(d.Board); err != nil {
		return c, err
	}
	err = s.store.transact(ctx, func(t *tx) (err error) {
		c, err = t.put(d)
		return err
	})
	return c, models.Public("define a competition", err)
}

// normalize brings the name into the form in which it is stored. CodeValidationFailed for what is not
// permitted.
func (d *Definition) normalize() (err error) {
	if d.Name, err = models.NormalizeName("body.name", d.Name); err != nil {
		return err
	}
	switch {
	case d.First > d.Last:
		return models.Invalid("body.from", "is after the last day")
	case d.Last-d.First >= models.MaxCompetitionDays:
		return models.Invalid("body.to", fmt.Sprintf("a competition has at most %d days", models.MaxCompetitionDays))
	case d.Cap < 0:
		return models.Invalid("body.cap", "is negative")
	case d.Measure != models.MeasureScore && d.Measure != models.MeasureGoalDays:
		return models.Invalid("body.measure", "is neither score nor goal_days")
	case d.Goal < 0 || (d.Goal > 0) != (d.Measure == models.MeasureGoalDays):
		return models.Invalid("body.goal", "is 1 or more for goal_days, and 0 for score")
	case d.Team != models.TeamMean && d.Team != models.TeamSum:
		return models.Invalid("body.team", "is neither mean nor sum")
	case len(d.Groups) > models.MaxCompetitionTeams:
		return models.Invalid("body.groups", fmt.Sprintf("a competition has at most %d teams", models.MaxCompetitionTeams))
	}
	seen := make(map[models.GroupID]bool, len(d.Groups))
	for i, id := range d.Groups {
		if seen[id] {
			return models.Invalid(fmt.Sprintf("body.groups[%d]", i), "is there twice")
		}
		seen[id] = true
	}
	return nil
}

// applyTo gives a competition the definition.
func (d *Definition) applyTo(c *models.Competition) {
	c.Board, c.Name, c.First, c.Last = d.Board, d.Name, d.First, d.Last
	c.Cap, c.Goal, c.Measure, c.Team = d.Cap, d.Goal, d.Measure, d.Team
	if !d.Open {
		c.JoinCode = nil
	} else if c.JoinCode == nil {
		code := codes.New()
		c.JoinCode = &code
	}
}

// sameRule reports whether a competition that has begun may become what is defined.
func sameRule(c, defined models.Competition) bool {
	return c.Board == defined.Board && c.First == defined.First && c.Last == defined.Last &&
		c.Cap == defined.Cap && c.Goal == defined.Goal && c.Measure == defined.Measure && c.Team == defined.Team
}

// put is Put for what is permitted.
func (t *tx) put(d Definition) (models.Competition, error) {
	wanted, err := t.lockGroups(d.Groups)
	if err != nil {
		return models.Competition{}, err
	}
	c := models.Competition{ID: d.ID}
	d.applyTo(&c)
	if err := t.ensure(&c); err != nil {
		return c, err
	}
	had, err := t.teams(c.Row)
	if err != nil {
		return c, err
	}
	if d.Groups == nil {
		wanted = had
	}
	leaving, entering := without(had, wanted), without(wanted, had)
	next := c
	d.applyTo(&next)
	if t.store.begun(c) && !sameRule(c, next) {
		return c, errStarted("board, days and rule stay as they are")
	}
	if c.Revision > 0 && len(leaving)+len(entering) > 0 {
		return c, errStarted("it is final, and the teams stay as they are")
	}
	if err := t.set(next, c.First); err != nil {
		return c, err
	}
	if err := t.leave(c.Row, leaving); err != nil {
		return c, err
	}
	return next, t.enter(next, entering)
}

// without returns those of a list that are not in another, in their order.
func without(list, other []models.GroupRow) []models.GroupRow {
	return slices.DeleteFunc(slices.Clone(list), func(g models.GroupRow) bool { return slices.Contains(other, g) })
}

// Delete removes a competition with all that belongs to it. One that does not exist is no error, so
// that it may be repeated. CodeUnavailable. One transaction.
func (s *Service) Delete(ctx context.Context, id models.CompetitionID) error {
	err := s.store.transact(ctx, func(t *tx) error {
		c, err := t.lock("external_id = ?", id)
		if errors.Is(err, errNotStored) {
			return nil
		}
		if err != nil {
			return err
		}
		return t.delete(c.Row)
	})
	return models.Public("delete a competition", err)
}

// Join enters a group in the competition with a code, before its first day; its members count from
// that day. A group that is in it stays. Errors: CodeRateLimited if the user has tried too many codes;
// CodeNotFound if no competition has the code or the user is not a member of the group; CodeForbidden
// if the user is not its owner; CodeCompetitionStarted; CodeCompetitionFull; CodeUnavailable. Two
// queries and one transaction.
func (s *Service) Join(ctx context.Context, user models.UserID, code string, group models.GroupID) (c models.Competition, err error) {
	code, err = codes.Try(ctx, s.joins, user, code)
	if err != nil {
		return c, err
	}
	row, err := s.directory.FindOne(ctx, user)
	if err != nil {
		return c, err
	}
	found, err := s.store.byCode(ctx, code)
	if err == nil {
		err = s.store.transact(ctx, func(t *tx) (err error) {
			c, err = t.join(found, code, group, row)
			return err
		})
	}
	if errors.Is(err, errNotStored) {
		return c, codes.ErrNoCode
	}
	return c, models.Public("enter a competition", err)
}

// join enters a group of an owner in a competition, if that still has the code.
func (t *tx) join(row models.CompetitionRow, code string, id models.GroupID, owner models.RowID) (models.Competition, error) {
	group, err := Owned(t.db, id, owner)
	if err != nil {
		return models.Competition{}, err
	}
	c, err := t.lock("competition_id = ?", row)
	if err != nil {
		return c, err
	}
	if c.JoinCode == nil || *c.JoinCode != code {
		return c, errNotStored // the code was taken back since it was looked up
	}
	had, err := t.teams(row)
	switch {
	case err != nil:
		return c, err
	case slices.Contains(had, group.Row):
		return c, nil
	case t.store.begun(c):
		return c, errStarted("a group enters before the first day")
	case len(had) >= models.MaxCompetitionTeams:
		return c, errFull
	default:
		return c, t.enter(c, []models.GroupRow{group.Row})
	}
}

var errFull = models.Errorf(models.CodeCompetitionFull, "a competition has at most %d teams and %d people, and people times days are at most %d",
	models.MaxCompetitionTeams, models.MaxCompetitionPeople, models.MaxCompetitionScores)

func errStarted(what string) error {
	return models.Errorf(models.CodeCompetitionStarted, "the competition has begun: %s", what)
}

// room returns how many people may be in a competition at a time.
func room(c models.Competition) int {
	return min(models.MaxCompetitionPeople, models.MaxCompetitionScores/int(c.Last-c.First+1))
}

// member is a member of a group.
type member struct {
	Group models.GroupRow `gorm:"column:group_id"`
	User  models.RowID    `gorm:"column:user_id"`
}

// counting returns the rows of members of teams who begin to count in a competition, from a day on or
// the day after their earlier rows. Who is in a team of it stays there, and is in the first of the
// given ones. By a code nobody gets into a second team. rows are the earlier rows of these people.
func counting(c models.Competition, from models.Date, members []member, rows []models.TeamMember, byCode bool) []models.TeamMember {
	had := make(map[models.RowID][]models.TeamMember)
	for _, row := range rows {
		if row.Competition == c.Row {
			had[row.User] = append(had[row.User], row)
		}
	}
	var began []models.TeamMember
	for _, m := range members {
		row := models.TeamMember{Competition: c.Row, User: m.User, Group: m.Group, First: from}
		counts := true
		for _, earlier := range had[m.User] {
			if earlier.Last == nil || byCode && earlier.Group != m.Group {
				counts = false
				break
			}
			row.First = max(row.First, *earlier.Last+1)
		}
		if counts {
			had[m.User] = append(had[m.User], row)
			began = append(began, row)
		}
	}
	return began
}
