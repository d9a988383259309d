package board

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"stepboard/models"
)

// HotScores keeps what was reported for days that are not archived, in a table of SQLite: for each
// user of a day the largest composite, before corrections. It is the truth of Local. The archive
// takes from it what it has stored. Safe for concurrent use.
type HotScores struct{ db *sql.DB }

// NewHotScores returns the scores of a database, whose writes come before those of others.
func NewHotScores(db *sql.DB) *HotScores { return &HotScores{db} }

// inHotScores reports whether the scores of a bucket have their truth in HotScores. The ledger has
// the others.
func inHotScores(bucket *models.Bucket) bool { return !bucket.FromLedger && bucket.WindowHours == 0 }

// A list of numbers is one argument, because SQLite parses it faster than the driver binds
// parameters.
const storeHot = `
INSERT INTO hot_scores (board, bucket, user_id, composite)
SELECT ?1, ?2, value ->> 0, value ->> 1 FROM json_each(?3)
WHERE NOT EXISTS (SELECT 1 FROM erasures e WHERE e.row_id = value ->> 0)
ON CONFLICT DO UPDATE SET composite = excluded.composite WHERE excluded.composite > composite`

// store raises what was reported for days. One transaction, which is on the disk when store
// returns. Users who were erased are left out, because nobody may see them again.
func (h *HotScores) store(ctx context.Context, raises []models.Raise) error {
	of := make(map[*models.Bucket][]byte)
	for _, r := range raises {
		if !inHotScores(r.Bucket) {
			continue
		}
		list := append(of[r.Bucket], ",["...)
		list = strconv.AppendInt(list, int64(r.User), 10)
		list = append(list, ',')
		list = strconv.AppendInt(list, int64(r.Composite), 10)
		of[r.Bucket] = append(list, ']')
	}
	if len(of) == 0 {
		return nil
	}
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("store scores: %w", err)
	}
	for bucket, list := range of {
		list[0] = '['
		if _, err := tx.ExecContext(ctx, storeHot, bucket.Board, bucket.Name, string(append(list, ']'))); err != nil {
			_ = tx.Rollback() // the error of the statement says more
			return fmt.Errorf("store scores: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("store scores: %w", err)
	}
	return nil
}

// rowList returns row ids as an argument.
func rowList(users []models.RowID) string {
	list := []byte("[")
	for i, user := range users {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, int64(user), 10)
	}
	return string(append(list, ']'))
}

// composites returns what users have reported for a bucket, by position; 0 for those who have not.
// One query.
func (h *HotScores) composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	composites := make([]models.Composite, len(users))
	if !inHotScores(bucket) {
		return composites, nil
	}
	rows, err := h.db.QueryContext(ctx, `SELECT u.key, h.composite FROM json_each(?3) u
		JOIN hot_scores h ON h.board = ?1 AND h.bucket = ?2 AND h.user_id = u.value`, bucket.Board, bucket.Name, rowList(users))
	if err != nil {
		return nil, fmt.Errorf("read hot scores: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var at int
		var composite models.Composite
		if err := rows.Scan(&at, &composite); err != nil {
			return nil, fmt.Errorf("read hot scores: %w", err)
		}
		composites[at] = composite
	}
	return composites, rows.Err()
}

// remove removes users from a bucket, and returns how many there were. One statement.
func (h *HotScores) remove(ctx context.Context, bucket *models.Bucket, users []models.RowID) (removed int64, err error) {
	if !inHotScores(bucket) {
		return 0, nil
	}
	result, err := h.db.ExecContext(ctx, `DELETE FROM hot_scores WHERE board = ? AND bucket = ? AND user_id IN (SELECT value FROM json_each(?))`,
		bucket.Board, bucket.Name, rowList(users))
	if err != nil {
		return 0, fmt.Errorf("remove hot scores: %w", err)
	}
	return result.RowsAffected()
}

// hotPage is how many entries Each reads at once.
const hotPage = 10_000

// Each calls fn with the entries of a bucket, in pages in the order of users. One query for each
// 10,000.
func (h *HotScores) Each(ctx context.Context, bucket *models.Bucket, fn func([]models.Entry) error) error {
	page := make([]models.Entry, 0, hotPage)
	for last := models.RowID(0); ; last = page[len(page)-1].User {
		page = page[:0]
		rows, err := h.db.QueryContext(ctx, `SELECT user_id, composite FROM hot_scores
			WHERE board = ? AND bucket = ? AND user_id > ? ORDER BY user_id LIMIT ?`, bucket.Board, bucket.Name, last, hotPage)
		if err != nil {
			return fmt.Errorf("read hot scores: %w", err)
		}
		for rows.Next() {
			var e models.Entry
			if err := rows.Scan(&e.User, &e.Composite); err != nil {
				return fmt.Errorf("read hot scores: %w", err)
			}
			page = append(page, e)
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("read hot scores: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		if err := fn(page); err != nil || len(page) < hotPage {
			return err
		}
	}
}
