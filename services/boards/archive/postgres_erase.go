package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stepboard/models"
)

// toErase implements storage. OFFSET 0 makes Postgres look each bucket up in the primary key.
func (p *postgres) toErase(ctx context.Context, user models.RowID) (buckets []*models.Bucket, err error) {
	err = p.db.WithContext(ctx).Raw(`
		SELECT `+bucketColumns+` FROM board_buckets b
		CROSS JOIN LATERAL (
			SELECT FROM archived_scores s WHERE s.day = b.day AND s.user_id = ? AND s.board = b.board OFFSET 0
		) AS found
		ORDER BY b.day, b.board`, user).Scan(&buckets).Error
	return buckets, err
}

// The statements that give a user's rows in some buckets their fresh row ids. Parameters
// are the user, and boards, names, days and fresh row ids of the buckets.
const (
	eraseLockQuery = `
		SELECT FROM board_buckets WHERE (board, bucket) IN (SELECT * FROM unnest($1::text[], $2::text[]))
		ORDER BY day, bucket FOR NO KEY UPDATE`
	tiesTable = `
		CREATE TEMP TABLE erased_ties (board text, day date, bucket text, old_id bigint, new_id bigint,
			score bigint, reached_at timestamptz, old_rank integer, new_rank integer) ON COMMIT DROP`
	// Rows that are equal in score and time follow each other, so on each side they end at
	// the first row that differs. OFFSET 0 is as in toErase.
	tiesQuery = `
		INSERT INTO erased_ties
		SELECT board, day, bucket, user_id, new_id, score, reached_at, rank,
			first + row_number() OVER (PARTITION BY board, day ORDER BY new_id::text COLLATE "C" DESC)
		FROM (
			SELECT t.*, n.bucket, CASE t.user_id WHEN own.user_id THEN n.fresh ELSE t.user_id END AS new_id, coalesce(above.rank, 0) AS first
			FROM unnest($2::text[], $3::text[], $4::date[], $5::bigint[]) AS n (board, bucket, day, fresh)
			CROSS JOIN LATERAL (
				SELECT * FROM archived_scores s WHERE s.day = n.day AND s.user_id = $1 AND s.board = n.board OFFSET 0) AS own
			LEFT JOIN LATERAL (
				SELECT s.rank FROM archived_scores s WHERE s.board = n.board AND s.day = n.day AND s.rank < own.rank
					AND (s.score, s.reached_at) <> (own.score, own.reached_at)
				ORDER BY s.rank DESC LIMIT 1) AS above ON true
			LEFT JOIN LATERAL (
				SELECT s.rank FROM archived_scores s WHERE s.board = n.board AND s.day = n.day AND s.rank > own.rank
					AND (s.score, s.reached_at) <> (own.score, own.reached_at)
				ORDER BY s.rank LIMIT 1) AS below ON true
			CROSS JOIN LATERAL (
				SELECT * FROM archived_scores s WHERE s.board = n.board AND s.day = n.day
					AND s.rank > coalesce(above.rank, 0) AND s.rank < coalesce(below.rank, 2147483647) OFFSET 0) AS t
		) AS ties`
	eraseRowsQuery = `
		UPDATE archived_scores s SET user_id = t.new_id, rank = t.new_rank FROM erased_ties t
		WHERE s.day = t.day AND s.user_id = t.old_id AND s.board = t.board AND (t.old_id, t.old_rank) <> (t.new_id, t.new_rank)`
	// The hash of a bucket's rows is that of its last complete run.
	eraseHashQuery = `
		UPDATE board_archives a SET hash = a.hash # changed.hash
		FROM (
			SELECT board, bucket, bit_xor(before) # bit_xor(after) AS hash FROM (
				SELECT board, bucket, %s AS before, %s AS after FROM erased_ties
			) AS hashed GROUP BY board, bucket
		) AS changed
		WHERE a.board = changed.board AND a.bucket = changed.bucket AND a.run = (
			SELECT max(l.run) FROM board_archives l WHERE l.board = a.board AND l.bucket = a.bucket AND l.state = 'complete')`
	// The totals of an archived event, and corrections of an archived bucket, go on
	// applying to the row.
	eraseTotalsQuery = `
		UPDATE score_totals s SET user_id = t.new_id FROM erased_ties t
		WHERE s.board = t.board AND s.user_id = t.old_id AND s.total = t.bucket AND t.old_id = $1`
	eraseCorrectionsQuery = `
		UPDATE corrections c SET user_id = t.new_id, reason = '', message = '', lift_reason = '', before_score = NULL, before_at = NULL
		FROM erased_ties t
		WHERE c.user_id = $1 AND t.old_id = $1 AND c.board = t.board AND c.bucket = t.bucket`
)

// eraseIn implements storage, in one transaction. Runs and corrections of the buckets wait for it.
func (p *postgres) eraseIn(ctx context.Context, user models.RowID, buckets []*models.Bucket, newNobody func() models.RowID) error {
	boards, names := make([]string, len(buckets)), make([]string, len(buckets))
	days, fresh := make([]time.Time, len(buckets)), make([]int64, len(buckets))
	for i, b := range buckets {
		boards[i], names[i], days[i], fresh[i] = b.Board, b.Name, b.Day.UTC(), int64(newNobody())
	}
	hashes := fmt.Sprintf(eraseHashQuery, hashOf("old_id", "old_rank"), hashOf("new_id", "new_rank"))
	statements := []struct {
		query string
		args  []any
	}{
		{`SET LOCAL lock_timeout = '20s'`, nil},
		// Each row is found by the primary key. Otherwise Postgres may read the whole archive,
		// because it does not expect that a lookup skips the other partitions.
		{`SET LOCAL enable_hashjoin = off`, nil},
		{`SET LOCAL enable_mergejoin = off`, nil},
		{`SET LOCAL jit = off`, nil},
		{eraseLockQuery, []any{boards, names}},
		{tiesTable, nil},
		{tiesQuery, []any{int64(user), boards, names, days, fresh}},
		{eraseRowsQuery, nil},
		{hashes, nil},
		{eraseTotalsQuery, []any{int64(user)}},
		{eraseCorrectionsQuery, []any{int64(user)}},
	}
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		for _, s := range statements {
			if _, err := tx.Exec(ctx, s.query, s.args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// runsUnderWay implements storage. A run holds the lock of its bucket while it stores rows.
func (p *postgres) runsUnderWay(ctx context.Context) (n int64, err error) {
	err = p.pool.QueryRow(ctx, `
		SELECT count(*) FROM pg_locks l
		JOIN board_buckets b ON (l.classid::bigint << 32) | l.objid::bigint =
			hashtextextended(current_schema() || '/archive/' || b.board || '/' || b.bucket, 0)
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n)
	return n, models.Wrap("look for runs under way", err)
}

// exportQuery looks each day up in the primary key.
func (*postgres) exportQuery() string {
	return `
		SELECT b.board, b.day AS date, a.score, a.reached_at, a.rank, b.score_order, b.max_score FROM board_buckets b
		CROSS JOIN LATERAL (
			SELECT * FROM archived_scores s WHERE s.day = b.day AND s.user_id = ? AND s.board = b.board OFFSET 0
		) AS a`
}
