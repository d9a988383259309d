package privacy

import (
	"context"
	"fmt"
	"slices"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/cache"
	"stepboard/services/friends"
)

// eraseChoices is how many people of an erased user's choices one transaction locks.
const eraseChoices = 500

// Erase removes the choices of a user who was erased and those of others about them, and
// the cached sets that name them. It returns how many it has removed. It may be repeated.
// One transaction of two statements for each 500 people.
func (s *Service) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	others, err := s.store.involved(ctx, user)
	if err != nil {
		return 0, err
	}
	// The user's own set is removed whether or not there are choices left.
	for chunk := range slices.Chunk(append(others, user), eraseChoices) {
		err := s.friends.Change(ctx, chunk, func(c *friends.Change) error {
			sets := []cache.Set{{Kind: keys.NotShown, Owner: int64(user)}}
			for _, other := range chunk {
				sets = append(sets, cache.Set{Kind: keys.NotShown, Owner: int64(other)})
			}
			if err := c.StaleOf(sets...); err != nil {
				return err
			}
			result := c.DB().Exec(`DELETE FROM privacy_choices
				WHERE (user_id = ? AND other_id IN ?) OR (other_id = ? AND user_id IN ?)`, user, chunk, user, chunk)
			removed += result.RowsAffected
			if result.Error != nil {
				return fmt.Errorf("remove privacy choices: %w", result.Error)
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// involved returns the other users of all choices that a user has made or is the object of.
func (s *Store) involved(ctx context.Context, user models.RowID) (others []models.RowID, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT other_id FROM privacy_choices WHERE user_id = ?
		UNION SELECT user_id FROM privacy_choices WHERE other_id = ? AND kind <> 'muted'
		UNION SELECT user_id FROM privacy_choices WHERE other_id = ? AND kind = 'muted'`, user, user, user).Scan(&others).Error
	if err != nil {
		return nil, fmt.Errorf("read privacy choices: %w", err)
	}
	return others, nil
}
