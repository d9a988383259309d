package friends

import (
	"context"
	"fmt"
	"time"

	"stepboard/internal/lists"
	"stepboard/models"
)

// Request is one entry of a list of requests.
type Request struct {
	Row  models.RowID  `gorm:"column:other_id"`
	User models.UserID `gorm:"column:external_id"`
	// Nickname and AvatarURL are empty for outgoing requests: a request must not
	// reveal the name of a stranger.
	Nickname  string
	AvatarURL string
	Incoming  bool
	CreatedAt time.Time
}

// Cursor returns the position in a list that is ordered by time.
func (r Request) Cursor() models.Cursor {
	return models.Cursor{Key: r.CreatedAt.UnixMicro(), Row: r.Row}
}

// Requests returns a page of a user's requests, incoming and outgoing, newest first, without
// those that the user has declined, behind a position. A user that does not exist has none. One
// query.
func (s *Service) Requests(ctx context.Context, user models.UserID, after models.Cursor, limit int) (page []Request, err error) {
	row, err := s.directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return nil, err
	}
	err = s.store.db.WithContext(ctx).Raw(`
		SELECT r.other_id, u.external_id, r.incoming, r.created_at,
			CASE WHEN r.incoming THEN u.nickname ELSE '' END AS nickname,
			CASE WHEN r.incoming THEN u.avatar_url ELSE '' END AS avatar_url
		FROM friend_requests r JOIN users u ON u.user_id = r.other_id
		WHERE r.user_id = ? AND r.declined_at IS NULL AND (r.created_at, r.other_id) < (?, ?)
		ORDER BY r.created_at DESC, r.other_id DESC LIMIT ?`, row, after.Before(), after.Row, limit).Scan(&page).Error
	return page, models.Public("list friend requests", err)
}

// isShown reports whether a user is shown the request of another one: it was not declined, accepted
// or withdrawn, nor the sender blocked. One query.
func (s *Store) isShown(ctx context.Context, p Pair) (bool, error) {
	var n int64
	err := s.db.WithContext(ctx).Model(&models.FriendRequest{}).
		Where("user_id = ? AND other_id = ? AND incoming AND declined_at IS NULL", p.To, p.From).Count(&n).Error
	return n > 0, models.Wrap("look up friend request", err)
}

// forgetDeclined deletes up to limit declined requests that have expired, and returns
// their number.
func (s *Store) forgetDeclined(ctx context.Context, limit int) (int64, error) {
	db := s.db.WithContext(ctx)
	expired := declinedBefore(db.NowFunc())
	result := db.Exec(`
		DELETE FROM friend_requests WHERE declined_at <= ? AND (user_id, other_id) IN (
			SELECT user_id, other_id FROM friend_requests WHERE declined_at <= ? LIMIT ?)`, expired, expired, limit)
	return result.RowsAffected, models.Wrap("delete declined friend requests", result.Error)
}

// relation says which requests are between two users, from the first one's side.
type relation struct {
	// sent and received report whether the user has sent a request to the other that
	// is pending as far as its sender can see, or has received such a request.
	sent, received bool
	// shown reports whether the user is shown the received request. It is false
	// without one, and for a declined one.
	shown bool
}

// relation returns the requests between two users, from the first one's side.
func (t *tx) relation(user, other models.RowID) (relation, error) {
	var rows []models.FriendRequest
	err := t.db.Find(&rows, "(user_id = ? AND other_id = ?) OR (user_id = ? AND other_id = ?)", user, other, other, user).Error
	if err != nil {
		return relation{}, fmt.Errorf("look up friend request: %w", err)
	}
	var r relation
	for _, row := range rows {
		switch {
		case !row.Incoming && row.UserID == user:
			r.sent = true
		case !row.Incoming:
			r.received = true
		case row.UserID == user:
			r.shown = row.DeclinedAt == nil
		}
	}
	return r, nil
}

// refuseBlocked returns CodeValidationFailed if a user has blocked the other.
func (t *tx) refuseBlocked(user, other models.RowID) error {
	var n int64
	err := t.db.Model(&models.PrivacyChoice{}).
		Where("user_id = ? AND kind = ? AND other_id = ?", user, models.Blocked, other).Count(&n).Error
	if err != nil {
		return fmt.Errorf("look up block: %w", err)
	}
	if n > 0 {
		return models.Invalid("body.user_id", "names a user whom the sender has blocked: unblock them first")
	}
	return nil
}

// countSent returns the number of pending requests that a user has sent.
func (t *tx) countSent(user models.RowID) (n int, err error) {
	err = t.db.Raw(`SELECT count(*) FROM friend_requests WHERE user_id = ? AND NOT incoming`, user).Scan(&n).Error
	return n, models.Wrap("count friend requests", err)
}

// storeSent stores how many requests a user has sent in the day that ends at the given
// time.
func (t *tx) storeSent(user models.RowID, sent int, until time.Time) error {
	err := t.db.Model(&models.User{}).Where("user_id = ?", user).
		Updates(map[string]any{"requests_sent": sent, "requests_until": until}).Error
	return models.Wrap("count friend requests", err)
}

// send stores the outgoing side of a request. It replaces the side of a request that
// the user has declined before.
func (t *tx) send(from, to models.RowID) error {
	err := t.db.Exec(`
		INSERT INTO friend_requests (user_id, other_id, incoming, created_at) VALUES (?, ?, false, ?)
		ON CONFLICT (user_id, other_id) DO UPDATE SET incoming = false, created_at = excluded.created_at, declined_at = NULL`,
		from, to, t.db.NowFunc()).Error
	return models.Wrap("store friend request", err)
}

// deliver shows a request to its recipient, unless they have blocked the sender, or have
// declined an earlier one of the same user within declineTime. If they are shown it
// already, nothing changes. Only a request that they were not shown before is an outcome.
func (t *tx) deliver(from, to models.RowID) error {
	now := t.db.NowFunc()
	stored := t.db.Exec(`
		INSERT INTO friend_requests (user_id, other_id, incoming, created_at)
		SELECT user_id, ?, true, ? FROM users WHERE user_id = ? AND NOT EXISTS (
			SELECT 1 FROM privacy_choices WHERE user_id = ? AND kind = ? AND other_id = ?)
		ON CONFLICT (user_id, other_id) DO UPDATE SET created_at = excluded.created_at, declined_at = NULL
		WHERE friend_requests.declined_at <= ?`, from, now, to, to, models.Blocked, from, declinedBefore(now))
	if stored.Error != nil {
		return fmt.Errorf("store friend request: %w", stored.Error)
	}
	if stored.RowsAffected == 0 {
		return nil
	}
	return t.outbox.Add(t.db, models.OutcomeFriendRequested, Pair{from, to})
}

// accept makes two users friends of whom one has asked the other.
func (t *tx) accept(asking, asked models.RowID) error {
	if err := t.befriend([]models.Edge{{A: asking, B: asked}}); err != nil {
		return err
	}
	return t.outbox.Add(t.db, models.OutcomeFriendAccepted, Pair{asking, asked})
}

// withdraw removes a request that a user has sent. If the other has declined it or an
// earlier one, that stays.
func (t *tx) withdraw(from, to models.RowID) error {
	err := t.db.Exec(`
		DELETE FROM friend_requests
		WHERE (user_id = ? AND other_id = ?) OR (user_id = ? AND other_id = ? AND declined_at IS NULL)`,
		from, to, to, from).Error
	return models.Wrap("remove friend request", err)
}

// decline hides the request that a user has received from the other.
func (t *tx) decline(user, other models.RowID) error {
	err := t.db.Exec(`UPDATE friend_requests SET declined_at = ? WHERE user_id = ? AND other_id = ?`,
		t.db.NowFunc(), user, other).Error
	return models.Wrap("decline friend request", err)
}

// removeAnsweredRequests removes the requests between users who are friends by now,
// declined ones included.
func (t *tx) removeAnsweredRequests(users []models.RowID) error {
	err := t.db.Exec(`DELETE FROM friend_requests WHERE user_id ? AND EXISTS (
		SELECT 1 FROM friendships f
		WHERE f.user_id = friend_requests.user_id AND f.friend_id = friend_requests.other_id)`, lists.Is(t.db, users)).Error
	return models.Wrap("remove answered friend requests", err)
}
