package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"

	"stepboard/models"
)

// Store keeps increments in table score_events and running totals in
// score_totals. Safe for concurrent use.
type Store struct {
	db         *gorm.DB
	transactor transactor
}

// NewStore makes a store over the database. pool is what lies under it where
// that is Postgres, nil for the embedded one.
func NewStore(db *gorm.DB, pool *pgxpool.Pool) *Store {
	if pool == nil {
		return &Store{db: db, transactor: &sqlite{db: db}}
	}
	return &Store{db: db, transactor: &postgres{pool: pool}}
}

// transactor is what differs by database.
type transactor interface {
	// transact runs fn in a transaction, of which each statement sees what
	// others have committed before it. Where fn answers nil and has called
	// finish, it is committed; otherwise nothing has happened. errCollided where
	// the database has ended it because of another one.
	transact(ctx context.Context, fn func(transaction) error) error
}

// transaction is the steps of counting increments.
type transaction interface {
	// known finds the increments that were counted under the given names, which
	// come in order. Of an increment it reads what was sent and what it led to.
	known(ctx context.Context, keys []eventKey) (map[eventKey]models.ScoreEvent, error)
	// lock keeps others from the totals, in their order, and reads what the
	// totals and the windows come to. Totals that don't exist are 0 and not
	// locked.
	lock(ctx context.Context, rows []*row, windows []*window) error
	// add adds to the totals, in their order, making those that don't exist,
	// and reads what they and the windows come to.
	add(ctx context.Context, rows []*row, windows []*window) error
	// finish stores increments, in their order; it is the last step. errTaken
	// where an id is there by now.
	finish(ctx context.Context, events []models.ScoreEvent) error
}

// page reads the totals of a slot behind the given one, in the order of their
// names: those from Since to Total.
func (s *Store) page(ctx context.Context, slot models.TotalRange, after totalKey, limit int) ([]models.ScoreTotal, error) {
	var totals []models.ScoreTotal
	err := s.within(ctx, slot).Where("(board, user_id, total) > (?, ?, ?)", after.board, after.user, after.total).
		Order("board, user_id, total").Limit(limit).Find(&totals).Error
	if err != nil {
		return nil, fmt.Errorf("read totals: %w", err)
	}
	return totals, nil
}

// within narrows a query to the totals of a slot.
func (s *Store) within(ctx context.Context, slot models.TotalRange) *gorm.DB {
	return s.db.WithContext(ctx).Where("board = ? AND total BETWEEN ? AND ?", slot.Bucket.Board, slot.Since, slot.Total)
}

// recent reads the totals behind the given one, in the order of their names,
// that an increment was added to which was accepted since a moment. One whose
// total is gone has a score of 0.
func (s *Store) recent(ctx context.Context, since time.Time, after totalKey, limit int) ([]models.ScoreTotal, error) {
	var totals []models.ScoreTotal
	// MATERIALIZED keeps Postgres from reading all increments there are, in the
	// order of their key, for the sake of the order of the totals.
	err := s.db.WithContext(ctx).Raw(`
		WITH recent AS MATERIALIZED (SELECT board, user_id, total FROM score_events WHERE accepted_at >= ?)
		SELECT e.board, e.user_id, e.total, coalesce(t.score, 0) AS score, t.reached_at
		FROM (
			SELECT DISTINCT board, user_id, total FROM recent
			WHERE (board, user_id, total) > (?, ?, ?)
			ORDER BY board, user_id, total LIMIT ?
		) e
		LEFT JOIN score_totals t ON t.board = e.board AND t.user_id = e.user_id AND t.total = e.total
		ORDER BY e.board, e.user_id, e.total`, since.UTC(), after.board, after.user, after.total, limit).Scan(&totals).Error
	if err != nil {
		return nil, fmt.Errorf("read recent totals: %w", err)
	}
	return totals, nil
}

// deleteIncrements deletes some of the increments that were accepted before a moment, and
// tells how many.
func (s *Store) deleteIncrements(ctx context.Context, before time.Time, limit int) (int64, error) {
	deleted := s.db.WithContext(ctx).Exec(`
		DELETE FROM score_events WHERE (board, event_id) IN (
			SELECT board, event_id FROM score_events WHERE accepted_at < ? LIMIT ?)`, before.UTC(), limit)
	if deleted.Error != nil {
		return 0, fmt.Errorf("delete increments: %w", deleted.Error)
	}
	return deleted.RowsAffected, nil
}

// deleteTotals deletes the totals of a slot behind one and up to another.
func (s *Store) deleteTotals(ctx context.Context, slot models.TotalRange, after, upto totalKey) (int64, error) {
	deleted := s.within(ctx, slot).
		Where("(board, user_id, total) > (?, ?, ?) AND (board, user_id, total) <= (?, ?, ?)",
			after.board, after.user, after.total, upto.board, upto.user, upto.total).
		Delete(&models.ScoreTotal{})
	if deleted.Error != nil {
		return 0, fmt.Errorf("delete totals: %w", deleted.Error)
	}
	return deleted.RowsAffected, nil
}
