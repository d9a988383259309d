package holds

import (
	"context"
	"slices"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/platform/cursor"
)

// Store keeps held totals in table held_scores. Safe for concurrent use.
type Store struct {
	uploads *gorm.DB // what uploads and their users wait for
	db      *gorm.DB // for operators and jobs
}

// NewStore returns a store on the database; both connections may be the same.
func NewStore(uploads, db *gorm.DB) *Store { return &Store{uploads: uploads, db: db} }

// Hold implements ingest.Holds. Users who were erased get no row, because nobody may see them again.
// One statement, in which rows have one order, so that no two calls wait for each other.
func (s *Store) Hold(ctx context.Context, board string, now models.Timestamp, totals []ingest.HeldTotal) (map[ingest.HeldKey]bool, error) {
	slices.SortFunc(totals, ingest.HeldTotal.Compare)
	var stored []struct {
		Bucket string
		UserID models.RowID
		State  models.HoldState
	}
	db := s.uploads.WithContext(ctx)
	// What is released stays as it was released.
	err := db.Raw(`
		INSERT INTO held_scores (board, bucket, day, user_id, score, reached_at, held_at, state)
		SELECT ?, given.bucket, given.day, given.user_id, given.score, ?, ?, 'open' FROM ?
		WHERE NOT EXISTS (SELECT 1 FROM erasures e WHERE e.row_id = given.user_id)
		ON CONFLICT (board, bucket, user_id) DO UPDATE SET
			score = CASE WHEN held_scores.state <> 'released' AND excluded.score > held_scores.score
				THEN excluded.score ELSE held_scores.score END,
			reached_at = CASE WHEN held_scores.state <> 'released' AND excluded.score > held_scores.score
				THEN excluded.reached_at ELSE held_scores.reached_at END
		RETURNING bucket, user_id, state`, board, now.Time(), now.Time(), given(db, totals)).Scan(&stored).Error
	if err != nil {
		return nil, models.Unavailable("hold totals", err)
	}
	released := make(map[ingest.HeldKey]bool)
	for _, row := range stored {
		if row.State == models.HoldReleased {
			released[ingest.HeldKey{Bucket: row.Bucket, User: row.UserID}] = true
		}
	}
	return released, nil
}

// list returns a page of holds from a day on; user is 0 for all users.
func (s *Store) list(ctx context.Context, q Query, user models.RowID, from models.Date) ([]models.Hold, error) {
	db := s.db.WithContext(ctx).Where(&models.Hold{State: q.State, Board: q.Board, Row: user}).Where("day >= ?", from)
	return cursor.Newest[models.Hold](db, "id", q.Before, q.Limit)
}

// find returns a hold of a day from the given one on, or CodeNotFound.
func (s *Store) find(ctx context.Context, id int64, from models.Date) (models.Hold, error) {
	h, err := lists.Take[models.Hold](s.db.WithContext(ctx).Where("id = ? AND day >= ?", id, from),
		models.Errorf(models.CodeNotFound, "there is no held total of this id"))
	return h, models.Public("read a held total", err)
}

// decide stores the decision of a hold, and reports whether it has: not if the hold has another total
// by now, or is released or in the same state. One statement, which waits for an upload that raises
// the total.
func (s *Store) decide(ctx context.Context, h models.Hold) (stored bool, err error) {
	result := s.db.WithContext(ctx).Model(&models.Hold{}).
		Where("id = ? AND score = ? AND state NOT IN ?", h.ID, h.Score, []models.HoldState{models.HoldReleased, h.State}).
		Select("state", "decided_at", "decided_by", "reason", "message").Updates(h)
	return result.RowsAffected > 0, models.Public("decide about a held total", result.Error)
}

// unwritten returns released totals of days from the given one on that the writer has not taken yet.
func (s *Store) unwritten(ctx context.Context, from models.Date, limit int) (list []models.Hold, err error) {
	err = s.db.WithContext(ctx).Where("state = 'released' AND written_at IS NULL AND day >= ?", from).Order("id").Limit(limit).Find(&list).Error
	return list, models.Public("read released totals", err)
}

// written records that the writer has taken released totals. One statement.
func (s *Store) written(ctx context.Context, ids []int64, at time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	db := s.db.WithContext(ctx)
	err := db.Exec(`UPDATE held_scores SET written_at = ? WHERE written_at IS NULL AND id ?`, at, lists.Is(db, ids)).Error
	return models.Public("record what was written of released totals", err)
}

// Unsettled reports whether there is a released total of days of a board that the writer has not taken, or has taken
// since a moment. One query.
func Unsettled(tx *gorm.DB, board string, first, last models.Date, since time.Time) (bool, error) {
	var n int64
	err := tx.Raw(`SELECT count(*) FROM held_scores WHERE board = ? AND day BETWEEN ? AND ? AND state = 'released'
		AND (written_at IS NULL OR written_at >= ?)`, board, first, last, since).Scan(&n).Error
	return n > 0, models.Wrap("look for released totals", err)
}

// waiting returns the number and the age of the open holds of each board that has any.
func (s *Store) waiting(ctx context.Context, now time.Time, from models.Date) (map[string]Waiting, error) {
	var rows []struct {
		Board  string
		Open   int64
		Oldest time.Time
	}
	err := s.db.WithContext(ctx).Raw(`SELECT h.board, h.held_at AS oldest, o.open
		FROM (SELECT min(id) AS id, count(*) AS open FROM held_scores WHERE state = 'open' AND day >= ? GROUP BY board) o
		JOIN held_scores h ON h.id = o.id`, from).Scan(&rows).Error
	if err != nil {
		return nil, models.Unavailable("count held totals", err)
	}
	waiting := make(map[string]Waiting, len(rows))
	for _, row := range rows {
		waiting[row.Board] = Waiting{row.Open, max(0, now.Sub(row.Oldest))}
	}
	return waiting, nil
}

// of returns the hold of a user in a bucket; nil for none. One query.
func (s *Store) of(ctx context.Context, bucket *models.Bucket, user models.RowID) (*models.Hold, error) {
	h, err := lists.First[models.Hold](s.uploads.WithContext(ctx).Where("board = ? AND bucket = ? AND user_id = ?", bucket.Board, bucket.Name, user))
	return h, models.Public("read a held total", err)
}

// delete deletes the holds for which a condition holds. One statement for each chunk (pause.Chunks).
func (s *Store) delete(ctx context.Context, condition string, args ...any) (deleted int64, err error) {
	deleted, err = lists.Delete(ctx, s.db, "held_scores", "id", condition, args...)
	return deleted, models.Wrap("delete held totals", err)
}
