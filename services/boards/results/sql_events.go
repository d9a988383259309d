package results

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// settleTime is how long after the end of an event its result is taken: longer than the
// transaction of an increment that was accepted before the end.
const settleTime = time.Minute

// Events writes the results of events that have ended. Safe for concurrent use.
type Events struct {
	outbox *outcomes.Outbox
	db     *gorm.DB
	clock  models.Clock
}

// NewEvents returns a service that reads running totals from the database.
func NewEvents(outbox *outcomes.Outbox, db *gorm.DB, clock models.Clock) *Events {
	return &Events{outbox: outbox, db: db, clock: clock}
}

// Announce writes the result of each event that ended a minute ago or earlier and that is not
// the archive's yet, unless the same was written before. It returns the number of events that
// were due: those without a result, and those that are outdated. One query, and a
// transaction for each event that is due.
func (e *Events) Announce(ctx context.Context) (announced int64, err error) {
	if !e.outbox.Wants(models.OutcomeBoardFinal) {
		return 0, nil
	}
	now := e.clock().UTC()
	var ended []*models.Bucket
	err = e.db.WithContext(ctx).
		Where(`from_ledger AND window_hours = 0 AND ends_at <= ? AND cold_at > ? AND NOT EXISTS (SELECT 1 FROM board_results r
			WHERE r.board = board_buckets.board AND r.bucket = board_buckets.bucket AND NOT r.outdated)`, now.Add(-settleTime), now).
		Order("ends_at, board").Find(&ended).Error
	if err != nil {
		return 0, fmt.Errorf("list ended events: %w", err)
	}
	var failed []error
	for _, bucket := range ended {
		if err := e.announce(ctx, bucket); err != nil {
			failed = append(failed, fmt.Errorf("result of %s: %w", bucket.Board, err))
			continue
		}
		announced++
		failpoint.Hit("outcomes.event_committed")
	}
	return announced, errors.Join(failed...)
}

// announce writes the result of one event. It locks the bucket's row as corrections and
// erasures do, so that it has either seen theirs or they mark what it has written.
func (e *Events) announce(ctx context.Context, bucket *models.Bucket) error {
	if e.db.Name() != "postgres" {
		return e.announceRead(ctx, bucket)
	}
	return e.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		// An event may have very many entries, and nobody waits.
		if err := tx.Exec(`SET LOCAL statement_timeout = 0`).Error; err != nil {
			return err
		}
		lock := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
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

// write writes the result of an event, which is not outdated any more.
func (e *Events) write(tx *gorm.DB, bucket *models.Bucket, result Result) error {
	err := tx.Exec(`UPDATE board_results SET outdated = false WHERE board = ? AND bucket = ?`, bucket.Board, bucket.Name).Error
	if err != nil {
		return err
	}
	return Add(e.outbox, tx, bucket, result)
}

// eventResult returns the result of an event: its running totals, with corrections applied
// and without users who were erased.
func eventResult(tx *gorm.DB, bucket *models.Bucket) (Result, error) {
	text := `CAST(user_id AS text)`
	if tx.Name() == "postgres" {
		text = `user_id::text COLLATE "C"`
	}
	var rows []struct {
		UserID          models.RowID
		Score           int64
		ReachedAt       time.Time
		Total, ScoreSum int64
	}
	// One statement, so that figures and entries are of the same moment.
	err := tx.Raw(`
		SELECT user_id, score, reached_at, count(*) OVER () AS total, CAST(sum(score) OVER () AS bigint) AS score_sum
		FROM (
			SELECT user_id, score, reached_at FROM score_totals
			WHERE board = @board AND total = @bucket AND score > 0 AND user_id NOT IN (
				SELECT user_id FROM corrections WHERE board = @board AND bucket = @bucket AND lifted_at IS NULL)
			UNION ALL
			SELECT user_id, score, reached_at FROM corrections
			WHERE board = @board AND bucket = @bucket AND lifted_at IS NULL AND kind = 'set'
		) counted
		WHERE user_id NOT IN (SELECT row_id FROM erasures)
		ORDER BY score DESC, reached_at, `+text+` DESC LIMIT @top`, map[string]any{
		"board": bucket.Board, "bucket": bucket.Name, "top": TopEntries,
	}).Scan(&rows).Error
	result := Result{Top: []TopEntry{}}
	for _, row := range rows {
		result.Total, result.ScoreSum = row.Total, row.ScoreSum
		result.Top = append(result.Top, TopEntry{User: row.UserID, Score: row.Score, ReachedAt: models.TimestampOf(row.ReachedAt)})
	}
	return result, err
}
