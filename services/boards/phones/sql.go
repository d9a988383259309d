package phones

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/platform/revoked"
)

// Store keeps addresses in table upload_addresses. Safe for concurrent use.
type Store struct{ db *gorm.DB }

// NewStore returns a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// errErased reports that the user of an address was erased meanwhile.
var errErased = errors.New("the user was erased")

// add stores an address and sets its id. The user is locked, so that concurrent calls keep to
// MaxAddresses.
func (s *Store) add(ctx context.Context, a *models.UploadAddress) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		lock := tx.Select("user_id").Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
		if _, err := lists.Take[models.User](lock.Where("user_id = ?", a.User), errErased); err != nil {
			return fmt.Errorf("lock the user: %w", err)
		}
		var n int64
		if err := tx.Model(a).Where("user_id = ?", a.User).Count(&n).Error; err != nil {
			return fmt.Errorf("count addresses: %w", err)
		}
		if n >= MaxAddresses {
			return models.Errorf(models.CodeAddressLimit, "a user has at most %d upload addresses: revoke one first", MaxAddresses)
		}
		return models.Wrap("store an address", tx.Create(a).Error)
	})
}

// list returns the addresses of a user, oldest first.
func (s *Store) list(ctx context.Context, user models.RowID) (list []models.UploadAddress, err error) {
	err = s.db.WithContext(ctx).Order("id").Find(&list, "user_id = ?", user).Error
	return list, models.Wrap("list addresses", err)
}

// find returns an address of a user; CodeNotFound if the user has none of this id.
func (s *Store) find(ctx context.Context, user models.RowID, id int64) (models.UploadAddress, error) {
	return lists.Take[models.UploadAddress](s.db.WithContext(ctx).Where("id = ? AND user_id = ?", id, user), errNoAddress)
}

var errNoAddress = models.Errorf(models.CodeNotFound, "there is no such upload address")

// change stores another name and zone, and returns the address.
func (s *Store) change(ctx context.Context, user models.RowID, id int64, c Choice) (models.UploadAddress, error) {
	err := s.db.WithContext(ctx).Model(&models.UploadAddress{}).Where("id = ? AND user_id = ?", id, user).
		Updates(map[string]any{"name": c.Name, "time_zone": c.TimeZone}).Error
	if err != nil {
		return models.UploadAddress{}, fmt.Errorf("change an address: %w", err)
	}
	return s.find(ctx, user, id)
}

// revoke ends an address of a user and keeps its hash.
func (s *Store) revoke(ctx context.Context, user models.RowID, id int64, now time.Time) error {
	n, err := s.end(ctx, now, "id = ? AND user_id = ?", id, user)
	if err == nil && n == 0 {
		err = errNoAddress
	}
	return err
}

// end deletes addresses that a condition selects, keeps the hashes of their keys, and returns their number.
func (s *Store) end(ctx context.Context, now time.Time, condition string, args ...any) (n int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		n, err = revoked.End(tx, now, "upload_addresses", condition, args...)
		return err
	})
	return n, err
}

// byKey returns the address of a key by its hash; CodeAddressUnknown if there is none. A user who is being
// erased has none.
func (s *Store) byKey(ctx context.Context, hash []byte) (Address, error) {
	return lists.Take[Address](s.db.WithContext(ctx).Table("upload_addresses a").Select("a.*, u.external_id").
		Joins("JOIN users u ON u.user_id = a.user_id").Where("a.key_hash = ?", hash), errUnknown())
}

// noteUse stores what the last call of an address has led to.
func (s *Store) noteUse(ctx context.Context, a models.UploadAddress) error {
	err := s.db.WithContext(ctx).Model(&a).Select("last_used_at", "last_day", "last_score", "last_code").Updates(&a).Error
	return models.Wrap("note the use of an address", err)
}
