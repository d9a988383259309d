package ledger

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/internal/dialect"
	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/results"
)

// Erase empties the increments of a user who was erased, and removes the running totals.
// An increment keeps its id, but has no user, so that it can't be counted again: it is a
// conflict with whatever is sent under the id. It returns how many rows these were. It
// may be repeated. A transaction for the totals, and a statement for each chunk (pause.Chunks) of increments;
// after each it pauses for as long as that took.
func (s *Store) Erase(ctx context.Context, user models.RowID) (rows int64, err error) {
	rows, err = pause.Chunks(ctx, func(limit int) (int64, error) {
		emptied := s.db.WithContext(ctx).Exec(`
			UPDATE score_events SET user_id = 0, delta = 1, score = 0 WHERE (board, event_id) IN (
				SELECT board, event_id FROM score_events WHERE user_id = ? LIMIT ?)`, user, limit)
		failpoint.Hit("erasure.increments")
		return emptied.RowsAffected, emptied.Error
	})
	if err != nil {
		return rows, fmt.Errorf("empty increments: %w", err)
	}
	removed, err := s.eraseTotals(ctx, user)
	return rows + removed, err
}

// totalsOfUser is the condition of a user's running totals. The primary key begins with the
// board.
const totalsOfUser = `user_id = ? AND board IN (SELECT board FROM board_buckets UNION SELECT name FROM boards)`

// eraseTotals removes the running totals of a user. The results of events that had them are
// outdated then.
func (s *Store) eraseTotals(ctx context.Context, user models.RowID) (removed int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := dialect.SetLocal(tx, `lock_timeout = '20s'`); err != nil {
			return err
		}
		// Results are written under the locks of their buckets.
		var events []models.Bucket
		err := tx.Clauses(dialect.BucketLock()).
			Where(`(board, bucket) IN (SELECT board, total FROM score_totals WHERE `+totalsOfUser+`)`, user).
			Order("day, bucket").Find(&events).Error
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := results.MarkOutdated(tx, e.Board, e.Name); err != nil {
				return err
			}
		}
		result := tx.Exec(`DELETE FROM score_totals WHERE `+totalsOfUser, user)
		removed = result.RowsAffected
		return result.Error
	})
	return removed, models.Wrap("remove totals", err)
}

// Subject returns what is stored of increments and running totals.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "increments", Tables: []string{"score_events", "score_totals"}, AfterCorrections: true, Erase: s.Erase,
		Export: []models.ExportSection{
			// Only the buckets of events, which have the names of their totals, may rank low.
			{Name: "increments", Key: []string{"s.board", "s.event_id"}, Points: []string{"delta", "score"}, Query: `
			SELECT s.board, s.event_id, s.delta, s.accepted_at, s.score, s.reached_at, b.score_order, b.max_score
			FROM score_events s LEFT JOIN board_buckets b ON b.board = s.board AND b.bucket = s.total WHERE s.user_id = ?`},
			{Name: "totals", Key: []string{"s.board", "s.total"}, Points: []string{"score"}, Query: `
			SELECT s.board, s.total AS bucket, s.score, s.reached_at, b.score_order, b.max_score
			FROM score_totals s LEFT JOIN board_buckets b ON b.board = s.board AND b.bucket = s.total
			WHERE s.user_id = ? AND s.board IN (SELECT board FROM board_buckets UNION SELECT name FROM boards)`},
		},
	}
}
