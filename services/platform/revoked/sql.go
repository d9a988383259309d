// Package revoked keeps the hashes of keys and codes that must never work again: of upload addresses, sessions,
// operators, sign-in codes and invitations that were ended or renewed. A database that is restored to an earlier state
// takes them over.
package revoked

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// row is a row of revoked_keys.
type row struct {
	KeyHash   []byte `gorm:"primaryKey"`
	RevokedAt time.Time
}

// TableName returns the name of the table of revoked keys.
func (row) TableName() string { return "revoked_keys" }

// chunk is how many hashes one statement has.
const chunk = 1000

// Keep keeps hashes, in the transaction that ends what they belong to. One statement for each thousand.
func Keep(tx *gorm.DB, now time.Time, hashes ...[]byte) error {
	for some := range slices.Chunk(hashes, chunk) {
		rows := make([]row, len(some))
		for i, hash := range some {
			rows[i] = row{hash, now}
		}
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&rows).Error; err != nil {
			return fmt.Errorf("keep the hashes of keys: %w", err)
		}
	}
	return nil
}

// End deletes those rows of a table that a condition selects, keeps the hashes that they have in key_hash, and returns
// their number. It is part of the transaction tx. Two statements.
func End(tx *gorm.DB, now time.Time, table, condition string, args ...any) (n int64, err error) {
	kept := tx.Exec("INSERT INTO revoked_keys (key_hash, revoked_at) SELECT key_hash, ? FROM "+table+" WHERE "+condition+
		" ON CONFLICT (key_hash) DO NOTHING", append([]any{now}, args...)...)
	if kept.Error != nil {
		return 0, fmt.Errorf("keep the hashes of keys: %w", kept.Error)
	}
	deleted := tx.Exec("DELETE FROM "+table+" WHERE "+condition, args...)
	return deleted.RowsAffected, models.Wrap("end what keys belong to", deleted.Error)
}

// All returns all hashes, ascending. One query.
func All(db *gorm.DB) (hashes [][]byte, err error) {
	err = db.Table("revoked_keys").Order("key_hash").Pluck("key_hash", &hashes).Error
	return hashes, models.Wrap("read revoked keys", err)
}

// Keys ends again what was ended before a database was restored. Safe for concurrent use.
type Keys struct {
	db *gorm.DB
	// tables are those with a column key_hash, and renew renews invitations whose hashes are revoked.
	tables []string
	renew  []func(ctx context.Context, revoked func(hash []byte) bool) error
	clock  models.Clock
}

// New returns the keys of tables with a column key_hash, and of invitations that renew renews.
func New(db *gorm.DB, clock models.Clock, tables []string, renew ...func(ctx context.Context, revoked func(hash []byte) bool) error) *Keys {
	return &Keys{db, tables, renew, clock}
}

// Again ends what hashes belong to in a database that was restored to an earlier state, and keeps the hashes. It may be
// repeated. A statement for each table and each thousand hashes, and a reading of all invitations.
func (k *Keys) Again(ctx context.Context, hashes [][]byte) error {
	if len(hashes) == 0 {
		return nil
	}
	db := k.db.WithContext(ctx)
	if err := Keep(db, k.clock().UTC(), hashes...); err != nil {
		return err
	}
	known := make(map[string]bool, len(hashes))
	for some := range slices.Chunk(hashes, chunk) {
		for _, table := range k.tables {
			if err := db.Exec("DELETE FROM "+table+" WHERE key_hash IN ?", some).Error; err != nil {
				return fmt.Errorf("end revoked keys of %s: %w", table, err)
			}
		}
		for _, hash := range some {
			known[string(hash)] = true
		}
	}
	for _, renew := range k.renew {
		if err := renew(ctx, func(hash []byte) bool { return known[string(hash)] }); err != nil {
			return err
		}
	}
	return nil
}
