package outcomes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

// settleTime is how long after the end of an event its result is taken: longer than the
// transaction of an increment that was accepted before the end.
const settleTime = time.Minute

// Events writes the results of events that have ended. Safe for concurrent use.
type Events struct {
	outbox *Outbox
	db     *gorm.DB
	clock  models.Clock
}

// NewEvents returns a service that reads running totals from the database.
func NewEvents(outbox *Outbox, db *gorm.DB, clock models.Clock) *Events {
	return &Events{outbox: outbox, db: db, clock: clock}
}

// Announce writes the result of each event that ended a minute ago or earlier, that is not
// the archive's yet, and of which no result was written. It returns their number. One query,
// and a transaction for each of them.
func (e *Events) Announce(ctx context.Context) (announced int64, err error) {
	if !e.outbox.Wants(models.OutcomeBoardFinal) {
		return 0, nil
	}
	now := e.clock().UTC()
	var ended []*models.Bucket
	err = e.db.WithContext(ctx).
		Where(`from_ledger AND window_hours = 0 AND ends_at <= ? AND cold_at > ? AND NOT EXISTS (SELECT 1 FROM board_results r
			WHERE r.board = board_buckets.board AND r.bucket = board_buckets.bucket)`, now.Add(-settleTime), now).
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

// announce writes the result of one event.
func (e *Events) announce(ctx context.Context, bucket *models.Bucket) error {
	return e.db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		text := `CAST(user_id AS text)`
		if db.Name() == "postgres" {
			text = `user_id::text COLLATE "C"`
			// An event may have very many entries, and nobody waits.
			if err := db.Exec(`SET LOCAL statement_timeout = 0`).Error; err != nil {
				return err
			}
		}
		var rows []struct {
			UserID          models.RowID
			Score           int64
			ReachedAt       time.Time
			Total, ScoreSum int64
		}
		// One statement, so that figures and entries are of the same moment.
		err := db.Raw(`
			SELECT user_id, score, reached_at, count(*) OVER () AS total, CAST(sum(score) OVER () AS bigint) AS score_sum
			FROM score_totals WHERE board = ? AND total = ? AND score > 0
			ORDER BY score DESC, reached_at, `+text+` DESC LIMIT ?`, bucket.Board, bucket.Name, TopEntries).Scan(&rows).Error
		if err != nil {
			return err
		}
		result := Result{Top: []TopEntry{}}
		for _, row := range rows {
			result.Total, result.ScoreSum = row.Total, row.ScoreSum
			result.Top = append(result.Top, TopEntry{row.UserID, row.Score, models.TimestampOf(row.ReachedAt)})
		}
		return e.outbox.addFirstResult(InGorm(db), bucket, result)
	})
}
