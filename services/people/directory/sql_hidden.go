package directory

import (
	"time"

	"gorm.io/gorm"

	"stepboard/models"
)

// SetHidden stores in a transaction that a user hides from everybody now, or does so no more,
// and how often the user has switched this in the hour that ends at until. After the commit the
// caller calls Refresh; other processes see it within 2 seconds. One statement.
func SetHidden(tx *gorm.DB, row models.RowID, hidden bool, hidings int, until time.Time) error {
	err := tx.Exec(`UPDATE users SET hidden = ?, hidings = ?, hidings_until = ?, changed_at = ?, version = ? WHERE user_id = ?`,
		hidden, hidings, until, currentTime(tx), nextVersion(tx), row).Error
	return models.Wrap("store whether a user is hidden", err)
}
