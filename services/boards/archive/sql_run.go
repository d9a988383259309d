package archive

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/results"
	"stepboard/services/boards/score"
)

// move is what a run has to store.
type move struct {
	bucket *models.Bucket
	run    int
	// rows are what it moves. nil: the running totals of a bucket of the ledger, which its first
	// run moves, or what hot_scores has of any other.
	rows *rowReader
	// progress is called with the number of entries moved after each progressEvery of them.
	progress      func(moved int64)
	progressEvery int64
}

// completion records in the transaction that shows a run's rows that the run is complete. moved
// is the number of entries read, and stored describes the rows.
type completion func(tx *gorm.DB, moved int64, stored totals) error

// concerning is the condition of corrections that concern the bucket, also of those that
// were lifted.
const concerning = `board = @board AND (bucket = @bucket OR (bucket IS NULL AND day <= @day AND (until_day IS NULL OR until_day >= @day)))`

// namesOf holds the parameters of statements about a bucket.
func namesOf(b *models.Bucket) map[string]any {
	return map[string]any{"board": b.Board, "bucket": b.Name, "day": b.Day}
}

// storeRun stores what a run moves, with corrections applied, verifies the result, completes the run
// and sets its fields.
func (s *Service) storeRun(ctx context.Context, m *move, run *models.ArchiveRun) error {
	now := s.clock().UTC()
	moved, stored, err := s.store.storage.store(ctx, m, func(tx *gorm.DB, moved int64, stored totals) error {
		return s.store.completeRun(tx, m, moved, stored, now)
	})
	run.Moved = moved
	if err != nil {
		return err
	}
	run.State, run.FinishedAt = models.ArchiveComplete, &now
	run.Entries, run.PointsSum, run.Hash = stored.rows, stored.pointsSum, stored.hash
	return nil
}

// completeRun records that a run is complete and has applied the bucket's corrections, and
// writes the bucket's result to the outbox.
func (s *Store) completeRun(tx *gorm.DB, m *move, moved int64, stored totals, now time.Time) error {
	err := tx.Exec(`
		UPDATE board_archives SET state = 'complete', moved = ?, entries = ?, score_sum = ?, hash = ?, finished_at = ?, error = ''
		WHERE board = ? AND bucket = ? AND run = ?`,
		moved, stored.rows, stored.pointsSum, stored.hash, now, m.bucket.Board, m.bucket.Name, m.run).Error
	if err != nil {
		return fmt.Errorf("complete run: %w", err)
	}
	if err := s.addResult(tx, m.bucket, stored); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM reported_scores WHERE board = @board AND bucket = @bucket
			AND user_id NOT IN (SELECT user_id FROM corrections WHERE lifted_at IS NULL AND ` + concerning + `)`,
		`DELETE FROM pending_corrections WHERE board = @board AND bucket = @bucket`,
		// An exclusion without a bucket that was lifted concerns no bucket after its last day.
		`UPDATE corrections SET hot = false
			WHERE hot AND board = @board AND (bucket = @bucket OR (bucket IS NULL AND until_day <= @day))`,
	} {
		if err := tx.Exec(statement, namesOf(m.bucket)).Error; err != nil {
			return fmt.Errorf("complete corrections: %w", err)
		}
	}
	failpoint.Hit("corrections.archived")
	return nil
}

// addResult writes the result of the archived bucket to the outbox, if it has changed.
func (s *Store) addResult(tx *gorm.DB, bucket *models.Bucket, stored totals) error {
	if !s.outbox.Wants(models.OutcomeBoardFinal) {
		return nil
	}
	first, err := s.storage.window(tx, bucket, board.Top, 0, results.TopEntries)
	if err != nil {
		return fmt.Errorf("read the first entries: %w", err)
	}
	result := results.Result{Total: stored.rows, ScoreSum: bucket.ScoreSum(stored.rows, stored.pointsSum), Top: []results.TopEntry{}}
	for _, r := range first {
		if r.Composite != 0 {
			points, reachedAt := score.Of(bucket).Decode(r.Composite)
			result.Top = append(result.Top, results.TopEntry{User: r.UserID, Score: bucket.Score(points), ReachedAt: reachedAt})
		}
	}
	return results.Add(s.outbox, tx, bucket, result)
}
