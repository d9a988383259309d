package ledger

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/column"
	"stepboard/internal/lists"
	"stepboard/models"
)

// sqlite counts in three statements, and in one more each if totals are locked first or windows
// are summed, whatever the number of increments. The database runs one transaction that writes at
// a time, so they never conflict.
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

// storedRows is how many rows one statement stores. It has eight parameters for each.
const storedRows = 1000

// read implements transaction. No other transaction runs that writes, so the events need no lock.
func (t *sqliteTx) read(_ context.Context, keys []eventKey, events []string) (map[eventKey]knownEvent, map[string]eventState, error) {
	known, err := t.known(keys)
	if err != nil || len(events) == 0 {
		return known, nil, err
	}
	var buckets []models.Bucket
	err = t.db.Where("board IN ? AND bucket = 'event'", events).Find(&buckets).Error
	states := make(map[string]eventState, len(buckets))
	for _, b := range buckets {
		states[b.Board] = eventState{b.EndsAt, b.ClosesAt, b.FinalAt != nil}
	}
	return known, states, err
}

// known returns those of the increments that are stored.
func (t *sqliteTx) known(keys []eventKey) (map[eventKey]knownEvent, error) {
	given := column.Of(keys, func(k eventKey) [2]string { return [2]string{k.board, k.id} })
	query := t.db.Raw(`
		SELECT e.board, e.event_id, e.user_id, e.delta, e.score, e.reached_at, e.total, coalesce(t.score, 0), t.reached_at
		FROM json_each(?) k CROSS JOIN score_events e ON e.board = k.value ->> 0 AND e.event_id = k.value ->> 1
		LEFT JOIN score_totals t ON t.board = e.board AND t.user_id = e.user_id AND t.total = e.total`, lists.JSON(given))
	var (
		e  knownEvent
		at sql.NullTime
	)
	known := make(map[eventKey]knownEvent)
	columns := []any{&e.Board, &e.EventID, &e.User, &e.Delta, &e.Score, &e.ReachedAt, &e.Total, &e.total.score, &at}
	err := lists.Each(query, columns, func() error {
		if e.total.stored = at.Valid; at.Valid {
			e.total.reachedAt = models.TimestampOf(at.Time)
		}
		known[eventKey{e.Board, e.EventID}] = e
		return nil
	})
	return known, err
}

// probe implements transaction. No other transaction runs, so no row is locked.
func (t *sqliteTx) probe(_ context.Context, totals []*total) ([]rowState, error) {
	return slices.Repeat([]rowState{free}, len(totals)), nil
}

// lock implements transaction.
func (t *sqliteTx) lock(_ context.Context, totals []*total, windows []*window) (locked balances, err error) {
	if locked.totals, err = balancesOf(t.db, totals); err == nil {
		locked.windows, err = t.sum(windows)
	}
	return locked, err
}

// balancesOf returns totals by position, or 0 for those that are not stored.
func balancesOf[T keyed](db *gorm.DB, totals []T) ([]balance, error) {
	given := column.Of(totals, func(t T) [3]any { return [3]any{t.key().board, int64(t.key().user), t.key().name} })
	query := db.Raw(`
		SELECT k.key, t.score, t.reached_at FROM json_each(?) k
		CROSS JOIN score_totals t ON t.board = k.value ->> 0 AND t.user_id = k.value ->> 1 AND t.total = k.value ->> 2`, lists.JSON(given))
	var (
		i      int
		points int64
		at     time.Time
	)
	stored := make([]balance, len(totals))
	err := lists.Each(query, []any{&i, &points, &at}, func() error {
		stored[i] = balance{points, models.TimestampOf(at), true}
		return nil
	})
	return stored, err
}

// add implements transaction.
func (t *sqliteTx) add(_ context.Context, additions []addition, windows []*window) (after balances, err error) {
	if after.totals, err = balancesOf(t.db, additions); err != nil {
		return balances{}, err
	}
	totals := make([]models.ScoreTotal, len(additions))
	for i, a := range additions {
		after.totals[i] = after.totals[i].join(a.bucket.Best, a.balance)
		total := after.totals[i]
		totals[i] = models.ScoreTotal{Board: a.board, User: a.user, Total: a.name, Score: total.score, ReachedAt: total.reachedAt.Time()}
	}
	for chunk := range slices.Chunk(totals, storedRows) {
		if err := t.db.Clauses(clause.OnConflict{UpdateAll: true}).Create(chunk).Error; err != nil {
			return balances{}, err
		}
	}
	after.windows, err = t.sum(windows)
	return after, err
}

// sum returns the sums of windows.
func (t *sqliteTx) sum(windows []*window) ([]int64, error) {
	if len(windows) == 0 {
		return nil, nil
	}
	given := column.Of(windows, func(w *window) [4]any { return [4]any{w.board, int64(w.user), w.since, w.total.bucket.Name} })
	var sums []int64
	err := t.db.Raw(`
		SELECT coalesce((
			SELECT sum(t.score) FROM score_totals t
			WHERE t.board = w.value ->> 0 AND t.user_id = w.value ->> 1 AND t.total >= w.value ->> 2 AND t.total <> w.value ->> 3), 0)
		FROM json_each(?) w ORDER BY w.key`, lists.JSON(given)).Scan(&sums).Error
	return sums, err
}

// finish implements transaction.
func (t *sqliteTx) finish(_ context.Context, events []models.ScoreEvent) error {
	for chunk := range slices.Chunk(events, storedRows) {
		err := t.db.Create(chunk).Error
		if errors.Is(err, gorm.ErrDuplicatedKey) {
			return errDuplicateID
		}
		if err != nil {
			return err
		}
	}
	return nil
}
