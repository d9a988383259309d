package ledger

import (
	"context"
	"errors"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// sqlite writes one row at a time. The database runs one transaction at a time,
// so they never conflict.
type sqlite struct {
	db *gorm.DB
}

// transact implements transactor.
func (s *sqlite) transact(ctx context.Context, fn func(transaction) error) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return fn(&sqliteTx{db: tx}) })
}

// sqliteTx is one transaction of sqlite.
type sqliteTx struct {
	db *gorm.DB
}

// known implements transaction.
func (t *sqliteTx) known(_ context.Context, keys []eventKey) (map[eventKey]knownEvent, error) {
	known := make(map[eventKey]knownEvent)
	names := make([][]any, len(keys))
	for i, k := range keys {
		names[i] = []any{k.board, k.id}
	}
	var events []models.ScoreEvent
	if err := t.db.Where("(board, event_id) IN ?", names).Find(&events).Error; err != nil {
		return nil, err
	}
	for _, e := range events {
		total, err := t.total(totalKey{e.Board, e.User, e.Total})
		if err != nil {
			return nil, err
		}
		known[eventKey{e.Board, e.EventID}] = knownEvent{e, balance{total.Score, models.TimestampOf(total.ReachedAt)}}
	}
	return known, nil
}

// probe implements transaction. No other transaction runs, so no row is locked.
func (t *sqliteTx) probe(_ context.Context, totals []*total) ([]rowState, error) {
	return slices.Repeat([]rowState{free}, len(totals)), nil
}

// lock implements transaction.
func (t *sqliteTx) lock(_ context.Context, totals []*total, windows []*window) (balances, error) {
	locked := balances{totals: make([]balance, len(totals))}
	for i, key := range totals {
		stored, err := t.total(key.totalKey)
		if err != nil {
			return balances{}, err
		}
		locked.totals[i].score = stored.Score
	}
	var err error
	locked.windows, err = t.sum(windows)
	return locked, err
}

// total returns the stored total, or one with a score of 0.
func (t *sqliteTx) total(key totalKey) (models.ScoreTotal, error) {
	stored := models.ScoreTotal{Board: key.board, User: key.user, Total: key.name}
	err := t.db.Take(&stored).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = nil
	}
	return stored, err
}

// add implements transaction.
func (t *sqliteTx) add(_ context.Context, additions []addition, windows []*window) (balances, error) {
	after := balances{totals: make([]balance, len(additions))}
	for i, a := range additions {
		stored, err := t.total(a.totalKey)
		if err != nil {
			return balances{}, err
		}
		reachedAt := a.reachedAt
		if stored.Score > 0 {
			reachedAt = max(reachedAt, models.TimestampOf(stored.ReachedAt))
		}
		stored.Score, stored.ReachedAt = stored.Score+a.delta, reachedAt.Time()
		if err := t.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&stored).Error; err != nil {
			return balances{}, err
		}
		after.totals[i] = balance{stored.Score, reachedAt}
	}
	var err error
	after.windows, err = t.sum(windows)
	return after, err
}

// sum returns the sums of windows.
func (t *sqliteTx) sum(windows []*window) ([]int64, error) {
	sums := make([]int64, len(windows))
	for i, w := range windows {
		err := t.db.Model(&models.ScoreTotal{}).Select("coalesce(sum(score), 0)").
			Where("board = ? AND user_id = ? AND total >= ? AND total <> ?", w.board, w.user, w.since, w.total.bucket.Name).
			Scan(&sums[i]).Error
		if err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// finish implements transaction.
func (t *sqliteTx) finish(_ context.Context, events []models.ScoreEvent) error {
	err := t.db.Create(events).Error
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return errDuplicateID
	}
	return err
}
