package friends

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"
)

// uniqueViolation is the code of Postgres's error for a row that exists.
const uniqueViolation = "23505"

// copy copies sides of friendships straight into the table. gorm.ErrDuplicatedKey if one
// exists.
func (t *tx) copy(sides [][2]int64) error {
	var values [3]any // of a row
	now := t.db.NowFunc()
	err := t.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%T is no connection to Postgres", driver)
		}
		_, err := conn.Conn().CopyFrom(t.db.Statement.Context, pgx.Identifier{"friendships"}, []string{"user_id", "friend_id", "created_at"},
			pgx.CopyFromSlice(len(sides), func(i int) ([]any, error) { return append(values[:0], sides[i][0], sides[i][1], now), nil }))
		return err
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == uniqueViolation {
		return gorm.ErrDuplicatedKey
	}
	return err
}
