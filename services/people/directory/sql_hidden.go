package directory

import (
	"fmt"
	"time"

	"gorm.io/gorm"

	"stepboard/models"
)

// SetHidden stores in a transaction that a user hides from everybody now, or does so no more,
// and how often the user has changed this in the hour that ends at until. After the commit the
// caller calls Refresh; other processes see it within 2 seconds. One statement.
func SetHidden(tx *gorm.DB, row models.RowID, hidden bool, hidings int, until time.Time) error {
	now, version, args := "now()", "nextval('user_versions')", []any{hidden, hidings, until}
	if tx.Name() != "postgres" {
		now, version, args = "?", nextVersion, append(args, tx.NowFunc())
	}
	err := tx.Exec(`UPDATE users SET hidden = ?, hidings = ?, hidings_until = ?, changed_at = `+now+`, version = `+version+`
		WHERE user_id = ?`, append(args, row)...).Error
	if err != nil {
		return fmt.Errorf("store whether a user is hidden: %w", err)
	}
	return nil
}
