package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/codes"
	"stepboard/internal/lists"
	"stepboard/internal/visible"
	"stepboard/models"
	"stepboard/services/people/teams"
	"stepboard/services/platform/revoked"
)

// errNotStored means that there is no such group.
var errNotStored = errors.New("no such group")

// Store keeps groups in the tables groups and group_members. Safe for concurrent use.
type Store struct {
	db    *gorm.DB
	teams *teams.Store
}

// NewStore returns a store over the database. teams hears of each change of the members of a group, in
// its transaction.
func NewStore(db *gorm.DB, teams *teams.Store) *Store { return &Store{db: db, teams: teams} }

// shownOf returns the members of each of some groups, but for those who hide from everybody;
// groups without any are left out. One query.
func (s *Store) shownOf(ctx context.Context, groups []models.GroupRow) (map[models.GroupRow][]models.RowID, error) {
	return lists.Grouped[models.GroupRow, models.RowID](s.db.WithContext(ctx), `
		SELECT m.group_id, m.user_id FROM group_members m WHERE m.group_id IN ? AND `+visible.NotHidden("m.user_id"), groups)
}

// membership returns the number of a group if a user is a member of it, otherwise 0. One
// query.
func (s *Store) membership(ctx context.Context, id models.GroupID, user models.RowID) (models.GroupRow, error) {
	var group models.GroupRow
	err := s.db.WithContext(ctx).Raw(`
		SELECT g.group_id FROM groups g JOIN group_members m ON m.group_id = g.group_id
		WHERE g.external_id = ? AND m.user_id = ?`, id, user).Scan(&group).Error
	return group, err
}

// Shows reports whether two users are members of one group in which the viewer is shown the
// scores of the other. One query.
func (s *Service) Shows(ctx context.Context, viewer, user models.RowID) (bool, error) {
	var groups int64
	err := s.store.db.WithContext(ctx).Raw(`
		SELECT count(*) FROM group_members v JOIN group_members m ON m.group_id = v.group_id AND m.user_id = ?
		WHERE v.user_id = ? AND `+visible.NotHidden("?")+`
			AND NOT EXISTS (SELECT 1 FROM not_shown n WHERE n.viewer_id = ? AND n.user_id = ?)`,
		user, viewer, user, viewer, user).Scan(&groups).Error
	return groups > 0, models.Public("look up groups", err)
}

// Everybody returns the members of a group, ordered by row, the viewer among them, and which of them
// IDs lists: without those whom the viewer has muted or blocked, and those who were erased.
// CodeNotFound if the viewer is not a member. One query, and none to Redis, whose sets do not have
// those who are not shown. CodeUnavailable if SQL is away.
func (s *Service) Everybody(ctx context.Context, id models.GroupID, viewer models.RowID) ([]models.CirclePerson, error) {
	var members []models.CirclePerson
	err := s.store.db.WithContext(ctx).Raw(`SELECT m.user_id AS user, `+visible.NotHidden("m.user_id")+` AND `+visible.ToViewer("m.user_id")+` AS shown
		FROM groups g JOIN group_members m ON m.group_id = g.group_id
		WHERE g.external_id = ? AND `+visible.Wanted("m.user_id")+` ORDER BY m.user_id`, viewer, id, viewer).Scan(&members).Error
	isMember := slices.ContainsFunc(members, func(p models.CirclePerson) bool { return p.User == viewer })
	if err == nil && !isMember {
		return nil, models.NoGroup(id)
	}
	return members, models.Public("list members", err)
}

// list returns a user's groups, the one joined last first, or only the one with an id, if
// that is not empty. One query.
func (s *Store) list(ctx context.Context, user models.RowID, id models.GroupID) ([]Group, error) {
	var list []Group
	err := s.db.WithContext(ctx).Raw(`
		SELECT g.group_id, g.external_id, g.name, g.owner_id, g.invite_code, g.created_at,
			g.challenge_from, g.challenge_to, coalesce(u.external_id, '') AS owner,
			(SELECT count(*) FROM group_members c WHERE c.group_id = g.group_id) AS members
		FROM group_members m JOIN groups g ON g.group_id = m.group_id LEFT JOIN users u ON u.user_id = g.owner_id
		WHERE m.user_id = ? AND (g.external_id = ? OR ? = '')
		ORDER BY m.joined_at DESC, g.group_id DESC`, user, id, id).Scan(&list).Error
	return list, err
}

// Member is one entry of a list of members.
type Member struct {
	Row       models.RowID  `gorm:"column:user_id"`
	User      models.UserID `gorm:"column:external_id"`
	Nickname  string
	AvatarURL string
	JoinedAt  time.Time
}

// Cursor returns the position in a list that is ordered by users.
func (m Member) Cursor() models.Cursor { return models.Cursor{Row: m.Row} }

// Members returns a page of the members of a group, ordered by row, behind the given row.
// The group must be one that Get has returned. One query.
func (s *Service) Members(ctx context.Context, group models.GroupRow, after models.RowID, limit int) ([]Member, error) {
	var page []Member
	err := s.store.db.WithContext(ctx).Raw(`
		SELECT m.user_id, u.external_id, u.nickname, u.avatar_url, m.joined_at
		FROM group_members m JOIN users u ON u.user_id = m.user_id
		WHERE m.group_id = ? AND m.user_id > ?
		ORDER BY m.user_id LIMIT ?`, group, after, limit).Scan(&page).Error
	return page, models.Public("list members", err)
}

// byCode returns the group with an invite code, or errNotStored. One query.
func (s *Store) byCode(ctx context.Context, code string) (models.Group, error) {
	return take(s.db.WithContext(ctx).Where("invite_code = ?", code))
}

// invitation returns what an invite code is for, to a user: nothing if no group has it. One query.
func (s *Store) invitation(ctx context.Context, user models.RowID, code string) (found []Invitation, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT g.external_id, g.name, u.external_id AS owner, u.nickname, u.avatar_url,
			(SELECT count(*) FROM group_members c WHERE c.group_id = g.group_id) AS members,
			EXISTS (SELECT 1 FROM group_members m WHERE m.group_id = g.group_id AND m.user_id = ?) AS member
		FROM groups g JOIN users u ON u.user_id = g.owner_id WHERE g.invite_code = ?`, user, code).Scan(&found).Error
	return found, err
}

// take returns the group that a query selects, or errNotStored.
func take(query *gorm.DB) (models.Group, error) {
	var group models.Group
	err := query.Take(&group).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return group, errNotStored
	}
	return group, err
}

// transact runs one change in a transaction. An error of fn rolls it back.
func (s *Store) transact(ctx context.Context, fn func(*tx) error) error {
	return s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error { return fn(&tx{db: db, teams: s.teams}) })
}

// tx is one change in its transaction. Its methods lock users first, ascending, and then
// the group, so that concurrent changes do not deadlock.
type tx struct {
	db    *gorm.DB
	teams *teams.Store
	// changed lists the groups whose members have changed so far, or were found to have
	// been changed before.
	changed []models.GroupRow
}

var forUpdate = clause.Locking{Strength: clause.LockingStrengthUpdate}

// errErased is the cause if a user was erased and this process has not heard of it. It will
// within seconds, and then gives the user id to somebody new.
var errErased = errors.New("a user was erased a moment ago")

// lockUsers locks the rows of users, who are ascending, until the change ends.
// CodeUnavailable if one of them was erased.
func (t *tx) lockUsers(users []models.RowID) error {
	var rows []models.User
	err := t.db.Select("user_id").Where("user_id IN ?", users).Order("user_id").Clauses(forUpdate).Find(&rows).Error
	if err != nil {
		return fmt.Errorf("lock users: %w", err)
	}
	if len(rows) < len(users) {
		return models.Unavailable("lock users", errErased)
	}
	return nil
}

// lock locks a group until the change ends. It returns errNotStored if there is none.
func (t *tx) lock(condition string, value any) (models.Group, error) {
	group, err := take(t.db.Clauses(forUpdate).Where(condition, value))
	if err != nil && !errors.Is(err, errNotStored) {
		return group, fmt.Errorf("lock group: %w", err)
	}
	return group, err
}

// owned locks a group for its owner, as teams.Owned does.
func (t *tx) owned(id models.GroupID, user models.RowID) (models.Group, error) {
	return teams.Owned(t.db, id, user)
}

// create stores a new group and sets its number.
func (t *tx) create(group *models.Group) error {
	return models.Wrap("store group", t.db.Create(group).Error)
}

// ensure locks the group with an id, and creates one without an owner if there is none.
func (t *tx) ensure(id models.GroupID) (models.Group, error) {
	var group models.Group
	err := t.db.Raw(`INSERT INTO groups (external_id, name, created_at) VALUES (?, '', ?)
		ON CONFLICT (external_id) DO UPDATE SET external_id = excluded.external_id
		RETURNING group_id, external_id, name, owner_id, invite_code, created_at`, id, t.db.NowFunc()).Scan(&group).Error
	return group, models.Wrap("store group", err)
}

// set sets columns of a group.
func (t *tx) set(group models.GroupRow, columns map[string]any) error {
	err := t.db.Model(&models.Group{}).Where("group_id = ?", group).Updates(columns).Error
	return models.Wrap("change group", err)
}

// renew gives a group another invitation. The one before is kept as revoked.
func (t *tx) renew(group models.GroupRow) error {
	var before []string
	if err := t.db.Raw(`SELECT invite_code FROM groups WHERE group_id = ? AND invite_code IS NOT NULL`, group).Scan(&before).Error; err != nil {
		return fmt.Errorf("read an invitation: %w", err)
	}
	for _, code := range before {
		if err := revoked.Keep(t.db, t.db.NowFunc(), codes.HashOf(code)); err != nil {
			return err
		}
	}
	return t.set(group, map[string]any{"invite_code": codes.New()})
}

// delete deletes a group with its members. It is no team any more.
func (t *tx) delete(group models.GroupRow) error {
	t.changed = append(t.changed, group)
	if err := t.teams.Ended(t.db, group); err != nil {
		return err
	}
	err := t.db.Exec(`DELETE FROM group_members WHERE group_id = ?`, group).Error
	if err == nil {
		err = t.db.Exec(`DELETE FROM groups WHERE group_id = ?`, group).Error
	}
	return models.Wrap("delete group", err)
}

// members returns the members of a group, ascending.
func (t *tx) members(group models.GroupRow) ([]models.RowID, error) {
	var ids []models.RowID
	err := t.db.Raw(`SELECT user_id FROM group_members WHERE group_id = ? ORDER BY user_id`, group).Scan(&ids).Error
	return ids, models.Wrap("read members", err)
}

// first returns the member of a group who joined first, or 0 if the group has none.
func (t *tx) first(group models.GroupRow) (models.RowID, error) {
	var user models.RowID
	err := t.db.Raw(`SELECT user_id FROM group_members WHERE group_id = ? ORDER BY joined_at, user_id LIMIT 1`, group).Scan(&user).Error
	return user, models.Wrap("find the next owner", err)
}

// checkGroups returns CodeGroupLimit if one of the users, whose rows are locked, is in too
// many groups for a further one.
func (t *tx) checkGroups(users []models.RowID) error {
	var full []models.UserID
	err := t.db.Raw(`SELECT u.external_id FROM users u WHERE u.user_id IN ?
		AND (SELECT count(*) FROM group_members m WHERE m.user_id = u.user_id) >= ?
		ORDER BY u.user_id LIMIT 1`, users, models.MaxGroups).Scan(&full).Error
	if err != nil {
		return fmt.Errorf("count groups: %w", err)
	}
	if len(full) > 0 {
		return models.Errorf(models.CodeGroupLimit, "user %s is in %d groups already", full[0], models.MaxGroups)
	}
	return nil
}

// add adds members, who are not in the group, to a group.
func (t *tx) add(group models.GroupRow, users []models.RowID) error {
	t.changed = append(t.changed, group)
	if len(users) == 0 {
		return nil
	}
	err := t.db.Exec(`INSERT INTO group_members (group_id, user_id, joined_at) SELECT ?, user_id, ? FROM users WHERE user_id IN ?`,
		group, t.db.NowFunc(), users).Error
	return models.Wrap("store members", err)
}

// remove removes a member, and reports whether the user was one.
func (t *tx) remove(group models.GroupRow, user models.RowID) (bool, error) {
	t.changed = append(t.changed, group)
	result := t.db.Exec(`DELETE FROM group_members WHERE group_id = ? AND user_id = ?`, group, user)
	return result.RowsAffected > 0, models.Wrap("remove member", result.Error)
}
