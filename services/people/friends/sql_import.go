package friends

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"stepboard/models"
)

// importStatements holds the statements of an import that differ between the databases.
// They get rows of two numbers.
type importStatements interface {
	// lock locks users, who are ascending, each with the number of friends that the user
	// may gain. It returns those who may then have too many friends, and the rows of those
	// who do not exist.
	lock(t *tx, gains [][2]int64) (above []models.User, gone []models.RowID, err error)
	// friends returns those of the pairs that are friends.
	friends(t *tx, pairs [][2]int64) ([]models.Edge, error)
	// count adds to the numbers of friends of users, who are ascending, and thereby locks
	// them. It leaves out those who would have too many, and returns how many it counted.
	count(t *tx, gains [][2]int64) (counted int64, err error)
	// removeRequests removes the requests between the two users of each side.
	removeRequests(t *tx, sides [][2]int64) error
	// store stores both sides of friendships. errLockFirst if one exists.
	store(t *tx, sides [][2]int64) error
}

// importOf returns the statements for the kind of database.
func importOf(db *gorm.DB) importStatements {
	if db.Name() == "postgres" {
		return postgresImport{}
	}
	return sqliteImport{}
}

// transactOnConn is transact with the connection at hand, through which rows are copied.
func (s *Store) transactOnConn(ctx context.Context, fn func(*tx) error) error {
	return s.db.WithContext(ctx).Connection(func(db *gorm.DB) error {
		conn, ok := db.Statement.ConnPool.(*sql.Conn)
		if !ok {
			return fmt.Errorf("%T is no connection", db.Statement.ConnPool)
		}
		return db.Transaction(func(db *gorm.DB) error { return fn(&tx{db: db, conn: conn}) })
	})
}

// lockForImport locks users, each with the number of friends that the user may gain, until
// the change ends. It returns those who may then have too many friends, and those who do not
// exist.
func (t *tx) lockForImport(gains [][2]int64) (map[models.RowID]lockedUser, map[models.RowID]bool, error) {
	rows, missing, err := importOf(t.db).lock(t, gains)
	if err != nil {
		return nil, nil, fmt.Errorf("lock users: %w", err)
	}
	above := make(map[models.RowID]lockedUser, len(rows))
	for _, row := range rows {
		above[row.Row] = lockedUser{id: row.User, friends: row.FriendCount}
	}
	gone := make(map[models.RowID]bool, len(missing))
	for _, row := range missing {
		gone[row] = true
	}
	return above, gone, nil
}

// withoutFriends returns the pairs without those that are friends.
func (t *tx) withoutFriends(pairs []models.Edge) ([]models.Edge, error) {
	found, err := importOf(t.db).friends(t, rowsOf(pairs))
	if err != nil {
		return nil, fmt.Errorf("look up friendships: %w", err)
	}
	if len(found) == 0 {
		return pairs, nil
	}
	slices.SortFunc(found, compareEdges)
	return slices.DeleteFunc(slices.Clone(pairs), func(pair models.Edge) bool {
		_, ok := slices.BinarySearchFunc(found, pair, compareEdges)
		return ok
	}), nil
}

// befriendAll counts the pairs, which are no friends, for their users, stores both sides of
// them, and removes the requests between them. errLockFirst if a user is full or gone, or a
// pair became friends since it was looked up.
func (t *tx) befriendAll(p Prepared) error {
	statements := importOf(t.db)
	counted, err := statements.count(t, p.gains)
	if err != nil {
		return fmt.Errorf("count friends: %w", err)
	}
	if counted < int64(len(p.gains)) {
		return errLockFirst
	}
	if err := statements.removeRequests(t, p.sides); err != nil {
		return fmt.Errorf("remove requests: %w", err)
	}
	if err := statements.store(t, p.sides); err != nil {
		return fmt.Errorf("store friendships: %w", err)
	}
	return nil
}

// timesOf returns each of the users, ascending, with the number of times that the list
// has them. It sorts the list.
func timesOf(users []models.RowID) [][2]int64 {
	slices.Sort(users)
	var times [][2]int64
	for i, user := range users {
		if i == 0 || user != users[i-1] {
			times = append(times, [2]int64{int64(user), 0})
		}
		times[len(times)-1][1]++
	}
	return times
}

func rowsOf(edges []models.Edge) [][2]int64 {
	rows := make([][2]int64, len(edges))
	for i, edge := range edges {
		rows[i] = [2]int64{int64(edge.A), int64(edge.B)}
	}
	return rows
}

// sidesOf returns both sides of the pairs in the order of the table's key, so that
// neighbours are inserted next to each other.
func sidesOf(pairs []models.Edge) [][2]int64 {
	sides := make([]models.Edge, 0, 2*len(pairs))
	for _, pair := range pairs {
		sides = append(sides, pair, models.Edge{A: pair.B, B: pair.A})
	}
	slices.SortFunc(sides, compareEdges)
	return rowsOf(sides)
}
