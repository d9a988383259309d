package ledger

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"

	"stepboard/internal/lists"
	"stepboard/models"
)

// Store keeps increments in table score_events and running totals in
// score_totals. Safe for concurrent use.
type Store struct {
	db         *gorm.DB
	transactor transactor
}

// NewStore returns a store on the database. Jobs use db. Increments use pool, or increments
// if pool is nil because the database is SQLite.
func NewStore(db, increments *gorm.DB, pool *pgxpool.Pool) *Store {
	if pool == nil {
		return &Store{db: db, transactor: &sqlite{db: increments}}
	}
	return &Store{db: db, transactor: &postgres{pool: pool, lockWait: lockWait}}
}

// transactor runs transactions. There is one for each kind of database.
type transactor interface {
	// transact runs fn in a transaction in which each statement sees the commits
	// before it. It commits if fn returns nil and has called finish; otherwise it
	// rolls back. It returns errConflict if the database has ended the
	// transaction because of another one, and errLocked if a step has waited too
	// long for a lock.
	transact(ctx context.Context, fn func(transaction) error) error
}

// transaction holds the steps of counting increments. On Postgres each is one
// round trip.
type transaction interface {
	// read returns those of the increments that are stored, with their user,
	// delta, score, time and running total. The keys are in order. It also returns the
	// buckets of events, by board, with the fields that change, and locks them against becoming
	// final.
	read(ctx context.Context, keys []eventKey, events []string) (map[eventKey]knownEvent, map[string]eventState, error)
	// probe locks those of the totals that exist and that no other transaction has
	// locked, without waiting. It returns the state of each.
	probe(ctx context.Context, totals []*total) ([]rowState, error)
	// lock locks the totals, in their order, and returns the scores of the totals
	// and the sums of the windows. A total that does not exist has 0 and is not
	// locked.
	lock(ctx context.Context, totals []*total, windows []*window) (balances, error)
	// add joins additions to their totals, in their order, and makes those that don't exist.
	// It returns the totals and the sums of the windows as they are afterwards.
	add(ctx context.Context, additions []addition, windows []*window) (balances, error)
	// finish stores increments, in their order. It is the last step. It returns
	// errDuplicateID if one of the ids is stored by now.
	finish(ctx context.Context, events []models.ScoreEvent) error
}

// page returns the totals of a range that follow the given one, in the order of
// their keys.
func (s *Store) page(ctx context.Context, totalRange models.TotalRange, after totalKey, limit int) ([]models.ScoreTotal, error) {
	var totals []models.ScoreTotal
	err := s.within(ctx, totalRange).Where("(board, user_id, total) > (?, ?, ?)", after.board, after.user, after.name).
		Order("board, user_id, total").Limit(limit).Find(&totals).Error
	return totals, models.Wrap("read totals", err)
}

// within returns a query for the totals from Since to Total.
func (s *Store) within(ctx context.Context, r models.TotalRange) *gorm.DB {
	return s.db.WithContext(ctx).Where("board = ? AND total BETWEEN ? AND ?", r.Bucket.Board, r.Since, r.Total)
}

// totalsOf returns the totals of users in a range. One query for each thousand users.
func (s *Store) totalsOf(ctx context.Context, r models.TotalRange, users []models.RowID) (totals []models.ScoreTotal, err error) {
	for chunk := range slices.Chunk(users, lowerPage) {
		var page []models.ScoreTotal
		if err := s.within(ctx, r).Where("user_id IN ?", chunk).Find(&page).Error; err != nil {
			return nil, models.Unavailable("read totals", err)
		}
		totals = append(totals, page...)
	}
	return totals, nil
}

// recent returns the totals that got an increment since a moment and follow the
// given one, in the order of their keys. A total that was deleted has no time.
func (s *Store) recent(ctx context.Context, since time.Time, after totalKey, limit int) ([]models.ScoreTotal, error) {
	var totals []models.ScoreTotal
	// Without MATERIALIZED Postgres reads all increments in the order of their
	// key, because the totals are wanted in order.
	err := s.db.WithContext(ctx).Raw(`
		WITH recent AS MATERIALIZED (SELECT board, user_id, total FROM score_events WHERE accepted_at >= ?)
		SELECT e.board, e.user_id, e.total, coalesce(t.score, 0) AS score, t.reached_at
		FROM (
			SELECT DISTINCT board, user_id, total FROM recent
			WHERE (board, user_id, total) > (?, ?, ?)
			ORDER BY board, user_id, total LIMIT ?
		) e
		LEFT JOIN score_totals t ON t.board = e.board AND t.user_id = e.user_id AND t.total = e.total
		ORDER BY e.board, e.user_id, e.total`, since.UTC(), after.board, after.user, after.name, limit).Scan(&totals).Error
	return totals, models.Wrap("read recent totals", err)
}

// deleteIncrements deletes the increments that were accepted before a moment, and returns how many. One statement
// for each chunk (pause.Chunks).
func (s *Store) deleteIncrements(ctx context.Context, before time.Time) (int64, error) {
	deleted, err := lists.Delete(ctx, s.db, "score_events", "board, event_id", "accepted_at < ?", before.UTC())
	return deleted, models.Wrap("delete increments", err)
}

// deleteTotals deletes the totals of a range that follow one key, up to another.
func (s *Store) deleteTotals(ctx context.Context, totalRange models.TotalRange, after, upto totalKey) (int64, error) {
	deleted := s.within(ctx, totalRange).
		Where("(board, user_id, total) > (?, ?, ?) AND (board, user_id, total) <= (?, ?, ?)",
			after.board, after.user, after.name, upto.board, upto.user, upto.name).
		Delete(&models.ScoreTotal{})
	return deleted.RowsAffected, models.Wrap("delete totals", deleted.Error)
}
