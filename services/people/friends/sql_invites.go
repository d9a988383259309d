package friends

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/internal/codes"
	"stepboard/models"
	"stepboard/services/platform/revoked"
)

// inviteCode returns a user's code, after another one is stored if it is to be renewed or there is
// none. Otherwise it only reads.
func (s *Store) inviteCode(ctx context.Context, user models.RowID, renew bool) (string, error) {
	db := s.db.WithContext(ctx)
	if !renew {
		if code, err := readCode(db, user); err != nil || code != "" {
			return code, err
		}
	}
	if renew {
		err := db.Transaction(func(tx *gorm.DB) error { return renewCode(tx, user) })
		if err != nil {
			return "", err
		}
		return readCode(db, user)
	}
	// Two first calls at a time return one code.
	err := db.Exec(`UPDATE users SET invite_code = ? WHERE user_id = ? AND invite_code IS NULL`, codes.New(), user).Error
	if err != nil {
		return "", fmt.Errorf("store invite code: %w", err)
	}
	return readCode(db, user)
}

// renewCode gives a user another code in a transaction. The one before is kept as revoked.
func renewCode(tx *gorm.DB, user models.RowID) error {
	code, err := readCode(tx, user)
	if err == nil && code != "" {
		err = revoked.Keep(tx, tx.NowFunc(), codes.HashOf(code))
	}
	if err != nil {
		return err
	}
	return models.Wrap("store invite code", tx.Exec(`UPDATE users SET invite_code = ? WHERE user_id = ?`, codes.New(), user).Error)
}

// RenewAgain renews the invitations that are revoked, in a database that was restored. It reads all codes.
func (s *Service) RenewAgain(ctx context.Context, isRevoked func(hash []byte) bool) error {
	var list []struct {
		UserID     models.RowID
		InviteCode string
	}
	db := s.store.db.WithContext(ctx)
	if err := db.Raw(`SELECT user_id, invite_code FROM users WHERE invite_code IS NOT NULL`).Scan(&list).Error; err != nil {
		return fmt.Errorf("read invitations: %w", err)
	}
	for _, u := range list {
		if !isRevoked(codes.HashOf(u.InviteCode)) {
			continue
		}
		if err := db.Transaction(func(tx *gorm.DB) error { return renewCode(tx, u.UserID) }); err != nil {
			return err
		}
	}
	return nil
}

// readCode returns a user's code; "" if there is none yet.
func readCode(db *gorm.DB, user models.RowID) (string, error) {
	var stored []string
	err := db.Raw(`SELECT coalesce(invite_code, '') FROM users WHERE user_id = ?`, user).Scan(&stored).Error
	if err != nil {
		return "", fmt.Errorf("read invite code: %w", err)
	}
	if len(stored) == 0 {
		return "", errErased
	}
	return stored[0], nil
}

// inviterOf returns the user who has an invite code, as a user sees them, or codes.ErrNoCode. One
// query.
func inviterOf(db *gorm.DB, user models.RowID, code string) (Inviter, error) {
	var found []Inviter
	err := db.Raw(`
		SELECT u.user_id, u.external_id, u.nickname, u.avatar_url,
			EXISTS (SELECT 1 FROM friendships f WHERE f.user_id = ? AND f.friend_id = u.user_id) AS friends
		FROM users u WHERE u.invite_code = ? AND NOT EXISTS (
			SELECT 1 FROM privacy_choices c WHERE c.kind = ?
				AND ((c.user_id = ? AND c.other_id = u.user_id) OR (c.user_id = u.user_id AND c.other_id = ?)))`,
		user, code, models.Blocked, user, user).Scan(&found).Error
	if err != nil {
		return Inviter{}, fmt.Errorf("look up invite code: %w", err)
	}
	if len(found) == 0 {
		return Inviter{}, codes.ErrNoCode
	}
	return found[0], nil
}
