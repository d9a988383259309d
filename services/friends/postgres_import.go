package friends

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"

	"stepboard/models"
)

// postgresStager copies into temporary tables.
type postgresStager struct{}

func (postgresStager) create(t *tx) error {
	for _, statement := range []string{
		`CREATE TEMPORARY TABLE import_edges (a bigint NOT NULL, b bigint NOT NULL) ON COMMIT DROP`,
		`CREATE TEMPORARY TABLE import_gains (user_id bigint NOT NULL, gained bigint NOT NULL) ON COMMIT DROP`,
	} {
		if err := t.db.Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

// copy sends the edges in the binary format of COPY: a header; for each row the number
// of its fields, and each field after its length; a trailer.
func (postgresStager) copy(t *tx, edges []models.Edge) error {
	buf := append(make([]byte, 0, 32+26*len(edges)), "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for _, e := range edges {
		buf = binary.BigEndian.AppendUint16(buf, 2)
		for _, row := range [...]models.RowID{e.A, e.B} {
			buf = binary.BigEndian.AppendUint32(buf, 8)
			buf = binary.BigEndian.AppendUint64(buf, uint64(row))
		}
	}
	buf = binary.BigEndian.AppendUint16(buf, 0xffff)
	return t.conn.Raw(func(driver any) error {
		conn, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%T is no connection to Postgres", driver)
		}
		_, err := conn.Conn().PgConn().CopyFrom(t.db.Statement.Context, bytes.NewReader(buf),
			`COPY import_edges FROM STDIN (FORMAT binary)`)
		return err
	})
}

// lock counts the users who may be above the limit in the query that locks all of them,
// because that would take another join.
func (postgresStager) lock(t *tx) (above bool, err error) {
	var n int
	err = t.db.Raw(`SELECT count(*) FILTER (WHERE friend_count + gained > ?) FROM (
		SELECT u.friend_count, g.gained FROM users u JOIN import_gains g ON g.user_id = u.user_id
		ORDER BY u.user_id FOR UPDATE OF u) AS locked`, models.MaxFriends).Scan(&n).Error
	return n > 0, err
}
