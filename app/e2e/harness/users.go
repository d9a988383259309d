package harness

import (
	"testing"

	"gorm.io/gorm"

	"stepboard/models"
)

// Users returns the users of the test by row id.
func Users(t testing.TB, db *gorm.DB) map[models.RowID]models.UserID {
	t.Helper()
	var stored []models.User
	if err := db.WithContext(t.Context()).Find(&stored).Error; err != nil {
		t.Fatal(err)
	}
	users := make(map[models.RowID]models.UserID, len(stored))
	for _, user := range stored {
		users[user.Row] = user.User
	}
	return users
}

// Rows returns the row id of each user, by position. It fails the test if one of them
// does not exist.
func Rows(t testing.TB, db *gorm.DB, users []models.UserID) []models.RowID {
	t.Helper()
	byUser := make(map[models.UserID]models.RowID)
	for row, user := range Users(t, db) {
		byUser[user] = row
	}
	rows := make([]models.RowID, len(users))
	for i, user := range users {
		if rows[i] = byUser[user]; rows[i] == 0 {
			t.Fatalf("user %s does not exist", user)
		}
	}
	return rows
}
