package privacy

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/cache"
)

// Store keeps choices in table privacy_choices and in users.hidden. Safe for concurrent
// use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// hidden reports whether a user hides from everybody.
func (s *Store) hidden(ctx context.Context, user models.RowID) (bool, error) {
	var found []bool
	err := s.db.WithContext(ctx).Model(&models.User{}).Where("user_id = ?", user).Pluck("hidden", &found).Error
	if err != nil {
		return false, fmt.Errorf("read whether a user is hidden: %w", err)
	}
	return len(found) > 0 && found[0], nil
}

// notShown returns the users who are not shown to a viewer because of a choice of either.
// One query.
func (s *Store) notShown(ctx context.Context, viewer models.RowID) ([]models.RowID, error) {
	var rows []models.RowID
	err := s.db.WithContext(ctx).
		Raw(`SELECT DISTINCT user_id FROM not_shown WHERE viewer_id = ?`, viewer).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read who is not shown: %w", err)
	}
	return rows, nil
}

// list returns a page of a user's choices of one kind, ordered by row, behind the given
// row. One query.
func (s *Store) list(
	ctx context.Context, user models.RowID, kind models.ChoiceKind, after models.RowID, limit int,
) ([]Choice, error) {
	var page []Choice
	err := s.db.WithContext(ctx).Raw(`
		SELECT c.other_id, u.external_id, c.created_at,
			CASE WHEN c.named OR f.user_id IS NOT NULL THEN u.nickname ELSE '' END AS nickname,
			CASE WHEN c.named OR f.user_id IS NOT NULL THEN u.avatar_url ELSE '' END AS avatar_url
		FROM privacy_choices c JOIN users u ON u.user_id = c.other_id
		LEFT JOIN friendships f ON f.user_id = c.user_id AND f.friend_id = c.other_id
		WHERE c.user_id = ? AND c.kind = ? AND c.other_id > ?
		ORDER BY c.other_id LIMIT ?`, user, kind, after, limit).Scan(&page).Error
	if err != nil {
		return nil, fmt.Errorf("list privacy choices: %w", err)
	}
	return page, nil
}

// choose stores a choice, unless it is stored. The user is locked. CodeChoiceLimit if it is
// one too many.
func choose(tx *gorm.DB, choice models.PrivacyChoice) error {
	choice.CreatedAt = tx.NowFunc()
	var count, stored int64
	err := tx.Raw(`SELECT count(*), coalesce(sum(CASE WHEN other_id = ? THEN 1 ELSE 0 END), 0)
		FROM privacy_choices WHERE user_id = ? AND kind = ?`, choice.OtherID, choice.UserID, choice.Kind).
		Row().Scan(&count, &stored)
	if err != nil {
		return fmt.Errorf("count privacy choices: %w", err)
	}
	if stored > 0 {
		return nil
	}
	if count >= models.MaxChoices {
		return models.Errorf(models.CodeChoiceLimit, "a list has at most %d people: remove some of them first", models.MaxChoices)
	}
	if err := tx.Create(&choice).Error; err != nil {
		return fmt.Errorf("store privacy choice: %w", err)
	}
	return nil
}

// groupsOf returns the sets of members of the groups of a user, whose row is locked, so
// that these do not change.
func groupsOf(tx *gorm.DB, user models.RowID) ([]cache.Set, error) {
	var groups []models.GroupRow
	err := tx.Raw(`SELECT group_id FROM group_members WHERE user_id = ?`, user).Scan(&groups).Error
	if err != nil {
		return nil, fmt.Errorf("read groups: %w", err)
	}
	sets := make([]cache.Set, len(groups))
	for i, group := range groups {
		sets[i] = cache.Set{Kind: keys.Groups, Owner: int64(group)}
	}
	return sets, nil
}

// undo removes a choice.
func undo(tx *gorm.DB, choice models.PrivacyChoice) error {
	if err := tx.Delete(&choice).Error; err != nil {
		return fmt.Errorf("remove privacy choice: %w", err)
	}
	return nil
}
