package support

import (
	"context"

	"gorm.io/gorm"

	"stepboard/models"
)

// Store reads the tables of users. Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// facts returns what the tables of users say about one; nil if there is no such user. One
// query.
func (s *Store) facts(ctx context.Context, user models.UserID) (*Facts, error) {
	var found []Facts
	err := s.db.WithContext(ctx).Raw(`
		SELECT u.user_id, u.external_id, u.nickname, u.avatar_url, u.cover_url, u.hidden, u.friend_count AS friends, u.created_at,
			(SELECT count(*) FROM friend_requests r
				WHERE r.user_id = u.user_id AND r.incoming AND r.declined_at IS NULL) AS requests_received,
			(SELECT count(*) FROM friend_requests r WHERE r.user_id = u.user_id AND NOT r.incoming) AS requests_sent,
			(SELECT count(*) FROM privacy_choices c WHERE c.user_id = u.user_id AND c.kind = ?) AS hidden_from,
			(SELECT count(*) FROM privacy_choices c WHERE c.user_id = u.user_id AND c.kind = ?) AS muted,
			(SELECT count(*) FROM privacy_choices c WHERE c.user_id = u.user_id AND c.kind = ?) AS blocked
		FROM users u WHERE u.external_id = ?`, models.HiddenFrom, models.Muted, models.Blocked, user).Scan(&found).Error
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// erasure returns the erasure of a user of this id that is under way; nil for none. One
// query.
func (s *Store) erasure(ctx context.Context, user models.UserID) (*models.Erasure, error) {
	var found []models.Erasure
	err := s.db.WithContext(ctx).Where("user_id = ? AND finished_at IS NULL", user).Order("id DESC").Limit(1).Find(&found).Error
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}
