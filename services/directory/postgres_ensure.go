package directory

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"stepboard/models"
)

// ensure looks the users up through a temporary table, whatever their number. Users are
// created in the order of their ids, as by insert, to avoid deadlocks. The same order also
// makes it faster to look up many users, as neighbours share pages of the index.
func (p *postgres) ensure(ctx context.Context, users []string) (rows []models.RowID, created int64, err error) {
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if err := stageUsers(ctx, tx, users); err != nil {
			return err
		}
		rows = make([]models.RowID, len(users))
		found, err := stagedRows(ctx, tx, rows)
		if err != nil || found == len(rows) {
			return err
		}
		inserted, err := tx.Exec(ctx, `INSERT INTO users (external_id, created_at)
			SELECT external_id, now() FROM import_users i
			WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.external_id = i.external_id)
			ORDER BY external_id ON CONFLICT (external_id) DO NOTHING`)
		if err != nil {
			return err
		}
		created = inserted.RowsAffected()
		if found, err = stagedRows(ctx, tx, rows); err == nil && found < len(rows) {
			err = fmt.Errorf("%d of %d users found after creating them", found, len(rows))
		}
		return err
	})
	return rows, created, err
}

// stageUsers copies user ids with their positions into the temporary table import_users, in
// the order of the ids and in the binary format of COPY: a header; for each row the number of
// its fields, and each field after its length; a trailer.
//
// The rest of the transaction looks each of them up in the index of users. Otherwise
// Postgres, which has no statistics about temporary tables, would read all users.
func stageUsers(ctx context.Context, tx pgx.Tx, users []string) error {
	_, err := tx.Exec(ctx, `SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;
		CREATE TEMPORARY TABLE import_users (
			position integer NOT NULL, external_id text COLLATE "C" NOT NULL) ON COMMIT DROP`)
	if err != nil {
		return err
	}
	buf := append(make([]byte, 0, 32+32*len(users)), "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for _, i := range inOrder(users) {
		user := users[i]
		buf = binary.BigEndian.AppendUint16(buf, 2)
		buf = binary.BigEndian.AppendUint32(buf, 4)
		buf = binary.BigEndian.AppendUint32(buf, uint32(i))
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(user)))
		buf = append(buf, user...)
	}
	buf = binary.BigEndian.AppendUint16(buf, 0xffff)
	_, err = tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(buf), `COPY import_users FROM STDIN (FORMAT binary)`)
	return err
}

// inOrder returns the positions of texts in the order of the texts.
func inOrder(texts []string) []int {
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(texts[a], texts[b]) })
	return order
}

// stagedRows sets the row ids of the staged users that exist, by position, and returns
// how many these are.
func stagedRows(ctx context.Context, tx pgx.Tx, rows []models.RowID) (found int, err error) {
	result, err := tx.Query(ctx, `SELECT i.position, u.user_id
		FROM import_users i JOIN users u ON u.external_id = i.external_id`)
	if err != nil {
		return 0, err
	}
	var position int32
	var row models.RowID
	_, err = pgx.ForEachRow(result, []any{&position, &row}, func() error {
		rows[position] = row
		found++
		return nil
	})
	return found, err
}
