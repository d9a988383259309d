package results

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// Events writes the results of events that are final. Safe for concurrent use.
type Events struct {
	outbox *outcomes.Outbox
	db     *gorm.DB
	clock  models.Clock
}

// NewEvents returns a service that reads running totals from the database.
func NewEvents(outbox *outcomes.Outbox, db *gorm.DB, clock models.Clock) *Events {
	return &Events{outbox: outbox, db: db, clock: clock}
}

// Announce writes the result of each event that is final and that is not
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
		Where(`from_ledger AND window_hours = 0 AND final_at IS NOT NULL AND cold_at > ? AND NOT EXISTS (SELECT 1 FROM board_results r
			WHERE r.board = board_buckets.board AND r.bucket = board_buckets.bucket AND NOT r.outdated)`, now).
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
	var rows []struct {
		UserID    models.RowID
		Points    models.Points `gorm:"column:score"`
		ReachedAt time.Time
		Total     int64
		PointsSum models.Points `gorm:"column:score_sum"`
	}
	// One statement, so that figures and entries are of the same moment.
	err := tx.Raw(`
		SELECT user_id, score, reached_at, count(*) OVER () AS total, CAST(sum(score) OVER () AS bigint) AS score_sum
		FROM (
			SELECT user_id, score, reached_at FROM score_totals
			WHERE board = @board AND total = @bucket AND user_id NOT IN (
				SELECT user_id FROM corrections WHERE board = @board AND bucket = @bucket AND lifted_at IS NULL)
			UNION ALL
			SELECT user_id, score, reached_at FROM corrections
			WHERE board = @board AND bucket = @bucket AND lifted_at IS NULL AND kind = 'set'
		) counted
		WHERE user_id NOT IN (SELECT row_id FROM erasures)
		ORDER BY score DESC, reached_at, `+userText(tx)+` DESC LIMIT @top`, map[string]any{
		"board": bucket.Board, "bucket": bucket.Name, "top": TopEntries,
	}).Scan(&rows).Error
	result := Result{Top: []TopEntry{}}
	for _, row := range rows {
		result.Total, result.ScoreSum = row.Total, bucket.ScoreSum(row.Total, row.PointsSum)
		result.Top = append(result.Top, TopEntry{User: row.UserID, Score: bucket.Score(row.Points), ReachedAt: models.TimestampOf(row.ReachedAt)})
	}
	return result, err
}
