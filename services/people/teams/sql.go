package teams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// errNotStored means that there is no such competition.
var errNotStored = errors.New("no such competition")

// Store keeps competitions in the tables competitions, competition_teams and competition_members. Safe
// for concurrent use.
type Store struct {
	db    *gorm.DB
	today func(board string) (models.Date, error)
}

// NewStore returns a store over the database. today returns a board's current day, or an error if the
// board is not defined any more: then all days are over.
func NewStore(db *gorm.DB, today func(board string) (models.Date, error)) *Store {
	return &Store{db: db, today: today}
}

// day returns the current day of a competition's board.
func (s *Store) day(c models.Competition) models.Date {
	today, err := s.today(c.Board)
	if err != nil {
		return c.Last + 1
	}
	return today
}

// begun reports whether the first day of a competition has begun.
func (s *Store) begun(c models.Competition) bool { return s.day(c) >= c.First }

// transact runs one change in a transaction. An error of fn rolls it back.
func (s *Store) transact(ctx context.Context, fn func(*tx) error) error {
	return s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error { return fn(&tx{db, s}) })
}

// tx is one change in its transaction. Groups are locked before competitions, each ascending.
type tx struct {
	db    *gorm.DB
	store *Store
}

var forUpdate = clause.Locking{Strength: clause.LockingStrengthUpdate}

// Changed makes those who have left a group count in no competition of it from today on, and those who
// have joined it from today on, as far as there is room. byCode tells that they have joined by a code.
// It is part of the transaction db, which has locked the group, and locks its competitions. One query
// if the group is in none.
func (s *Store) Changed(db *gorm.DB, group models.GroupRow, left, joined []models.RowID, byCode bool) error {
	if len(left)+len(joined) == 0 {
		return nil
	}
	t := &tx{db, s}
	list, err := t.competitions(group, notFinal)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(c models.Competition) bool { return s.day(c) > c.Last })
	if len(list) == 0 {
		return nil
	}
	if err := t.end(list, group, left); err != nil {
		return err
	}
	return t.begin(list, group, joined, byCode)
}

// Ended removes a group that ends from all competitions that are not final. It is part of the
// transaction db, which has locked the group. One query if the group is in none.
func (s *Store) Ended(db *gorm.DB, group models.GroupRow) error {
	t := &tx{db, s}
	list, err := t.competitions(group, notFinal)
	for _, c := range list {
		err = errors.Join(err, t.leave(c.Row, []models.GroupRow{group}))
	}
	return err
}

// notFinal is the condition of competitions that a team's competition is not final.
const notFinal = `AND EXISTS (SELECT 1 FROM competitions c WHERE c.competition_id = t.competition_id AND c.final_at IS NULL)`

// competitions locks the competitions in which a group is a team, if a condition holds for the team t.
func (t *tx) competitions(group models.GroupRow, condition string) (list []models.Competition, err error) {
	query := `SELECT t.competition_id FROM competition_teams t WHERE t.group_id = ? ` + condition
	var rows, still []models.CompetitionRow
	err = t.db.Raw(query, group).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, models.Wrap("look up competitions", err)
	}
	err = t.db.Clauses(forUpdate).Where("competition_id IN ?", rows).Order("competition_id").Find(&list).Error
	if err == nil {
		// The group may have left one, or one may be final, while this waited for the locks.
		err = t.db.Raw(query, group).Scan(&still).Error
	}
	list = slices.DeleteFunc(list, func(c models.Competition) bool { return !slices.Contains(still, c.Row) })
	return list, models.Wrap("lock competitions", err)
}

// end makes today the first day on which people of a team do not count. Two statements for each day
// that it is on the boards.
func (t *tx) end(list []models.Competition, group models.GroupRow, users []models.RowID) error {
	if len(users) == 0 {
		return nil
	}
	days := make(map[models.Date][]models.CompetitionRow)
	for _, c := range list {
		days[t.store.day(c)] = append(days[t.store.day(c)], c.Row)
	}
	const present = `group_id = ? AND last_day IS NULL AND competition_id IN ? AND user_id IN ?`
	for today, rows := range days {
		err := t.db.Exec(`DELETE FROM competition_members WHERE first_day >= ? AND `+present, today, group, rows, users).Error
		if err == nil {
			err = t.db.Exec(`UPDATE competition_members SET last_day = ? WHERE `+present, today-1, group, rows, users).Error
		}
		if err != nil {
			return fmt.Errorf("end members of a team: %w", err)
		}
	}
	return nil
}

// begin makes people count for a team from today on, in the order of their rows until there is no room.
func (t *tx) begin(list []models.Competition, group models.GroupRow, users []models.RowID, byCode bool) error {
	if len(users) == 0 {
		return nil
	}
	competitions := make([]models.CompetitionRow, len(list))
	for i, c := range list {
		competitions[i] = c.Row
	}
	members := make([]member, len(users))
	for i, user := range users {
		members[i] = member{group, user}
	}
	var rows, began []models.TeamMember
	err := t.db.Where("competition_id IN ? AND user_id IN ?", competitions, users).Find(&rows).Error
	if err != nil {
		return fmt.Errorf("read members of teams: %w", err)
	}
	present, err := t.present(competitions...)
	if err != nil {
		return err
	}
	for _, c := range list {
		more := counting(c, max(c.First, t.store.day(c)), members, rows, byCode)
		began = append(began, more[:min(len(more), max(0, room(c)-present[c.Row]))]...)
	}
	return t.add(began)
}

// present returns how many people are in each of some competitions; those without any are left out.
func (t *tx) present(competitions ...models.CompetitionRow) (map[models.CompetitionRow]int, error) {
	var counts []struct {
		Row    models.CompetitionRow `gorm:"column:competition_id"`
		People int
	}
	err := t.db.Raw(`SELECT competition_id, count(*) AS people FROM competition_members
		WHERE last_day IS NULL AND competition_id IN ? GROUP BY competition_id`, competitions).Scan(&counts).Error
	present := make(map[models.CompetitionRow]int, len(counts))
	for _, c := range counts {
		present[c.Row] = c.People
	}
	return present, models.Wrap("count members of teams", err)
}

// rowsAtOnce is how many rows one statement stores.
const rowsAtOnce = 2000

// add stores rows of people.
func (t *tx) add(rows []models.TeamMember) error {
	if len(rows) == 0 {
		return nil
	}
	return models.Wrap("store members of teams", t.db.CreateInBatches(rows, rowsAtOnce).Error)
}

// lockGroups locks groups, and returns their numbers in the order of the ids. CodeValidationFailed if
// there is no such group.
func (t *tx) lockGroups(ids []models.GroupID) ([]models.GroupRow, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var found []models.Group
	err := t.db.Clauses(forUpdate).Where("external_id IN ?", ids).Order("group_id").Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("lock groups: %w", err)
	}
	by := make(map[models.GroupID]models.GroupRow, len(found))
	for _, g := range found {
		by[g.ID] = g.Row
	}
	rows := make([]models.GroupRow, len(ids))
	for i, id := range ids {
		if rows[i] = by[id]; rows[i] == 0 {
			return nil, models.Invalid(fmt.Sprintf("body.groups[%d]", i), "there is no such group")
		}
	}
	return rows, nil
}

// Owned locks a group for its owner, in a transaction. CodeNotFound if the user is not a member, CodeForbidden if the
// user is not the owner, who is always a member.
func Owned(tx *gorm.DB, id models.GroupID, user models.RowID) (models.Group, error) {
	var found []models.Group
	if err := tx.Clauses(forUpdate).Where("external_id = ?", id).Find(&found).Error; err != nil {
		return models.Group{}, fmt.Errorf("lock group: %w", err)
	}
	if len(found) == 0 {
		return models.Group{}, models.NoGroup(id)
	}
	group := found[0]
	if group.OwnerID != nil && *group.OwnerID == user {
		return group, nil
	}
	var members int64
	err := tx.Raw(`SELECT count(*) FROM group_members WHERE group_id = ? AND user_id = ?`, group.Row, user).Scan(&members).Error
	switch {
	case err != nil:
		return group, fmt.Errorf("look up membership: %w", err)
	case members == 0:
		return group, models.NoGroup(id)
	default:
		return group, models.Errorf(models.CodeForbidden, "only the owner of the group may do this")
	}
}

// lock locks a competition until the change ends. It returns errNotStored if there is none.
func (t *tx) lock(condition string, value any) (models.Competition, error) {
	return take(t.db.Clauses(forUpdate).Where(condition, value))
}

// take returns the competition that a query selects, or errNotStored.
func take(query *gorm.DB) (c models.Competition, err error) {
	err = query.Take(&c).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return c, errNotStored
	}
	return c, models.Wrap("read a competition", err)
}

// ensure locks the competition with the id of c, and makes c what is stored of it. If there is none, it
// stores c.
func (t *tx) ensure(c *models.Competition) error {
	return models.Wrap("store a competition", t.db.Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "external_id"}}, DoUpdates: clause.AssignmentColumns([]string{"external_id"}),
	}, clause.Returning{}).Create(c).Error)
}

// set stores the definition of a competition whose first day was another one. That only moves before it
// has begun, when all who are in a team count from it.
func (t *tx) set(c models.Competition, was models.Date) error {
	err := t.db.Model(&c).Select("board", "name", "first_day", "last_day", "day_cap", "goal", "measure", "team", "join_code").Updates(c).Error
	if err == nil && was != c.First {
		err = t.db.Exec(`UPDATE competition_members SET first_day = ? WHERE competition_id = ?`, c.First, c.Row).Error
	}
	return models.Wrap("change a competition", err)
}

// teams returns the groups in a competition, the first to enter first.
func (t *tx) teams(c models.CompetitionRow) (rows []models.GroupRow, err error) {
	err = t.db.Raw(`SELECT group_id FROM competition_teams WHERE competition_id = ? ORDER BY entered_at, group_id`, c).Scan(&rows).Error
	return rows, models.Wrap("read teams", err)
}

// leave removes teams with all that has counted for them.
func (t *tx) leave(c models.CompetitionRow, groups []models.GroupRow) error {
	if len(groups) == 0 {
		return nil
	}
	err := t.db.Exec(`DELETE FROM competition_members WHERE competition_id = ? AND group_id IN ?`, c, groups).Error
	if err == nil {
		err = t.db.Exec(`DELETE FROM competition_teams WHERE competition_id = ? AND group_id IN ?`, c, groups).Error
	}
	return models.Wrap("remove teams", err)
}

// enter makes locked groups teams of a competition. CodeCompetitionFull if not all people fit, also
// those who were there before.
func (t *tx) enter(c models.Competition, groups []models.GroupRow) error {
	if len(groups) > 0 {
		var members []member
		var rows []models.TeamMember
		err := t.db.Exec(`INSERT INTO competition_teams (competition_id, group_id, entered_at) SELECT ?, group_id, ? FROM groups WHERE group_id IN ?`,
			c.Row, t.db.NowFunc(), groups).Error
		if err == nil {
			err = t.db.Raw(`SELECT group_id, user_id FROM group_members WHERE group_id IN ?`, groups).Scan(&members).Error
		}
		if err == nil {
			err = t.db.Where("competition_id = ?", c.Row).Find(&rows).Error
		}
		if err != nil {
			return fmt.Errorf("add teams: %w", err)
		}
		place := make(map[models.GroupRow]int, len(groups))
		for i, group := range groups {
			place[group] = i
		}
		slices.SortFunc(members, func(a, b member) int {
			return cmp.Or(cmp.Compare(place[a.Group], place[b.Group]), cmp.Compare(a.User, b.User))
		})
		if err := t.add(counting(c, c.First, members, rows, false)); err != nil {
			return err
		}
	}
	present, err := t.present(c.Row)
	if err == nil && present[c.Row] > room(c) {
		return errFull
	}
	return err
}

// delete deletes a competition, its teams and their members, and its standings.
func (t *tx) delete(c models.CompetitionRow) error {
	for _, statement := range []string{
		`DELETE FROM standings WHERE competition_id = ?`,
		`DELETE FROM competition_members WHERE competition_id = ?`,
		`DELETE FROM competition_teams WHERE competition_id = ?`,
		`DELETE FROM competitions WHERE competition_id = ?`,
	} {
		if err := t.db.Exec(statement, c).Error; err != nil {
			return fmt.Errorf("delete a competition: %w", err)
		}
	}
	return nil
}
