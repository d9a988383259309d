package teams

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"stepboard/models"
)

const (
	// maxOfUser is how many competitions a user sees at most, and maxListed an operator.
	maxOfUser = 100
	maxListed = 1000
)

// unfinished is the condition that a competition has no final standing or waits for another one.
const unfinished = `(final_at IS NULL OR recompute)`

// Find returns a competition. CodeNotFound, CodeUnavailable. One query.
func (s *Service) Find(ctx context.Context, id models.CompetitionID) (models.Competition, error) {
	c, err := take(s.store.db.WithContext(ctx).Where("external_id = ?", id))
	if errors.Is(err, errNotStored) {
		return c, models.Errorf(models.CodeNotFound, "there is no competition %s", id)
	}
	return c, models.Public("look up a competition", err)
}

// OfUser returns the competitions in which a group of a user is a team, at most 100, the last to begin
// first. CodeUnavailable. One query.
func (s *Service) OfUser(ctx context.Context, user models.RowID) ([]models.Competition, error) {
	return s.list(s.store.db.WithContext(ctx).Where(`competition_id IN (SELECT t.competition_id
		FROM group_members m JOIN competition_teams t ON t.group_id = m.group_id WHERE m.user_id = ?)`, user).
		Order("first_day DESC, competition_id DESC").Limit(maxOfUser))
}

// All returns all competitions, at most 1000, the one made last first. CodeUnavailable. One query.
func (s *Service) All(ctx context.Context) ([]models.Competition, error) {
	return s.list(s.store.db.WithContext(ctx).Order("competition_id DESC").Limit(maxListed))
}

// Unfinished returns the competitions that are not final, planned ones included, and those of which an
// operator wants another final standing, ordered by row. CodeUnavailable. One query.
func (s *Service) Unfinished(ctx context.Context) ([]models.Competition, error) {
	return s.list(s.store.db.WithContext(ctx).Where(unfinished).Order("competition_id"))
}

// list returns the competitions that a query selects.
func (s *Service) list(query *gorm.DB) (list []models.Competition, err error) {
	err = query.Find(&list).Error
	return list, models.Public("list competitions", err)
}

// Earliest returns the earliest day that a competition needs which is not final; nil without any.
// CodeUnavailable. One query.
func (s *Service) Earliest(ctx context.Context) (day *models.Date, err error) {
	err = s.store.db.WithContext(ctx).Raw(`SELECT min(first_day) FROM competitions WHERE ` + unfinished).Scan(&day).Error
	return day, models.Public("read the days of competitions", err)
}

// Members returns all who count or have counted in a competition, ordered by user and first day.
// CodeUnavailable. One query.
func (s *Service) Members(ctx context.Context, c models.CompetitionRow) (rows []models.TeamMember, err error) {
	err = s.store.db.WithContext(ctx).Where("competition_id = ?", c).Order("user_id, first_day").Find(&rows).Error
	return rows, models.Public("list members of teams", err)
}

// Teams returns the teams of a competition, ordered by id. CodeUnavailable. One query.
func (s *Service) Teams(ctx context.Context, c models.CompetitionRow) (list []Team, err error) {
	err = s.store.db.WithContext(ctx).Raw(`
		SELECT g.group_id, g.external_id, g.name,
			(SELECT count(*) FROM group_members m WHERE m.group_id = g.group_id) AS members
		FROM competition_teams t JOIN groups g ON g.group_id = t.group_id
		WHERE t.competition_id = ? ORDER BY g.external_id`, c).Scan(&list).Error
	return list, models.Public("list teams", err)
}

// TeamsOf returns those teams of a competition whose groups a user is a member of, ascending.
// CodeUnavailable. One query.
func (s *Service) TeamsOf(ctx context.Context, c models.CompetitionRow, user models.RowID) (groups []models.GroupRow, err error) {
	err = s.store.db.WithContext(ctx).Raw(`
		SELECT t.group_id FROM competition_teams t JOIN group_members m ON m.group_id = t.group_id
		WHERE t.competition_id = ? AND m.user_id = ? ORDER BY t.group_id`, c, user).Scan(&groups).Error
	return groups, models.Public("look up membership", err)
}

// byCode returns the competition with a code, or errNotStored. One query.
func (s *Store) byCode(ctx context.Context, code string) (models.CompetitionRow, error) {
	c, err := take(s.db.WithContext(ctx).Where("join_code = ?", code))
	return c.Row, err
}
