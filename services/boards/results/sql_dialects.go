package results

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"

	"stepboard/internal/dialect"
	"stepboard/models"
)

// announce writes the result of one event. It locks the bucket's row as corrections and
// erasures do, so that it has either seen theirs or they mark what it has written.
func (e *Events) announce(ctx context.Context, bucket *models.Bucket) error {
	if !dialect.Postgres(e.db) {
		return e.announceRead(ctx, bucket)
	}
	return e.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// An event may have very many entries, and nobody waits.
		if err := tx.Exec(`SET LOCAL statement_timeout = 0`).Error; err != nil {
			return err
		}
		lock := tx.Clauses(dialect.BucketLock())
		if err := lock.Take(&models.Bucket{}, "board = ? AND bucket = ?", bucket.Board, bucket.Name).Error; err != nil {
			return err
		}
		result, err := eventResult(tx, bucket)
		if err != nil {
			return err
		}
		return e.write(tx, bucket, result)
	})
}

// errDecided means that an event was corrected, or somebody erased, whenever its result was read.
var errDecided = errors.New("the event has changed meanwhile")

// announceRead is announce for SQLite, where nobody else writes during a transaction that does. So
// it reads the result beside them, and again if there was a correction or an erasure meanwhile.
func (e *Events) announceRead(ctx context.Context, bucket *models.Bucket) error {
	err := errDecided
	for tries := 3; errors.Is(err, errDecided) && tries > 0; tries-- {
		var result Result
		var before decisions
		err = e.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
			if before, err = decisionsOf(tx, bucket); err == nil {
				result, err = eventResult(tx, bucket)
			}
			return err
		}, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		err = e.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if now, err := decisionsOf(tx, bucket); err != nil {
				return err
			} else if now != before {
				return errDecided
			}
			return e.write(tx, bucket, result)
		})
	}
	return err
}

// decisions change with each correction of an event and with each erasure.
type decisions struct{ Corrections, Users, Lifted, Erasures int64 }

func decisionsOf(tx *gorm.DB, bucket *models.Bucket) (d decisions, err error) {
	err = tx.Raw(`SELECT count(*) AS corrections, coalesce(sum(user_id), 0) AS users, count(lifted_at) AS lifted,
			(SELECT coalesce(max(id), 0) FROM erasures) AS erasures
		FROM corrections WHERE board = ? AND bucket = ?`, bucket.Board, bucket.Name).Scan(&d).Error
	return d, err
}

// userText is the text of a row id, in whose order equal scores are.
func userText(db *gorm.DB) string {
	if dialect.Postgres(db) {
		return `user_id::text COLLATE "C"`
	}
	return `CAST(user_id AS text)`
}
