package friends

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"stepboard/models"
)

// postgresImport looks rows up through temporary tables, and copies friendships.
type postgresImport struct{}

// lookUpByIndex makes the rest of the transaction look up each row of a temporary table in
// an index. Otherwise Postgres, which has no statistics about temporary tables, would read
// all users for each chunk.
const lookUpByIndex = `SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off`

func (postgresImport) lock(t *tx, gains [][2]int64) (above []models.User, err error) {
	if err := t.db.Exec(lookUpByIndex).Error; err != nil {
		return nil, err
	}
	if err := copyTemporary(t, "import_gains", gains); err != nil {
		return nil, err
	}
	err = t.db.Raw(`WITH locked AS MATERIALIZED (
			SELECT u.user_id, u.external_id, u.friend_count, g.b AS gained
			FROM users u JOIN import_gains g ON g.a = u.user_id ORDER BY u.user_id FOR UPDATE OF u)
		SELECT user_id, external_id, friend_count FROM locked WHERE friend_count + gained > ?`, models.MaxFriends).
		Scan(&above).Error
	return above, err
}

// befriend first looks up which pairs are friends. Nobody can add a friendship between the
// locked users meanwhile, so the other pairs can be copied straight into the table.
func (postgresImport) befriend(t *tx, pairs []models.Edge) (added int, err error) {
	if pairs, err = withoutFriends(t, pairs); err != nil || len(pairs) == 0 {
		return 0, err
	}
	err = t.db.Exec(`DELETE FROM friend_requests WHERE (user_id, other_id) IN (
		SELECT a, b FROM import_pairs UNION ALL SELECT b, a FROM import_pairs)`).Error
	if err != nil {
		return 0, err
	}
	now := t.db.NowFunc().Sub(postgresEpoch).Microseconds()
	if err := copyRows(t, "friendships (user_id, friend_id, created_at)", sidesOf(pairs), now); err != nil {
		return 0, err
	}
	if err := copyTemporary(t, "import_gained", timesOf(usersOf(pairs))); err != nil {
		return 0, err
	}
	return len(pairs), t.db.Exec(`UPDATE users SET friend_count = friend_count + g.b FROM import_gained g
		WHERE users.user_id = g.a`).Error
}

// withoutFriends returns the pairs without those that are friends.
func withoutFriends(t *tx, pairs []models.Edge) ([]models.Edge, error) {
	if err := copyTemporary(t, "import_pairs", rowsOf(pairs)); err != nil {
		return nil, err
	}
	var friends []models.Edge
	err := t.db.Raw(`SELECT p.a, p.b FROM import_pairs p
		JOIN friendships f ON f.user_id = p.a AND f.friend_id = p.b`).Scan(&friends).Error
	if err != nil || len(friends) == 0 {
		return pairs, err
	}
	slices.SortFunc(friends, compareEdges)
	return slices.DeleteFunc(slices.Clone(pairs), func(pair models.Edge) bool {
		_, found := slices.BinarySearchFunc(friends, pair, compareEdges)
		return found
	}), nil
}

// copyTemporary creates a temporary table with the columns a and b, and copies the rows
// into it.
func copyTemporary(t *tx, table string, rows [][2]int64) error {
	err := t.db.Exec(`CREATE TEMPORARY TABLE ` + table + ` (a bigint NOT NULL, b bigint NOT NULL) ON COMMIT DROP`).Error
	if err != nil {
		return err
	}
	return copyRows(t, table, rows)
}

// postgresEpoch is the time 0 of timestamps in the binary format of COPY.
var postgresEpoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// copyRows copies rows into a table, each followed by the same further fields. It sends
// them in the binary format of COPY: a header; for each row the number of its fields, and
// each field after its length; a trailer.
func copyRows(t *tx, table string, rows [][2]int64, further ...int64) error {
	fields := 2 + len(further)
	buf := make([]byte, 0, 32+(2+12*fields)*len(rows))
	buf = append(buf, "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	appendField := func(field int64) {
		buf = binary.BigEndian.AppendUint32(buf, 8)
		buf = binary.BigEndian.AppendUint64(buf, uint64(field))
	}
	for _, row := range rows {
		buf = binary.BigEndian.AppendUint16(buf, uint16(fields))
		appendField(row[0])
		appendField(row[1])
		for _, field := range further {
			appendField(field)
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
