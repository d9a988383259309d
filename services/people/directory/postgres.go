package directory

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/models"
)

// uniqueViolation is the code of Postgres's error for a row that exists.
const uniqueViolation = "23505"

// postgres passes lists as arrays, so that the statements never change.
type postgres struct {
	pool *pgxpool.Pool
}

const recordColumns = `user_id, external_id, nickname, avatar_url, cover_url, hidden, version`

func (p *postgres) byUser(ctx context.Context, users []string) ([]models.Record, error) {
	return p.records(ctx, `SELECT `+recordColumns+` FROM users WHERE external_id = ANY($1)`, users)
}

func (p *postgres) byRow(ctx context.Context, rows []int64) ([]models.Record, error) {
	return p.records(ctx, `SELECT `+recordColumns+` FROM users WHERE user_id = ANY($1)`, rows)
}

// insertUsers creates users. The erasure of an id is the latest one that has no row to which it
// has returned. Its result is that of insert: the records, and whether each has returned.
const insertUsers = `WITH given AS MATERIALIZED (
		SELECT given.*, e.*
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[])
			WITH ORDINALITY AS given (id, nickname, avatar_url, cover_url, id_hash, position)
		LEFT JOIN LATERAL (
			SELECT erasures.id AS erasure, requests_sent, requests_until, hidings, hidings_until FROM erasures
			WHERE erasures.id_hash = given.id_hash AND returned_row IS NULL ORDER BY erasures.id DESC LIMIT 1
		) AS e ON true
		WHERE NOT EXISTS (SELECT 1 FROM users WHERE external_id = given.id)
	), created AS (
		INSERT INTO users (external_id, nickname, avatar_url, cover_url, created_at, requests_sent, requests_until, hidings, hidings_until)
		SELECT id, nickname, avatar_url, cover_url, now(), coalesce(requests_sent, 0), requests_until, coalesce(hidings, 0), hidings_until
		FROM given ORDER BY position
		ON CONFLICT (external_id) DO NOTHING RETURNING ` + recordColumns + `
	), returned AS (
		UPDATE erasures SET returned_row = c.user_id FROM given g JOIN created c ON c.external_id = g.id
		WHERE g.erasure IS NOT NULL AND erasures.id = g.erasure AND erasures.returned_row IS NULL
		RETURNING erasures.returned_row
	)
	SELECT c.*, r.returned_row IS NOT NULL FROM created c LEFT JOIN returned r ON r.returned_row = c.user_id`

func (p *postgres) insert(
	ctx context.Context, key []byte, users []User,
) (created []models.Record, returned []models.RowID, err error) {
	var columns [4][]string
	hashes := make([][]byte, len(users))
	for n, user := range users {
		for i, text := range [...]string{string(user.ID), user.Nickname, user.AvatarURL, user.CoverURL} {
			columns[i] = append(columns[i], text)
		}
		hashes[n] = IDHash(key, user.ID)
	}
	rows, err := p.pool.Query(ctx, insertUsers, columns[0], columns[1], columns[2], columns[3], hashes)
	if err != nil {
		return nil, nil, err
	}
	var r models.Record
	var back bool
	_, err = pgx.ForEachRow(rows, []any{&r.Row, &r.User, &r.Nickname, &r.AvatarURL, &r.CoverURL, &r.Hidden, &r.Version, &back}, func() error {
		created = append(created, r)
		if back {
			returned = append(returned, r.Row)
		}
		return nil
	})
	return created, returned, err
}

func (p *postgres) put(ctx context.Context, row models.RowID, profile models.Profile) (models.Record, error) {
	rows, err := p.pool.Query(ctx, `UPDATE users SET nickname = $2, avatar_url = $3, cover_url = $4,
		version = nextval('user_versions'), changed_at = now() WHERE user_id = $1 RETURNING `+recordColumns,
		int64(row), profile.Nickname, profile.AvatarURL, profile.CoverURL)
	if err != nil {
		return models.Record{}, err
	}
	return pgx.CollectExactlyOneRow(rows, scanRecord)
}

// renamedBefore selects the user whose last renaming was from one id to the other.
const renamedBefore = `SELECT u.user_id, u.external_id, u.nickname, u.avatar_url, u.cover_url, u.hidden, u.version
	FROM users u JOIN renames r ON r.row_id = u.user_id
	WHERE r.former_id = $1 AND u.external_id = $2 AND r.id = (SELECT max(id) FROM renames WHERE row_id = u.user_id)`

func (p *postgres) rename(ctx context.Context, key []byte, user, to models.UserID) (models.Record, error) {
	list, err := p.records(ctx, `WITH renamed AS (
			UPDATE users SET external_id = $2, version = nextval('user_versions'), changed_at = now()
			WHERE external_id = $1 RETURNING `+recordColumns+`
		), noted AS (
			INSERT INTO renames (row_id, former_id, renamed_at) SELECT user_id, $1, now() FROM renamed
		), returned AS (
			UPDATE erasures SET returned_row = renamed.user_id FROM renamed
			WHERE erasures.returned_row IS NULL AND erasures.id = (
				SELECT e.id FROM erasures e WHERE e.id_hash = $3 AND e.returned_row IS NULL ORDER BY e.id DESC LIMIT 1)
		)
		SELECT `+recordColumns+` FROM renamed`, string(user), string(to), IDHash(key, to))
	if err == nil && len(list) == 0 {
		list, err = p.records(ctx, renamedBefore, string(user), string(to))
	}
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == uniqueViolation:
		return models.Record{}, errTaken
	case err != nil:
		return models.Record{}, err
	case len(list) == 0:
		return models.Record{}, errNotStored
	}
	return list[0], nil
}

func (p *postgres) renamesAfter(ctx context.Context, id int64) ([]rename, error) {
	rows, err := p.pool.Query(ctx, `SELECT r.id, u.user_id, u.external_id, u.version FROM renames r
		JOIN users u ON u.user_id = r.row_id WHERE r.id > $1`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[rename])
}

func (p *postgres) changedSince(ctx context.Context, since time.Time) ([]models.Record, error) {
	rows, err := p.pool.Query(ctx, `SELECT user_id, version FROM users WHERE changed_at >= $1`, since)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r models.Record, err error) {
		return r, row.Scan(&r.Row, &r.Version)
	})
}

func (p *postgres) now(ctx context.Context) (now time.Time, err error) {
	return now, p.pool.QueryRow(ctx, `SELECT now()`).Scan(&now)
}

func (p *postgres) records(ctx context.Context, query string, args ...any) ([]models.Record, error) {
	rows, err := p.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRecord)
}

func scanRecord(row pgx.CollectableRow) (r models.Record, err error) {
	return r, row.Scan(&r.Row, &r.User, &r.Nickname, &r.AvatarURL, &r.CoverURL, &r.Hidden, &r.Version)
}

// counters reads both sequences. A sequence that was never used has handed out nothing.
func (p *postgres) counters(ctx context.Context) (c Counters, err error) {
	err = p.pool.QueryRow(ctx, `SELECT
		coalesce(pg_sequence_last_value(pg_get_serial_sequence('users', 'user_id')::regclass), 0),
		coalesce(pg_sequence_last_value('user_versions'::regclass), 0)`).Scan(&c.Row, &c.Version)
	return c, err
}

func (p *postgres) gaps(ctx context.Context) ([]gap, error) {
	rows, err := p.pool.Query(ctx, `SELECT first_id, last_id FROM row_id_gaps ORDER BY first_id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[gap])
}

func (p *postgres) erasedAfter(ctx context.Context, id int64) ([]erasure, error) {
	rows, err := p.pool.Query(ctx, `SELECT id, row_id FROM erasures WHERE id > $1`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[erasure])
}

// skip moves the sequences past the given counters, and stores the row ids between as
// a gap. The lock keeps two processes from storing the same gap.
func (p *postgres) skip(ctx context.Context, to Counters) error {
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE row_id_gaps IN EXCLUSIVE MODE`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `WITH handed_out AS (
				SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('users', 'user_id')::regclass), 0) AS row_id
			), gap AS (
				INSERT INTO row_id_gaps (first_id, last_id, created_at)
				SELECT row_id + 1, $1, now() FROM handed_out WHERE row_id < $1
			)
			SELECT setval(pg_get_serial_sequence('users', 'user_id'), $1) FROM handed_out WHERE row_id < $1`, int64(to.Row))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT setval('user_versions', $1)
			WHERE coalesce(pg_sequence_last_value('user_versions'::regclass), 0) < $1`, to.Version)
		return err
	})
}
