package testenv

import (
	"context"
	"strconv"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// ID returns the user id that is the decimal text of a number.
func ID[N ~int | ~int64](number N) models.UserID {
	return models.UserID(strconv.FormatInt(int64(number), 10))
}

// IDs is ID for several numbers.
func IDs[N ~int | ~int64](numbers ...N) []models.UserID {
	ids := make([]models.UserID, len(numbers))
	for i, n := range numbers {
		ids[i] = ID(n)
	}
	return ids
}

// Numbers is a directory of users whose ids are the decimal texts of their rows, so
// that tests may name users by their rows. It has the methods of directory.Service that
// other services call.
type Numbers struct {
	// DB has the users; if it is nil, every user exists.
	DB *gorm.DB
}

// Find returns the row of each user; 0 for users that do not exist.
func (n Numbers) Find(ctx context.Context, users ...models.UserID) ([]models.RowID, error) {
	rows := make([]models.RowID, len(users))
	for i, user := range users {
		number, err := strconv.ParseInt(string(user), 10, 64)
		if err != nil || n.DB == nil {
			rows[i] = models.RowID(number)
			continue
		}
		var found []models.RowID
		err = n.DB.WithContext(ctx).Table("users").Where("user_id = ?", number).Pluck("user_id", &found).Error
		if err != nil {
			return nil, models.Unavailable("look up users", err)
		}
		if len(found) > 0 {
			rows[i] = found[0]
		}
	}
	return rows, nil
}

// FindOne is Find for one user.
func (n Numbers) FindOne(ctx context.Context, user models.UserID) (models.RowID, error) {
	rows, err := n.Find(ctx, user)
	if err != nil {
		return 0, err
	}
	return rows[0], nil
}

// Ensure is like Find, and creates users that do not exist.
func (n Numbers) Ensure(ctx context.Context, users ...models.UserID) ([]models.RowID, error) {
	rows := make([]models.RowID, len(users))
	for i, user := range users {
		number, err := strconv.ParseInt(string(user), 10, 64)
		if err != nil {
			return nil, err
		}
		rows[i] = models.RowID(number)
	}
	if n.DB == nil {
		return rows, nil
	}
	return rows, insertNumbers(ctx, n.DB, rows)
}

// EnsureMany is Ensure.
func (n Numbers) EnsureMany(ctx context.Context, users []models.UserID) ([]models.RowID, error) {
	return n.Ensure(ctx, users...)
}

// Refresh does nothing: there are no copies.
func (n Numbers) Refresh(context.Context, models.RowID) {}

// Records returns the records of users. If DB is nil, nicknames are empty and nobody hides.
func (n Numbers) Records(ctx context.Context, rows []models.RowID) ([]models.PublicRecord, error) {
	records := make([]models.PublicRecord, len(rows))
	for i, row := range rows {
		record := models.Record{Row: row, User: ID(row)}
		if n.DB != nil {
			var stored []struct {
				models.Profile
				Hidden bool
			}
			if err := n.DB.WithContext(ctx).Table("users").Where("user_id = ?", row).Find(&stored).Error; err != nil {
				return nil, models.Unavailable("read profiles", err)
			}
			if len(stored) > 0 {
				record.Profile, record.Hidden = stored[0].Profile, stored[0].Hidden
			}
		}
		records[i] = record.Public()
	}
	return records, nil
}

// RecordsMany is Records.
func (n Numbers) RecordsMany(ctx context.Context, rows []models.RowID) ([]models.PublicRecord, error) {
	return n.Records(ctx, rows)
}

// NumberUsers creates users 1 to n whose ids are the decimal texts of their rows. Users
// that are created later get larger rows.
func NumberUsers(t testing.TB, env *Env, n int) {
	t.Helper()
	rows := make([]models.RowID, n)
	for i := range rows {
		rows[i] = models.RowID(i + 1)
	}
	if err := insertNumbers(context.Background(), env.Gorm, rows); err != nil {
		t.Fatal(err)
	}
	if env.Pool != nil {
		_, err := env.Pool.Exec(context.Background(), `SELECT setval(pg_get_serial_sequence('users', 'user_id'), $1)`, n)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// insertNumbers creates users whose ids are the decimal texts of their rows.
func insertNumbers(ctx context.Context, db *gorm.DB, rows []models.RowID) error {
	users := make([]map[string]any, len(rows))
	for i, row := range rows {
		users[i] = map[string]any{"user_id": row, "external_id": row.String(), "created_at": db.NowFunc()}
	}
	return db.WithContext(ctx).Table("users").Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(users, 1000).Error
}

// Hide makes one user block another, and a further one hide from everybody.
func Hide(t testing.TB, env *Env, blocking, blocked, hidden models.RowID) {
	t.Helper()
	err := env.Gorm.Create(&models.PrivacyChoice{UserID: blocking, Kind: models.Blocked, OtherID: blocked}).Error
	if err == nil {
		err = env.Gorm.Exec(`UPDATE users SET hidden = true WHERE user_id = ?`, hidden).Error
	}
	if err != nil {
		t.Fatal(err)
	}
}
