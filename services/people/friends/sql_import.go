package friends

import (
	"context"
	"database/sql"
	"fmt"

	"gorm.io/gorm"

	"stepboard/internal/dialect"
	"stepboard/internal/lists"
	"stepboard/models"
)

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

// areFriends returns those of the pairs that are friends. One query.
func (s *Store) areFriends(ctx context.Context, pairs []models.Edge) (map[models.Edge]bool, error) {
	var found []models.Edge
	err := s.db.WithContext(ctx).Table("friendships f").Select("f.user_id AS a", "f.friend_id AS b").
		Joins("JOIN ? ON f.user_id = given.a AND f.friend_id = given.b", lists.Pairs(s.db, rowsOf(pairs))).Find(&found).Error
	friends := make(map[models.Edge]bool, len(found))
	for _, pair := range found {
		friends[pair] = true
	}
	return friends, err
}

// inOrder makes Postgres update the rows of users in the order of a list, by an index. For few
// users it would otherwise read the whole table, and lock them in another order than other changes.
func (t *tx) inOrder() error {
	return dialect.SetLocal(t.db, "enable_seqscan = off", "enable_hashjoin = off", "enable_mergejoin = off")
}
