package wechat

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// erasedRow is a row of wechat_erased.
type erasedRow struct {
	IDHash []byte       `gorm:"primaryKey"`
	Row    models.RowID `gorm:"column:row_id;primaryKey;autoIncrement:false"`
}

func (erasedRow) TableName() string { return "wechat_erased" }

// Subject returns what is stored of people of mini programs. An erasure removes it and keeps hashes until the user returns,
// as long as anything else is kept for that. Exports have no keys.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "WeChat", Tables: []string{"wechat_users"},
		Erase: s.erase,
		Export: []models.ExportSection{{
			Name: "wechat", Key: []string{"appid", "openid"},
			Query: `SELECT appid, openid, unionid, created_at FROM wechat_users WHERE user_id = ?`,
		}},
		Return: func(ctx context.Context, from, _ models.RowID) error { return s.forget(ctx, from) },
		Keeps:  func(context.Context, models.RowID) (bool, error) { return false, nil },
		Forget: s.forget,
	}
}

// forget removes the hashes of an erased user.
func (s *Store) forget(ctx context.Context, user models.RowID) error {
	err := s.db.WithContext(ctx).Where("row_id = ?", user).Delete(&erasedRow{}).Error
	return models.Wrap("forget a person of WeChat", err)
}

// erase removes the mappings of a user and keeps their hashes. It returns the number of mappings.
func (s *Store) erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var list []mapping
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
		deleted := tx.Where("user_id = ?", user).Delete(&mapping{})
		removed = deleted.RowsAffected
		return deleted.Error
	})
	return removed, models.Wrap("erase a person of WeChat", err)
}
