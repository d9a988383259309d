package directory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"stepboard/models"
)

// ensure looks the users up through a temporary table, whatever their number. Users are
// created in the order of their ids, as by insert, to avoid deadlocks. The same order also
// makes it faster to look up many users, as neighbours share pages of the index.
func (p *postgres) ensure(
	ctx context.Context, key []byte, users []string,
) (rows []models.RowID, created int64, returned []models.RowID, err error) {
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if err := stageUsers(ctx, tx, users); err != nil {
			return err
		}
		rows = make([]models.RowID, len(users))
		found, err := stagedRows(ctx, tx, rows)
		if err != nil || found == len(rows) {
			return err
		}
		var missing []int // positions
		for i, row := range rows {
			if row == 0 {
				missing = append(missing, i)
			}
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
		if err != nil {
			return err
		}
		returned, err = noteReturned(ctx, tx, key, users, rows, missing)
		return err
	})
	return rows, created, returned, err
}

// stageUsers copies user ids with their positions into the temporary table import_users, in
// the order of the ids.
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
	order := inOrder(users)
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"import_users"}, []string{"position", "external_id"},
		pgx.CopyFromSlice(len(order), func(i int) ([]any, error) { return []any{order[i], users[order[i]]}, nil }))
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

// noteReturned does for the created users at some positions what insert does for those whose ids
// had been erased, and returns their rows. One query if nothing is kept of anybody, and otherwise a
// statement for each 10,000 users.
func noteReturned(
	ctx context.Context, tx pgx.Tx, key []byte, users []string, rows []models.RowID, created []int,
) (returned []models.RowID, err error) {
	var kept bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM erasures WHERE id_hash IS NOT NULL AND returned_row IS NULL)`).Scan(&kept)
	if err != nil || !kept {
		return nil, err
	}
	for chunk := range slices.Chunk(created, 10*queryItems) {
		ids, hashes := make([]int64, len(chunk)), make([][]byte, len(chunk))
		for n, i := range chunk {
			ids[n], hashes[n] = int64(rows[i]), IDHash(key, models.UserID(users[i]))
		}
		result, err := tx.Query(ctx, `WITH returned AS (
				UPDATE erasures SET returned_row = given.user_id
				FROM unnest($1::bigint[], $2::bytea[]) AS given (user_id, id_hash)
				CROSS JOIN LATERAL (
					SELECT e.id FROM erasures e WHERE e.id_hash = given.id_hash AND e.returned_row IS NULL ORDER BY e.id DESC LIMIT 1
				) AS latest
				WHERE erasures.id = latest.id AND erasures.returned_row IS NULL RETURNING erasures.*
			)
			UPDATE users SET requests_sent = r.requests_sent, requests_until = r.requests_until, hidings = r.hidings,
				hidings_until = r.hidings_until
			FROM returned r WHERE users.user_id = r.returned_row RETURNING users.user_id`, ids, hashes)
		if err != nil {
			return nil, err
		}
		back, err := pgx.CollectRows(result, pgx.RowTo[models.RowID])
		if err != nil {
			return nil, err
		}
		returned = append(returned, back...)
	}
	return returned, nil
}
