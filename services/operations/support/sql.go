package support

import (
	"context"
	"unicode"

	"gorm.io/gorm"

	"stepboard/internal/lists"
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
	return lists.First[Facts](s.db.WithContext(ctx).Raw(`
		SELECT u.user_id, u.external_id, u.nickname, u.avatar_url, u.cover_url, u.hidden, u.friend_count AS friends, u.created_at,
			(SELECT count(*) FROM friend_requests r
				WHERE r.user_id = u.user_id AND r.incoming AND r.declined_at IS NULL) AS requests_received,
			(SELECT count(*) FROM friend_requests r WHERE r.user_id = u.user_id AND NOT r.incoming) AS requests_sent,
			(SELECT count(*) FROM privacy_choices c WHERE c.user_id = u.user_id AND c.kind = ?) AS hidden_from,
			(SELECT count(*) FROM privacy_choices c WHERE c.user_id = u.user_id AND c.kind = ?) AS muted,
			(SELECT count(*) FROM privacy_choices c WHERE c.user_id = u.user_id AND c.kind = ?) AS blocked
		FROM users u WHERE u.external_id = ?`, models.HiddenFrom, models.Muted, models.Blocked, user))
}

// named returns a page of the users whose name keys begin with a text, by their names, behind a
// user; 0 begins with the first. Two queries, of which the index users_name bounds the cost.
func (s *Store) named(ctx context.Context, beginning string, after models.RowID, limit int) (page []Found, err error) {
	db := s.db.WithContext(ctx)
	last := beginning
	if after != 0 {
		// Who was erased meanwhile has no name; then the list begins again.
		if err := db.Raw("SELECT name_key FROM users WHERE user_id = ?", after).Scan(&last).Error; err != nil {
			return nil, err
		}
	}
	err = namedAfter(db, beginning, last, after, limit).Scan(&page).Error
	return page, err
}

// namedAfter selects users for named, behind a name key and a row id.
func namedAfter(db *gorm.DB, beginning, last string, after models.RowID, limit int) *gorm.DB {
	return db.Table("users").Select("user_id, external_id, nickname, avatar_url, friend_count AS friends, created_at").
		Where("name_key <> '' AND name_key < ? AND (name_key, user_id) > (?, ?)", beginning+string(unicode.MaxRune), last, after).
		Order("name_key, user_id").Limit(limit)
}

// erasure returns the erasure of a user of this id that is under way; nil for none. One
// query.
func (s *Store) erasure(ctx context.Context, user models.UserID) (*models.Erasure, error) {
	return lists.First[models.Erasure](s.db.WithContext(ctx).Where("user_id = ? AND finished_at IS NULL", user).Order("id DESC"))
}
