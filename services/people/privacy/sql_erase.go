package privacy

import (
	"context"
	"fmt"
	"slices"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/people/friends"
)

// eraseChoices is how many people of an erased user's choices one transaction locks.
const eraseChoices = 500

// Erase removes the choices of a user who was erased and those of others about them, and
// the cached sets that name them. It keeps who has blocked or hidden from the user. It returns
// how many choices it has removed. It may be repeated. One transaction of three statements for each
// eraseChoices, and one more statement.
func (s *Service) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	others, err := s.store.involved(ctx, user)
	if err != nil {
		return 0, err
	}
	// The user's own set is removed whether or not there are choices left.
	for chunk := range slices.Chunk(append(others, user), eraseChoices) {
		err := s.friends.Change(ctx, chunk, func(c *friends.Change) error {
			if err := c.StaleOf(cache.SetsOf(keys.NotShown, append(chunk, user))...); err != nil {
				return err
			}
			kept := c.DB().Exec(`INSERT INTO kept_choices (user_id, kind, row_id, created_at)
				SELECT user_id, kind, other_id, created_at FROM privacy_choices
				WHERE other_id = ? AND user_id IN ? AND kind <> 'muted' ON CONFLICT DO NOTHING`, user, chunk)
			if kept.Error != nil {
				return fmt.Errorf("keep privacy choices: %w", kept.Error)
			}
			result := c.DB().Exec(`DELETE FROM privacy_choices
				WHERE (user_id = ? AND other_id IN ?) OR (other_id = ? AND user_id IN ?)`, user, chunk, user, chunk)
			removed += result.RowsAffected
			return models.Wrap("remove privacy choices", result.Error)
		})
		if err != nil {
			return removed, err
		}
	}
	// Last, because the erasure of somebody else may keep a choice of this user meanwhile.
	n, err := s.store.forgetKept(ctx, "user_id", user)
	return removed + n, err
}

// Return makes the choices of others that are kept of an erased user hold for the row under which
// the user id has returned, if that exists. It may be repeated. The transactions of Erase, and one
// of six statements for each eraseChoices.
func (s *Service) Return(ctx context.Context, from, to models.RowID) error {
	if _, err := s.Erase(ctx, from); err != nil { // it keeps what no sweep has found yet
		return err
	}
	others, err := s.store.keptBy(ctx, from)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(others, eraseChoices) {
		err := s.friends.Change(ctx, append(chunk, to), func(c *friends.Change) error { return moveKept(c, chunk, from, to) })
		if err != nil {
			return err
		}
	}
	return nil
}

// moveKept moves the choices of some people that are kept of an erased user.
func moveKept(c *friends.Change, people []models.RowID, from, to models.RowID) error {
	var exists []models.RowID
	if err := c.DB().Raw(`SELECT user_id FROM users WHERE user_id = ?`, to).Scan(&exists).Error; err != nil || len(exists) == 0 {
		return err
	}
	c.Stale(append(people, to)...)
	if err := c.StaleOf(cache.SetsOf(keys.NotShown, append(people, to))...); err != nil {
		return err
	}
	// Those who have met the user before this know each other no more.
	var parted []models.RowID
	err := c.DB().Raw(`SELECT k.user_id FROM kept_choices k WHERE k.row_id = ? AND k.user_id IN ? AND k.kind = ? AND (
			EXISTS (SELECT 1 FROM friendships f WHERE f.user_id = k.user_id AND f.friend_id = ?)
			OR EXISTS (SELECT 1 FROM friend_requests r WHERE r.user_id = k.user_id AND r.other_id = ?))`,
		from, people, models.Blocked, to, to).Scan(&parted).Error
	if err != nil {
		return fmt.Errorf("look for friends of a user who has returned: %w", err)
	}
	for _, person := range parted {
		if err := c.Part(person, to); err != nil {
			return err
		}
	}
	err = c.DB().Exec(`INSERT INTO privacy_choices (user_id, kind, other_id, nickname, avatar_url, created_at)
		SELECT k.user_id, k.kind, ?, '', '', k.created_at FROM kept_choices k JOIN users u ON u.user_id = k.user_id
		WHERE k.row_id = ? AND k.user_id IN ? ON CONFLICT DO NOTHING`, to, from, people).Error
	if err == nil {
		err = c.DB().Exec(`DELETE FROM kept_choices WHERE row_id = ? AND user_id IN ?`, from, people).Error
	}
	return models.Wrap("move kept privacy choices", err)
}

// Keeps reports whether choices of others are kept of an erased user. One query.
func (s *Service) Keeps(ctx context.Context, user models.RowID) (bool, error) {
	others, err := s.store.keptBy(ctx, user)
	return len(others) > 0, err
}

// Forget removes the choices of others that are kept of an erased user. One statement.
func (s *Service) Forget(ctx context.Context, user models.RowID) error {
	_, err := s.store.forgetKept(ctx, "row_id", user)
	return err
}

// keptBy returns the users whose choices about an erased user are kept.
func (s *Store) keptBy(ctx context.Context, user models.RowID) (others []models.RowID, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT DISTINCT user_id FROM kept_choices WHERE row_id = ? ORDER BY user_id`, user).Scan(&others).Error
	return others, models.Wrap("read kept privacy choices", err)
}

// forgetKept removes the kept choices whose column is the user, and returns their number.
func (s *Store) forgetKept(ctx context.Context, column string, user models.RowID) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`DELETE FROM kept_choices WHERE `+column+` = ?`, user)
	return result.RowsAffected, models.Wrap("remove kept privacy choices", result.Error)
}

// involved returns the other users of all choices that a user has made or is the object of.
func (s *Store) involved(ctx context.Context, user models.RowID) (others []models.RowID, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT other_id FROM privacy_choices WHERE user_id = ?
		UNION SELECT user_id FROM privacy_choices WHERE other_id = ? AND kind <> 'muted'
		UNION SELECT user_id FROM privacy_choices WHERE other_id = ? AND kind = 'muted'`, user, user, user).Scan(&others).Error
	return others, models.Wrap("read privacy choices", err)
}

// Subject returns what is stored of choices. An export has none of others about the user, who is not
// told who hides from them.
func (s *Service) Subject() models.Subject {
	return models.Subject{
		Name: "privacy", Tables: []string{"privacy_choices", "kept_choices"}, Keys: []string{"not-shown"},
		Erase: s.Erase, Return: s.Return, Keeps: s.Keeps, Forget: s.Forget,
		Export: []models.ExportSection{
			{Name: "choices", Key: []string{"c.kind", "c.other_id"}, Query: `
			SELECT c.kind, u.external_id AS user_id, c.nickname, c.avatar_url, c.created_at
			FROM privacy_choices c JOIN users u ON u.user_id = c.other_id WHERE c.user_id = ?`},
			{Name: "choices_about_erased_users", Key: []string{"k.kind", "k.row_id"}, Query: `
			SELECT k.kind, k.created_at FROM kept_choices k WHERE k.user_id = ?`},
		},
	}
}
