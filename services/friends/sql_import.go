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
type importStatements interface {
	// lock locks the rows of users, who are ascending, each with the number of friends
	// that the user may gain. It returns those who may then have too many friends.
	lock(t *tx, gains [][2]int64) (above []models.User, err error)
	// befriend stores both sides of the pairs that are not friends yet, counts them for
	// their users, and removes the requests between them. It returns the number of new
	// friendships.
	befriend(t *tx, pairs []models.Edge) (added int, err error)
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

// lockForImport locks the users of the pairs until the change ends. It returns those who
// may have too many friends with the pairs.
func (t *tx) lockForImport(pairs []models.Edge) (map[models.RowID]lockedUser, error) {
	rows, err := importOf(t.db).lock(t, timesOf(usersOf(pairs)))
	if err != nil {
		return nil, fmt.Errorf("lock users: %w", err)
	}
	above := make(map[models.RowID]lockedUser, len(rows))
	for _, row := range rows {
		above[row.Row] = lockedUser{id: row.User, friends: row.FriendCount}
	}
	return above, nil
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

// friendsAmong returns those of the others who are friends of the user.
func (t *tx) friendsAmong(user models.RowID, others []models.RowID) ([]models.RowID, error) {
	var found []models.RowID
	for chunk := range slices.Chunk(others, listIDs) {
		var part []models.RowID
		err := t.db.Model(&models.Friendship{}).Where("user_id = ? AND friend_id IN ?", user, chunk).
			Pluck("friend_id", &part).Error
		if err != nil {
			return nil, fmt.Errorf("look up friendships: %w", err)
		}
		found = append(found, part...)
	}
	return found, nil
}

// befriendPairs stores both sides of the pairs that are no friends, counts them for their
// users, who are locked, and removes the requests between them. It returns the number of
// new friendships.
func (t *tx) befriendPairs(pairs []models.Edge) (added int, err error) {
	if len(pairs) == 0 {
		return 0, nil
	}
	if added, err = importOf(t.db).befriend(t, pairs); err != nil {
		return 0, fmt.Errorf("store friendships: %w", err)
	}
	return added, nil
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
