package corrections

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
)

// Pending reports whether the archive has yet to apply corrections of a user, or their
// lifting. One query.
func (s *Store) Pending(ctx context.Context, user models.RowID) (pending bool, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM corrections c
		JOIN pending_corrections p ON p.correction_id = c.id WHERE c.user_id = ?)`, user).Scan(&pending).Error
	if err != nil {
		return false, fmt.Errorf("look for pending corrections: %w", err)
	}
	return pending, nil
}

// Erase empties the corrections of a user who was erased: they have neither user nor texts
// nor what the user has reported, and hold no more. It returns how many rows it has changed.
// It may be repeated. A query and a statement, and one for each correction.
func (s *Store) Erase(ctx context.Context, user models.RowID) (changed int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var ids []int64
		if err := tx.Model(&models.Correction{}).Where("user_id = ?", user).Order("id").Pluck("id", &ids).Error; err != nil {
			return err
		}
		for _, id := range ids {
			err := tx.Exec(`UPDATE corrections SET user_id = ?, reason = '', lift_reason = '', before_score = NULL, before_at = NULL,
				lifted_at = coalesce(lifted_at, ?), hot = ? WHERE id = ?`, models.NewNobody(s.random), tx.NowFunc(), false, id).Error
			if err != nil {
				return err
			}
		}
		removed := tx.Exec(`DELETE FROM reported_scores WHERE user_id = ?`, user)
		changed = int64(len(ids)) + removed.RowsAffected
		return removed.Error
	})
	if err != nil {
		return 0, fmt.Errorf("empty corrections: %w", err)
	}
	return changed, nil
}
