package ledger

import (
	"context"
	"errors"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// sqliteKeys is how many ids one statement looks for, and how many rows it
// inserts: the driver needs time that grows with the square of the parameters.
const sqliteKeys = 100

// sqlite counts one row at a time. The database does one thing at a time, so
// nobody is ever met.
type sqlite struct {
	db *gorm.DB
}

// transact: see books.
func (s *sqlite) transact(ctx context.Context, fn func(transaction) error) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return fn(&sqliteTx{db: tx}) })
}

// sqliteTx is one transaction.
type sqliteTx struct {
	db *gorm.DB
}

// known: see transaction.
func (t *sqliteTx) known(_ context.Context, keys []eventKey) (map[eventKey]models.ScoreEvent, error) {
	known := make(map[eventKey]models.ScoreEvent)
	for chunk := range slices.Chunk(keys, sqliteKeys) {
		names := make([][]any, len(chunk))
		for i, k := range chunk {
			names[i] = []any{k.board, k.id}
		}
		var events []models.ScoreEvent
		if err := t.db.Where("(board, event_id) IN ?", names).Find(&events).Error; err != nil {
			return nil, err
		}
		for _, e := range events {
			known[eventKey{e.Board, e.EventID}] = e
		}
	}
	return known, nil
}

// lock: see transaction.
func (t *sqliteTx) lock(_ context.Context, rows []*row, windows []*window) error {
	for _, r := range rows {
		stored, err := t.total(r)
		if err != nil {
			return err
		}
		r.score = stored.Score
	}
	return t.sum(windows)
}

// total is the row as it stands.
func (t *sqliteTx) total(r *row) (models.ScoreTotal, error) {
	stored := models.ScoreTotal{Board: r.board, User: r.user, Total: r.total}
	err := t.db.Take(&stored).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = nil
	}
	return stored, err
}

// add: see transaction.
func (t *sqliteTx) add(_ context.Context, rows []*row, windows []*window) error {
	for _, r := range rows {
		stored, err := t.total(r)
		if err != nil {
			return err
		}
		r.score = stored.Score + r.added
		if stored.Score > 0 {
			r.reachedAt = max(r.reachedAt, models.TimestampOf(stored.ReachedAt))
		}
		stored.Score, stored.ReachedAt = r.score, r.reachedAt.Time()
		if err := t.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&stored).Error; err != nil {
			return err
		}
	}
	return t.sum(windows)
}

func (t *sqliteTx) sum(windows []*window) error {
	for _, w := range windows {
		err := t.db.Model(&models.ScoreTotal{}).Select("coalesce(sum(score), 0)").
			Where("board = ? AND user_id = ? AND total >= ? AND total <> ?", w.row.board, w.row.user, w.since, w.row.bucket.Name).
			Scan(&w.sum).Error
		if err != nil {
			return err
		}
	}
	return nil
}

// finish: see transaction.
func (t *sqliteTx) finish(_ context.Context, events []models.ScoreEvent) error {
	err := t.db.CreateInBatches(events, sqliteKeys).Error
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return errDuplicateID
	}
	return err
}
