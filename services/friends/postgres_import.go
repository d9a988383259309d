package friends

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"

	"stepboard/models"
)

// postgresImport copies into temporary tables.
type postgresImport struct{}

func (postgresImport) lock(t *tx, gains [][2]int64) (above []models.User, err error) {
	if err := copyRows(t, "import_gains", gains); err != nil {
		return nil, err
	}
	err = t.db.Raw(`WITH locked AS MATERIALIZED (
			SELECT u.user_id, u.external_id, u.friend_count, g.b AS gained
			FROM users u JOIN import_gains g ON g.a = u.user_id ORDER BY u.user_id FOR UPDATE OF u)
		SELECT user_id, external_id, friend_count FROM locked WHERE friend_count + gained > ?`, models.MaxFriends).
		Scan(&above).Error
	return above, err
}

// befriend adds in one statement, because those who gain friends are known only from the
// rows that it inserts.
func (postgresImport) befriend(t *tx, sides [][2]int64) (added int, err error) {
	if err := copyRows(t, "import_sides", sides); err != nil {
		return 0, err
	}
	err = t.db.Raw(`WITH added AS (
			INSERT INTO friendships (user_id, friend_id, created_at) SELECT a, b, ? FROM import_sides
			ON CONFLICT DO NOTHING RETURNING user_id),
		gains AS (SELECT user_id, count(*) AS gained FROM added GROUP BY user_id),
		counted AS (
			UPDATE users SET friend_count = friend_count + gains.gained FROM gains WHERE users.user_id = gains.user_id)
		SELECT coalesce(sum(gained), 0) FROM gains`, t.db.NowFunc()).Scan(&added).Error
	if err != nil || added == 0 {
		return 0, err
	}
	return added, t.db.Exec(`DELETE FROM friend_requests USING import_sides
		WHERE friend_requests.user_id = import_sides.a AND friend_requests.other_id = import_sides.b`).Error
}

// copyRows creates a temporary table with the columns a and b, and copies the rows into
// it. It sends them in the binary format of COPY: a header; for each row the number of its
// fields, and each field after its length; a trailer.
func copyRows(t *tx, table string, rows [][2]int64) error {
	err := t.db.Exec(`CREATE TEMPORARY TABLE ` + table + ` (a bigint NOT NULL, b bigint NOT NULL) ON COMMIT DROP`).Error
	if err != nil {
		return err
	}
	buf := append(make([]byte, 0, 32+26*len(rows)), "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for _, row := range rows {
		buf = binary.BigEndian.AppendUint16(buf, 2)
		for _, field := range row {
			buf = binary.BigEndian.AppendUint32(buf, 8)
			buf = binary.BigEndian.AppendUint64(buf, uint64(field))
		}
	}
	buf = binary.BigEndian.AppendUint16(buf, 0xffff)
	return t.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%T is no connection to Postgres", driver)
		}
		_, err := conn.Conn().PgConn().CopyFrom(t.db.Statement.Context, bytes.NewReader(buf),
			`COPY `+table+` FROM STDIN (FORMAT binary)`)
		return err
	})
}
