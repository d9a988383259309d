package archive

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

// A run applies the corrections of its bucket. Everything that is known of a user is
// joined first: archived rows, what the run has read, and what was set apart. For users
// with a correction the result goes to reported_scores, and the corrected row, if any, to
// archived_scores. So a run may be repeated, and a later one keeps the correction, or
// gives back what was reported once it is lifted.

// concerning is the condition of corrections that concern the bucket $1 / $2 of day $3,
// also of those that were lifted.
const concerning = `board = $1 AND (bucket = $2 OR (bucket IS NULL AND day <= $3 AND (until_day IS NULL OR until_day >= $3)))`

// bestOfUsers selects the best entry of each user in the bucket $1 / $2 of day $3. The
// entries that corrections keep of erased users are left out, as their staged rows are; what
// an earlier run has stored of them counts.
const bestOfUsers = `
	SELECT DISTINCT ON (user_id) user_id, score, reached_at
	FROM (
		SELECT user_id, score, reached_at FROM archived_scores WHERE board = $1 AND day = $3
		UNION ALL
		SELECT user_id, score, reached_at FROM archive_staging
		UNION ALL
		SELECT user_id, score, reached_at FROM reported_scores WHERE board = $1 AND bucket = $2
		UNION ALL
		SELECT user_id, before_score, before_at FROM corrections
		WHERE ` + concerning + ` AND day = $3 AND before_score IS NOT NULL
			AND user_id NOT IN (SELECT row_id FROM erasures)
	) known
	ORDER BY user_id, score DESC, reached_at`

// lockCorrections locks the bucket's row, so that no correction of it is made or lifted
// before the run commits, and puts the corrections that hold into archive_corrected. It
// reports whether any concern the bucket.
func (p *postgres) lockCorrections(ctx context.Context, tx pgx.Tx, bucket *models.Bucket) (concerned bool, err error) {
	args := []any{bucket.Board, bucket.Name, bucket.Day.UTC()}
	if _, err := tx.Exec(ctx, `SELECT FROM board_buckets WHERE board = $1 AND bucket = $2 FOR UPDATE`, args[:2]...); err != nil {
		return false, fmt.Errorf("lock the bucket's row: %w", err)
	}
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM corrections WHERE `+concerning+`)`, args...).Scan(&concerned)
	if err != nil {
		return false, fmt.Errorf("look for corrections: %w", err)
	}
	_, err = tx.Exec(ctx, `
		CREATE TEMP TABLE archive_corrected (user_id bigint PRIMARY KEY, kind text, score bigint, reached_at timestamptz)
		ON COMMIT DROP`)
	if err != nil {
		return false, fmt.Errorf("create the table of corrections: %w", err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO archive_corrected SELECT user_id, kind, score, reached_at
		FROM corrections WHERE lifted_at IS NULL AND `+concerning, args...)
	if err != nil {
		return false, fmt.Errorf("read corrections: %w", err)
	}
	return concerned, nil
}

// keepReported stores what users with a correction have reported, and removes the rows
// of those who are excluded.
func (p *postgres) keepReported(ctx context.Context, tx pgx.Tx, bucket *models.Bucket) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO reported_scores (board, bucket, user_id, score, reached_at)
		SELECT $1, $2, user_id, score, reached_at FROM (`+bestOfUsers+`) best
		WHERE user_id IN (SELECT user_id FROM archive_corrected)
		ON CONFLICT (board, bucket, user_id) DO UPDATE SET score = excluded.score, reached_at = excluded.reached_at`,
		bucket.Board, bucket.Name, bucket.Day.UTC())
	if err != nil {
		return fmt.Errorf("store reported scores: %w", err)
	}
	_, err = tx.Exec(ctx, `DELETE FROM archived_scores WHERE board = $1 AND day = $2
		AND user_id IN (SELECT user_id FROM archive_corrected WHERE kind = 'exclude')`, bucket.Board, bucket.Day.UTC())
	if err != nil {
		return fmt.Errorf("remove excluded users: %w", err)
	}
	return nil
}

// completeCorrections records that the run has applied the bucket's corrections.
func (p *postgres) completeCorrections(ctx context.Context, tx pgx.Tx, bucket *models.Bucket) error {
	for _, statement := range []string{
		`DELETE FROM reported_scores WHERE board = $1 AND bucket = $2 AND user_id NOT IN (SELECT user_id FROM archive_corrected)`,
		`DELETE FROM pending_corrections WHERE board = $1 AND bucket = $2`,
	} {
		if _, err := tx.Exec(ctx, statement, bucket.Board, bucket.Name); err != nil {
			return fmt.Errorf("complete corrections: %w", err)
		}
	}
	// An exclusion without a bucket that was lifted concerns no bucket after its last day.
	_, err := tx.Exec(ctx, `UPDATE corrections SET hot = false
		WHERE hot AND board = $1 AND (bucket = $2 OR (bucket IS NULL AND until_day <= $3))`,
		bucket.Board, bucket.Name, bucket.Day.UTC())
	if err != nil {
		return fmt.Errorf("complete corrections: %w", err)
	}
	failpoint.Hit("corrections.archived")
	return nil
}
