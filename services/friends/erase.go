package friends

import (
	"context"
	"fmt"
	"slices"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
)

// eraseFriends is how many friendships of an erased user one transaction ends: it locks
// the rows of as many users.
const eraseFriends = 100

// Erase removes the friendships and requests of a user who was erased, takes the user from
// the cached lists of the friends, and removes the user's own. It returns how many rows it
// has removed. It may be repeated. One transaction of five statements for each 100 friends;
// after each it rests for as long as that took.
func (s *Service) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	friends, err := s.store.ids(ctx, user)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(friends, eraseFriends) {
		began := time.Now()
		err := s.run(ctx, s.sets.NewRemoval(user), s.store.transact, func(t *tx) error {
			t.changed = append(t.changed, chunk...)
			if _, err := t.lock(chunk); err != nil {
				return err
			}
			return t.unfriend(user, chunk)
		})
		if err != nil {
			return removed, err
		}
		removed += int64(len(chunk))
		failpoint.Hit("erasure.friends")
		if err := pause.Rest(ctx, began, 1); err != nil {
			return removed, err
		}
	}
	// The user's own list is removed whether or not there are friends left.
	err = s.change(ctx, func(t *tx) error {
		t.changed = append(t.changed, user)
		result := t.db.Exec(`DELETE FROM friend_requests WHERE user_id = ? OR other_id = ?`, user, user)
		removed += result.RowsAffected
		if result.Error != nil {
			return fmt.Errorf("remove friend requests: %w", result.Error)
		}
		return nil
	})
	return removed, err
}
