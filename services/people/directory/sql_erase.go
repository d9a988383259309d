package directory

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
)

// Subject returns what is stored of users' records. Their rows in users are removed when an erasure
// begins, and the former ids when it is finished, as each sweep needs them.
func (s *Service) Subject() models.Subject {
	return models.Subject{
		Name: "profile", Tables: []string{"users", "renames"}, Keys: []string{"User", "UserRow"}, Erase: s.eraseCopies,
		Export: []models.ExportSection{
			{Name: "profile", Key: []string{"user_id"}, Query: `
			SELECT external_id AS user_id, nickname, avatar_url, cover_url, hidden, friend_count, requests_sent, invite_code, created_at, changed_at
			FROM users WHERE user_id = ?`},
			{Name: "former_ids", Key: []string{"id"}, Query: `
			SELECT former_id AS user_id, renamed_at FROM renames WHERE row_id = ?`},
		},
	}
}

// eraseCopies removes what Redis has under any id that an erased user had. One query, and the round
// trips of DropCopies.
func (s *Service) eraseCopies(ctx context.Context, user models.RowID) (int64, error) {
	var ids []models.UserID
	err := s.store.db.WithContext(ctx).Raw(`SELECT user_id FROM erasures WHERE row_id = ? AND user_id IS NOT NULL
		UNION ALL SELECT former_id FROM renames WHERE row_id = ?`, user, user).Scan(&ids).Error
	if err != nil {
		return 0, fmt.Errorf("read the ids of an erased user: %w", err)
	}
	copies := []Erased{{Row: user}}
	for _, id := range ids {
		copies = append(copies, Erased{Row: user, User: &id})
	}
	return s.DropCopies(ctx, copies...)
}

// Remove removes the row of a user in the transaction that records the erasure. The user id is
// free then.
func Remove(tx *gorm.DB, row models.RowID) error {
	return models.Wrap("remove the user", tx.Exec(`DELETE FROM users WHERE user_id = ?`, row).Error)
}

// FormerIDs returns the ids that a user had before they were renamed, oldest first. One query.
func FormerIDs(db *gorm.DB, row models.RowID) (ids []models.UserID, err error) {
	err = db.Table("renames").Where("row_id = ?", row).Order("id").Pluck("former_id", &ids).Error
	return ids, models.Wrap("read former ids", err)
}

// RemoveFormerIDs removes the ids that an erased user had. It belongs into the transaction that
// finishes the erasure, as each sweep before needs them.
func RemoveFormerIDs(tx *gorm.DB, row models.RowID) error {
	return models.Wrap("remove former ids", tx.Exec(`DELETE FROM renames WHERE row_id = ?`, row).Error)
}
