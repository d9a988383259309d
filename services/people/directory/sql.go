package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"

	"stepboard/models"
)

var (
	errNotStored = errors.New("there is no such user")
	errTaken     = errors.New("somebody has this user id")
)

// Store keeps users in table users, and their former ids in renames. Safe for concurrent use.
type Store struct {
	db database
}

// NewStore returns a store on the database. pool is the connection pool under db if
// that is Postgres, and nil for the embedded database.
func NewStore(db *gorm.DB, pool *pgxpool.Pool) *Store {
	if pool == nil {
		return &Store{&sqlite{db}}
	}
	return &Store{&postgres{pool}}
}

// database holds the statements of one kind of database.
type database interface {
	byUser(ctx context.Context, users []string) ([]models.Record, error)
	byRow(ctx context.Context, rows []int64) ([]models.Record, error)
	// insert creates those of the users that do not exist, in their order, and returns
	// the ones that it has created. One whose id was erased takes over the limits that were
	// kept; returned has the rows of these. key is that of IDHash.
	insert(ctx context.Context, key []byte, users []User) (created []models.Record, returned []models.RowID, err error)
	// ensure returns the row id of each user, by position, and creates those that do not
	// exist, of which it returns the number. The users are distinct. returned is as for insert.
	ensure(ctx context.Context, key []byte, users []string) (rows []models.RowID, created int64, returned []models.RowID, err error)
	put(ctx context.Context, row models.RowID, p models.Profile) (models.Record, error)
	// changedSince returns row ids and versions of the records that changed since then.
	changedSince(ctx context.Context, since time.Time) ([]models.Record, error)
	now(ctx context.Context) (time.Time, error)
	counters(ctx context.Context) (Counters, error)
	gaps(ctx context.Context) ([]gap, error)
	skip(ctx context.Context, to Counters) error
	// rename gives a user another id, which nobody has, and returns the record. If the same
	// was the user's last renaming, it changes nothing. An erased id returns to the user. key is
	// that of IDHash. errNotStored if there is no such
	// user, errTaken if somebody has the other id.
	rename(ctx context.Context, key []byte, user, to models.UserID) (models.Record, error)
	// renamesAfter returns the renames with ids greater than the given one.
	renamesAfter(ctx context.Context, id int64) ([]rename, error)
	// erasedAfter returns the erasures with ids greater than the given one.
	erasedAfter(ctx context.Context, id int64) ([]erasure, error)
}

// byUser returns the records of those users that exist. One query.
func (s *Store) byUser(ctx context.Context, users []models.UserID) (map[models.UserID]models.Record, error) {
	list, err := s.db.byUser(ctx, texts(users))
	if err != nil {
		return nil, fmt.Errorf("look up users: %w", err)
	}
	records := make(map[models.UserID]models.Record, len(list))
	for _, r := range list {
		records[r.User] = r
	}
	return records, nil
}

// byRow returns the records of those users that exist. One query.
func (s *Store) byRow(ctx context.Context, rows []models.RowID) (map[models.RowID]models.Record, error) {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = int64(row)
	}
	list, err := s.db.byRow(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read users: %w", err)
	}
	records := make(map[models.RowID]models.Record, len(list))
	for _, r := range list {
		records[r.Row] = r
	}
	return records, nil
}

// create creates users, none of whom existed a moment ago, and returns the records of
// all of them, and the rows of those whom it has created and whose ids had been erased. One
// statement, and a query if another process has created some meanwhile. Ascending ids avoid
// deadlocks between processes. Looking first avoids gaps: an insert that meets an existing row
// has taken a row id already.
func (s *Store) create(
	ctx context.Context, key []byte, users []User,
) (records []models.Record, returned []models.RowID, err error) {
	slices.SortStableFunc(users, func(a, b User) int { return strings.Compare(string(a.ID), string(b.ID)) })
	users = slices.CompactFunc(users, func(a, b User) bool { return a.ID == b.ID })
	records, returned, err = s.db.insert(ctx, key, users)
	if err != nil {
		return nil, nil, fmt.Errorf("create users: %w", err)
	}
	if len(records) == len(users) {
		return records, returned, nil
	}
	ids := make([]string, len(users))
	for i, user := range users {
		ids[i] = string(user.ID)
	}
	if records, err = s.db.byUser(ctx, ids); err != nil {
		return nil, nil, fmt.Errorf("look up users: %w", err)
	}
	return records, returned, nil
}

// ensure returns the row id of each of the distinct users, by position, and creates
// those that do not exist, of which it returns the number, and the rows of those whose ids had
// been erased. One transaction.
func (s *Store) ensure(
	ctx context.Context, key []byte, users []models.UserID,
) (rows []models.RowID, created int64, returned []models.RowID, err error) {
	if rows, created, returned, err = s.db.ensure(ctx, key, texts(users)); err != nil {
		return nil, 0, nil, fmt.Errorf("look up and create users: %w", err)
	}
	return rows, created, returned, nil
}

// put sets the profile of a user that exists, and returns the record. One statement.
func (s *Store) put(ctx context.Context, row models.RowID, p models.Profile) (models.Record, error) {
	r, err := s.db.put(ctx, row, p)
	if err != nil {
		return models.Record{}, fmt.Errorf("store profile: %w", err)
	}
	return r, nil
}

// changedSince returns row ids and versions of the records that changed since a moment
// of the database's clock. One query.
func (s *Store) changedSince(ctx context.Context, since time.Time) ([]models.Record, error) {
	list, err := s.db.changedSince(ctx, since)
	if err != nil {
		return nil, fmt.Errorf("look for changed users: %w", err)
	}
	return list, nil
}

// now returns the time of the database's clock.
func (s *Store) now(ctx context.Context) (time.Time, error) {
	now, err := s.db.now(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}

func texts(users []models.UserID) []string {
	list := make([]string, len(users))
	for i, user := range users {
		list[i] = string(user)
	}
	return list
}
