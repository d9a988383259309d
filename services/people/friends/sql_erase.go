package friends

import (
	"context"
	"slices"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
)

// eraseFriends is how many friendships of an erased user one transaction ends: it locks
// the rows of as many users.
const eraseFriends = 100

// Erase removes the friendships and requests of a user who was erased, takes the user from the
// cached lists of the friends, and removes the user's own. Requests of the user that others have
// declined stay: they end as those of other users do. It returns how many rows it has removed.
// It may be repeated. One transaction of five statements for each eraseFriends; after each it
// pauses for as long as that took.
func (s *Service) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	friends, err := friendIDs(s.store.db.WithContext(ctx), user)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(friends, eraseFriends) {
		began := time.Now()
		err := s.run(ctx, s.sets.NewRemoval(user), s.store.transact, func(t *tx) error {
			t.changed = append(t.changed, chunk...)
			if _, err := t.lock(chunk...); err != nil {
				return err
			}
			return t.unfriend(user, chunk)
		})
		if err != nil {
			return removed, err
		}
		removed += int64(len(chunk))
		failpoint.Hit("erasure.friends")
		if err := pause.After(ctx, began, 1); err != nil {
			return removed, err
		}
	}
	// The user's own list is removed whether or not there are friends left.
	err = s.change(ctx, func(t *tx) error {
		t.changed = append(t.changed, user)
		result := t.db.Exec(`DELETE FROM friend_requests WHERE user_id = ? OR (other_id = ? AND declined_at IS NULL)`, user, user)
		removed += result.RowsAffected
		return models.Wrap("remove friend requests", result.Error)
	})
	return removed, err
}

// Return makes the requests of an erased user that others have declined declined ones of the row
// under which the user id has returned, if that exists. A request that has reached one of them
// meanwhile is declined, too. It may be repeated. One query, and a transaction of three statements
// if there are any.
func (s *Service) Return(ctx context.Context, from, to models.RowID) error {
	decliners, err := s.store.decliners(ctx, from)
	if err != nil || len(decliners) == 0 {
		return err
	}
	return s.change(ctx, func(t *tx) error {
		locked, err := t.lock(append(decliners, to)...)
		if err != nil {
			return err
		}
		if _, exists := locked[to]; !exists {
			return nil
		}
		return t.moveDeclined(from, to)
	})
}

// moveDeclined replaces an erased user by another row in the requests that others have declined.
func (t *tx) moveDeclined(from, to models.RowID) error {
	err := t.db.Exec(`
		INSERT INTO friend_requests (user_id, other_id, incoming, created_at, declined_at)
		SELECT r.user_id, ?, true, r.created_at, r.declined_at FROM friend_requests r
		WHERE r.other_id = ? AND r.declined_at IS NOT NULL
			AND NOT EXISTS (SELECT 1 FROM friendships f WHERE f.user_id = r.user_id AND f.friend_id = ?)
		ON CONFLICT (user_id, other_id) DO UPDATE SET declined_at = excluded.declined_at
		WHERE friend_requests.incoming AND friend_requests.declined_at IS NULL`, to, from, to).Error
	if err == nil {
		err = t.db.Exec(`DELETE FROM friend_requests WHERE other_id = ? AND declined_at IS NOT NULL`, from).Error
	}
	return models.Wrap("move declined friend requests", err)
}

// Keeps reports whether somebody has declined a request of an erased user who may not ask again
// yet. One query.
func (s *Service) Keeps(ctx context.Context, user models.RowID) (bool, error) {
	decliners, err := s.store.decliners(ctx, user)
	return len(decliners) > 0, err
}

// Forget removes the declined requests of an erased user. One statement.
func (s *Service) Forget(ctx context.Context, user models.RowID) error {
	err := s.store.db.WithContext(ctx).Exec(`DELETE FROM friend_requests WHERE other_id = ?`, user).Error
	return models.Wrap("remove declined friend requests", err)
}

// decliners returns the users who have declined a request of a user, unless that has expired.
func (s *Store) decliners(ctx context.Context, user models.RowID) (list []models.RowID, err error) {
	db := s.db.WithContext(ctx)
	err = db.Raw(`SELECT user_id FROM friend_requests WHERE other_id = ? AND declined_at > ?`, user, declinedBefore(db.NowFunc())).
		Scan(&list).Error
	return list, models.Wrap("read declined friend requests", err)
}

// Subject returns what is stored of friends and requests.
func (s *Service) Subject() models.Subject {
	return models.Subject{
		Name: "friends", Tables: []string{"friendships", "friend_requests"}, Keys: []string{"Set", "SetChanging", "SetLoading", "friends"},
		Erase: s.Erase, Return: s.Return, Keeps: s.Keeps, Forget: s.Forget,
		Export: []models.ExportSection{
			{Name: "friends", Key: []string{"f.friend_id"}, Query: `
			SELECT u.external_id AS user_id, f.created_at AS since
			FROM friendships f JOIN users u ON u.user_id = f.friend_id WHERE f.user_id = ?`},
			{Name: "friend_requests", Key: []string{"r.other_id"}, Query: `
			SELECT u.external_id AS user_id, CASE WHEN r.incoming THEN 'incoming' ELSE 'outgoing' END AS direction, r.created_at, r.declined_at
			FROM friend_requests r JOIN users u ON u.user_id = r.other_id WHERE r.user_id = ?`},
		},
	}
}
