package friends

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"stepboard/models"
)

// stager holds the statements of an import that differ between the databases.
type stager interface {
	// create creates the empty tables import_edges (a, b) and import_gains (user_id,
	// gained), which the end of the transaction drops or the next create empties.
	create(t *tx) error
	// copy adds edges to import_edges.
	copy(t *tx, edges []models.Edge) error
	// lock locks the rows of the users of import_gains, ascending. It reports whether
	// some of them may have too many friends with what they gain.
	lock(t *tx) (above bool, err error)
}

// stagerOf returns the statements for the kind of database.
func stagerOf(db *gorm.DB) stager {
	if db.Name() == "postgres" {
		return postgresStager{}
	}
	return sqliteStager{}
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

// stage creates the staging tables with the pairs.
func (t *tx) stage(pairs []models.Edge) error {
	if err := stagerOf(t.db).create(t); err != nil {
		return fmt.Errorf("create staging tables: %w", err)
	}
	return t.restage(pairs)
}

// restage adds pairs to the staging table.
func (t *tx) restage(pairs []models.Edge) error {
	if len(pairs) == 0 {
		return nil
	}
	if err := stagerOf(t.db).copy(t, pairs); err != nil {
		return fmt.Errorf("stage friendships: %w", err)
	}
	return nil
}

// lockStaged locks the users of the staged pairs until the change ends, and reports
// whether some of them may have too many friends with the pairs.
func (t *tx) lockStaged() (above bool, err error) {
	if err := t.countGains(); err != nil {
		return false, err
	}
	if above, err = stagerOf(t.db).lock(t); err != nil {
		return false, fmt.Errorf("lock users: %w", err)
	}
	return above, nil
}

// unstageExisting removes the pairs that are friends. Nobody else can change that while
// the users are locked.
func (t *tx) unstageExisting() error {
	deleted := t.db.Exec(`DELETE FROM import_edges WHERE EXISTS (
		SELECT 1 FROM friendships f WHERE f.user_id = import_edges.a AND f.friend_id = import_edges.b)`)
	if deleted.Error != nil {
		return fmt.Errorf("find friendships: %w", deleted.Error)
	}
	if deleted.RowsAffected == 0 {
		return nil
	}
	return t.countGains()
}

// countGains counts the staged pairs of each user.
func (t *tx) countGains() error {
	for _, statement := range []string{
		`DELETE FROM import_gains`,
		`INSERT INTO import_gains (user_id, gained) SELECT user_id, count(*) FROM (
			SELECT a AS user_id FROM import_edges UNION ALL SELECT b FROM import_edges) AS sides GROUP BY user_id`,
	} {
		if err := t.db.Exec(statement).Error; err != nil {
			return fmt.Errorf("count new friends: %w", err)
		}
	}
	return nil
}

// stagedAboveLimit returns the users who would have too many friends with all of the
// staged pairs.
func (t *tx) stagedAboveLimit() (map[models.RowID]lockedUser, error) {
	var rows []models.User
	err := t.db.Raw(`SELECT u.user_id, u.external_id, u.friend_count FROM users u JOIN import_gains g ON g.user_id = u.user_id
		WHERE u.friend_count + g.gained > ?`, models.MaxFriends).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("find users with too many friends: %w", err)
	}
	users := make(map[models.RowID]lockedUser, len(rows))
	for _, row := range rows {
		users[row.Row] = lockedUser{id: row.User, friends: row.FriendCount}
	}
	return users, nil
}

// unstageOf removes and returns the staged pairs of the users.
func (t *tx) unstageOf(users map[models.RowID]lockedUser) ([]models.Edge, error) {
	var pairs []models.Edge
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(users)), listIDs) {
		var part []models.Edge
		err := t.db.Raw(`DELETE FROM import_edges WHERE a IN ? OR b IN ? RETURNING a, b`, chunk, chunk).Scan(&part).Error
		if err != nil {
			return nil, fmt.Errorf("read staged friendships: %w", err)
		}
		pairs = append(pairs, part...)
	}
	return pairs, nil
}

// befriendStaged stores both sides of the staged pairs, counts them for their users, and
// removes the requests between them. It returns the number of pairs.
func (t *tx) befriendStaged() (added int, err error) {
	inserted := t.db.Exec(`INSERT INTO friendships (user_id, friend_id, created_at)
		SELECT user_id, friend_id, ? FROM (
			SELECT a AS user_id, b AS friend_id FROM import_edges UNION ALL SELECT b, a FROM import_edges) AS sides
		ORDER BY user_id, friend_id`, t.db.NowFunc())
	if inserted.Error != nil {
		return 0, fmt.Errorf("store friendships: %w", inserted.Error)
	}
	if inserted.RowsAffected == 0 {
		return 0, nil
	}
	err = t.db.Exec(`UPDATE users SET friend_count = friend_count + g.gained
		FROM import_gains AS g WHERE users.user_id = g.user_id`).Error
	if err != nil {
		return 0, fmt.Errorf("count friends: %w", err)
	}
	err = t.db.Exec(`DELETE FROM friend_requests WHERE (user_id, other_id) IN (
		SELECT a, b FROM import_edges UNION ALL SELECT b, a FROM import_edges)`).Error
	if err != nil {
		return 0, fmt.Errorf("remove answered friend requests: %w", err)
	}
	return int(inserted.RowsAffected) / 2, nil
}
