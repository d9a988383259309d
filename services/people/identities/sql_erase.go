package identities

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// erasedRow is a row of identities_erased.
type erasedRow struct {
	IDHash []byte       `gorm:"primaryKey"`
	Row    models.RowID `gorm:"column:row_id;primaryKey;autoIncrement:false"`
}

func (erasedRow) TableName() string { return "identities_erased" }

// Subject returns what is stored of who users are elsewhere. An erasure removes it and keeps hashes until the user returns,
// as long as anything else is kept for that. Exports have no keys.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "identities", Tables: []string{"identities"},
		Erase: s.erase,
		Export: []models.ExportSection{{
			Name: "identities", Key: []string{"issuer", "subject"},
			Query: `SELECT issuer, subject, unionid, created_at FROM identities WHERE user_id = ?`,
		}},
		Return: func(ctx context.Context, from, _ models.RowID) error { return s.forget(ctx, from) },
		Keeps:  func(context.Context, models.RowID) (bool, error) { return false, nil },
		Forget: s.forget,
	}
}

// forget removes the hashes of an erased user.
func (s *Store) forget(ctx context.Context, user models.RowID) error {
	err := s.DB.WithContext(ctx).Where("row_id = ?", user).Delete(&erasedRow{}).Error
	return models.Wrap("forget an erased identity", err)
}

// erase removes the identities of a user and keeps their hashes. It returns their number.
func (s *Store) erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var list []Identity
		err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Find(&list, "user_id = ?", user).Error
		if err != nil || len(list) == 0 {
			return err
		}
		var kept []erasedRow
		for _, m := range list {
			for _, hash := range s.hashes(m) {
				kept = append(kept, erasedRow{hash, user})
			}
		}
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&kept).Error; err != nil {
			return err
		}
		deleted := tx.Where("user_id = ?", user).Delete(&Identity{})
		removed = deleted.RowsAffected
		return deleted.Error
	})
	return removed, models.Wrap("erase identities", err)
}
