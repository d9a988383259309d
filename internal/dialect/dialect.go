// Package dialect has what Postgres and SQLite say differently, and transactions that are only tried.
package dialect

import (
	"errors"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Postgres reports whether the database is Postgres. Only files that are named after a database,
// or sql_dialects.go, may ask.
func Postgres(db *gorm.DB) bool { return db.Name() == "postgres" }

// Try runs fn in a transaction, which it rolls back if it is a dry run.
func Try(db *gorm.DB, dryRun bool, fn func(tx *gorm.DB) error) error {
	err := db.Transaction(func(tx *gorm.DB) error {
		if err := fn(tx); err != nil || !dryRun {
			return err
		}
		return errDryRun
	})
	if errors.Is(err, errDryRun) {
		return nil
	}
	return err
}

// errDryRun rolls back what was only tried.
var errDryRun = errors.New("a dry run")

// SetLocal sets parameters of Postgres until the transaction ends, each as "name = value".
func SetLocal(tx *gorm.DB, parameters ...string) error {
	if !Postgres(tx) {
		return nil
	}
	return tx.Exec("SET LOCAL " + strings.Join(parameters, "; SET LOCAL ")).Error
}

// SkipLocked is the clause by which a query locks rows, and passes over those that others work on.
// In SQLite one transaction at a time changes rows.
func SkipLocked(db *gorm.DB) string {
	if Postgres(db) {
		return "FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// BucketLock is the clause by which whoever changes buckets or definitions, or what belongs to a
// bucket, locks their rows. Unlike FOR UPDATE it does not wait for transactions that count increments,
// which hold FOR KEY SHARE. SQLite needs none.
func BucketLock() clause.Locking { return clause.Locking{Strength: "NO KEY UPDATE"} }
