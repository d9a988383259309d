package directory

import (
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
)

// ExportSections returns what an export has of a user's record.
func ExportSections() []models.ExportSection {
	return []models.ExportSection{
		{Name: "profile", Key: []string{"user_id"}, Query: `
			SELECT external_id AS user_id, nickname, avatar_url, cover_url, hidden, friend_count, requests_sent, invite_code, created_at, changed_at
			FROM users WHERE user_id = ?`},
		{Name: "former_ids", Key: []string{"id"}, Query: `
			SELECT former_id AS user_id, renamed_at FROM renames WHERE row_id = ?`},
	}
}

// Remove removes the row of a user in the transaction that records the erasure. The user id is
// free then.
func Remove(tx *gorm.DB, row models.RowID) error {
	if err := tx.Exec(`DELETE FROM users WHERE user_id = ?`, row).Error; err != nil {
		return fmt.Errorf("remove the user: %w", err)
	}
	return nil
}

// FormerIDs returns the ids that a user had before they were renamed, oldest first. One query.
func FormerIDs(db *gorm.DB, row models.RowID) (ids []models.UserID, err error) {
	if err := db.Table("renames").Where("row_id = ?", row).Order("id").Pluck("former_id", &ids).Error; err != nil {
		return nil, fmt.Errorf("read former ids: %w", err)
	}
	return ids, nil
}

// RemoveFormerIDs removes the ids that an erased user had. It belongs into the transaction that
// finishes the erasure, as each sweep before needs them.
func RemoveFormerIDs(tx *gorm.DB, row models.RowID) error {
	if err := tx.Exec(`DELETE FROM renames WHERE row_id = ?`, row).Error; err != nil {
		return fmt.Errorf("remove former ids: %w", err)
	}
	return nil
}
