package results

import (
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// Add writes the result of an archived bucket to the outbox as OutcomeBoardFinal, unless it is
// the one that was written last. It belongs into each transaction that changes an archived
// bucket, which must hold the bucket's lock, if the outbox wants such outcomes. One statement, and one more for each target.
func Add(outbox *outcomes.Outbox, tx *gorm.DB, bucket *models.Bucket, r Result) error {
	hash, err := r.hash()
	if err != nil {
		return err
	}
	var revision int
	err = tx.Raw(`
		INSERT INTO board_results (board, bucket, revision, hash) VALUES (?, ?, 1, ?)
		ON CONFLICT (board, bucket) DO UPDATE
		SET revision = board_results.revision + 1, hash = excluded.hash
		WHERE board_results.hash <> excluded.hash
		RETURNING revision`, bucket.Board, bucket.Name, hash).Scan(&revision).Error
	if err != nil {
		return fmt.Errorf("store result: %w", err)
	}
	if revision == 0 { // the same was written before
		return nil
	}
	p := Final{Board: bucket.Board, Kind: models.KindDaily, Revision: revision, Total: r.Total, ScoreSum: r.ScoreSum, Top: r.Top}
	if bucket.FromLedger {
		p.Kind = models.KindEvent
	} else {
		date := bucket.Day.String()
		p.Date = &date
	}
	return outbox.Add(tx, models.OutcomeBoardFinal, p)
}

// MarkOutdated records that a correction or an erasure changes the result of an event that
// may have been written. It belongs into the transaction of either, which must hold the
// lock on the bucket's row. Events.Announce then writes the next revision. One statement.
func MarkOutdated(tx *gorm.DB, board, bucket string) error {
	err := tx.Exec(`UPDATE board_results SET outdated = true WHERE board = ? AND bucket = ?`, board, bucket).Error
	return models.Wrap("mark a result as outdated", err)
}
