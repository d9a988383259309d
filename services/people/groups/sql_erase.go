package groups

import (
	"context"
	"errors"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

// Erase removes a user who was erased from all groups, as if they had left them, and
// returns how many these were. It may be repeated. One transaction for each group.
func (s *Service) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	groups, err := s.store.involving(ctx, user)
	if err != nil {
		return 0, models.Unavailable("list groups", err)
	}
	for _, row := range groups {
		err := s.change(ctx, func(t *tx) error {
			group, err := t.lock("group_id = ?", row)
			if errors.Is(err, errNotStored) {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := t.remove(row, user); err != nil {
				return err
			}
			return t.succeed(group, user)
		})
		if err != nil {
			return removed, err
		}
		removed++
		failpoint.Hit("erasure.groups")
	}
	return removed, nil
}

// involving returns the groups that a user is a member or the owner of.
func (s *Store) involving(ctx context.Context, user models.RowID) (groups []models.GroupRow, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT group_id FROM group_members WHERE user_id = ?
		UNION SELECT group_id FROM groups WHERE owner_id = ?`, user, user).Scan(&groups).Error
	return groups, err
}

// Subject returns what is stored of groups.
func (s *Service) Subject() models.Subject {
	return models.Subject{
		Name: "groups", Tables: []string{"groups", "group_members"}, Keys: []string{"groups"}, Erase: s.Erase,
		Export: []models.ExportSection{{Name: "groups", Key: []string{"g.group_id"}, Query: `
		SELECT g.external_id AS group_id, g.name, m.joined_at, CASE WHEN g.owner_id = m.user_id THEN 'owner' ELSE 'member' END AS role
		FROM group_members m JOIN groups g ON g.group_id = m.group_id WHERE m.user_id = ?`}},
	}
}
