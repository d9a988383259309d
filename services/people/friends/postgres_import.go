package friends

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"stepboard/models"
)

// uniqueViolation is the code of Postgres's error for a row that exists.
const uniqueViolation = "23505"

// postgresImport looks rows up through temporary tables, and copies friendships.
type postgresImport struct{}

// lookUpByIndex makes the rest of the transaction look up each row of a temporary table, in
// its order, in an index. Otherwise Postgres, which has no statistics about temporary
// tables, would read all users for each chunk, or the temporary table for each of few
// users, who would then be locked in another order than by other changes of friends.
const lookUpByIndex = `SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_material = off`

func (postgresImport) lock(t *tx, gains [][2]int64) (above []models.User, gone []models.RowID, err error) {
	if err := copyTemporary(t, "import_locked", gains); err != nil {
		return nil, nil, err
	}
	err = t.db.Raw(`WITH locked AS MATERIALIZED (
			SELECT u.user_id, u.external_id, u.friend_count, g.b AS gained
			FROM users u JOIN import_locked g ON g.a = u.user_id ORDER BY u.user_id FOR UPDATE OF u)
		SELECT user_id, external_id, friend_count FROM locked WHERE friend_count + gained > ?`, models.MaxFriends).
		Scan(&above).Error
	if err != nil {
		return nil, nil, err
	}
	return above, gone, t.db.Raw(`SELECT a FROM import_locked g
		WHERE NOT EXISTS (SELECT FROM users u WHERE u.user_id = g.a)`).Scan(&gone).Error
}

func (postgresImport) friends(t *tx, pairs [][2]int64) (found []models.Edge, err error) {
	if err := copyTemporary(t, "import_pairs", pairs); err != nil {
		return nil, err
	}
	return found, t.db.Raw(`SELECT p.a, p.b FROM import_pairs p
		JOIN friendships f ON f.user_id = p.a AND f.friend_id = p.b`).Scan(&found).Error
}

func (postgresImport) count(t *tx, gains [][2]int64) (counted int64, err error) {
	if err := copyTemporary(t, "import_gains", gains); err != nil {
		return 0, err
	}
	result := t.db.Exec(`UPDATE users u SET friend_count = u.friend_count + g.b FROM import_gains g
		WHERE u.user_id = g.a AND u.friend_count + g.b <= ?`, models.MaxFriends)
	return result.RowsAffected, result.Error
}

// removeRequests looks up no pair if there are no requests at all, as in most imports.
// Nobody can send one between the locked users meanwhile.
func (postgresImport) removeRequests(t *tx, sides [][2]int64) error {
	var some bool
	if err := t.db.Raw(`SELECT EXISTS (SELECT FROM friend_requests)`).Scan(&some).Error; err != nil || !some {
		return err
	}
	if err := copyTemporary(t, "import_sides", sides); err != nil {
		return err
	}
	return t.db.Exec(`DELETE FROM friend_requests r USING import_sides s WHERE r.user_id = s.a AND r.other_id = s.b`).Error
}

// store copies the sides straight into the table.
func (postgresImport) store(t *tx, sides [][2]int64) error {
	err := copyRows(t, "friendships", []string{"user_id", "friend_id", "created_at"}, sides, t.db.NowFunc())
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == uniqueViolation {
		return errLockFirst
	}
	return err
}

// copyTemporary creates a temporary table with the columns a and b, and copies the rows
// into it. Its rows are looked up by index.
func copyTemporary(t *tx, table string, rows [][2]int64) error {
	err := t.db.Exec(lookUpByIndex + `; CREATE TEMPORARY TABLE ` + table + ` (a bigint NOT NULL, b bigint NOT NULL) ON COMMIT DROP`).Error
	if err != nil {
		return err
	}
	return copyRows(t, table, []string{"a", "b"}, rows)
}

// copyRows copies rows into columns of a table, each row followed by the same further fields.
func copyRows(t *tx, table string, columns []string, rows [][2]int64, further ...any) error {
	return t.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%T is no connection to Postgres", driver)
		}
		values := append([]any{nil, nil}, further...)
		_, err := conn.Conn().CopyFrom(t.db.Statement.Context, pgx.Identifier{table}, columns,
			pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
				values[0], values[1] = rows[i][0], rows[i][1]
				return values, nil
			}))
		return err
	})
}
