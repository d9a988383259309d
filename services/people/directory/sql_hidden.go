package directory

import (
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
)

// SetHidden stores in a transaction whether a user hides from everybody. After the commit
// the caller calls Refresh; other processes see it within 2 seconds.
func SetHidden(tx *gorm.DB, row models.RowID, hidden bool) error {
	now, version, args := "now()", "nextval('user_versions')", []any{hidden}
	if tx.Name() != "postgres" {
		now, version, args = "?", nextVersion, append(args, tx.NowFunc())
	}
	err := tx.Exec(`UPDATE users SET hidden = ?, changed_at = `+now+`, version = `+version+`
		WHERE user_id = ? AND hidden <> ?`, append(args, row, hidden)...).Error
	if err != nil {
		return fmt.Errorf("store whether a user is hidden: %w", err)
	}
	return nil
}
