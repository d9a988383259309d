package ledger

import (
	"context"
	"fmt"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

// eraseRows is how many increments one statement empties: a few hundredths of a second.
const eraseRows = 1000

// Erase empties the increments of a user who was erased, and removes the running totals.
// An increment keeps its id, but has no user, so that it can't be counted again: it is a
// conflict with whatever is sent under the id. It returns how many rows it has changed. It
// may be repeated. One statement for the totals, and one for each 1,000 increments.
func (s *Store) Erase(ctx context.Context, user models.RowID) (changed int64, err error) {
	for n := int64(eraseRows); n == eraseRows; {
		emptied := s.db.WithContext(ctx).Exec(`
			UPDATE score_events SET user_id = 0, delta = 1, score = 0 WHERE (board, event_id) IN (
				SELECT board, event_id FROM score_events WHERE user_id = ? LIMIT ?)`, user, eraseRows)
		if emptied.Error != nil {
			return changed, fmt.Errorf("empty increments: %w", emptied.Error)
		}
		n = emptied.RowsAffected
		changed += n
		failpoint.Hit("erasure.increments")
	}
	// The primary key begins with the board.
	removed := s.db.WithContext(ctx).Exec(`
		DELETE FROM score_totals WHERE user_id = ? AND board IN (SELECT board FROM board_buckets UNION SELECT name FROM boards)`, user)
	if removed.Error != nil {
		return changed, fmt.Errorf("remove totals: %w", removed.Error)
	}
	return changed + removed.RowsAffected, nil
}
