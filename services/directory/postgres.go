package directory

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/models"
)

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

func (p *postgres) insert(ctx context.Context, users []User) ([]models.Record, error) {
	var columns [4][]string
	for _, user := range users {
		for i, text := range [...]string{string(user.ID), user.Nickname, user.AvatarURL, user.CoverURL} {
			columns[i] = append(columns[i], text)
		}
	}
	return p.records(ctx, `INSERT INTO users (external_id, nickname, avatar_url, cover_url, created_at)
		SELECT id, nickname, avatar_url, cover_url, now()
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
			WITH ORDINALITY AS given (id, nickname, avatar_url, cover_url, position)
		WHERE NOT EXISTS (SELECT 1 FROM users WHERE external_id = id) ORDER BY position
		ON CONFLICT (external_id) DO NOTHING RETURNING `+recordColumns, columns[0], columns[1], columns[2], columns[3])
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
