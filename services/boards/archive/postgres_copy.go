package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/score"
)

// Copy copies the rows of an archived bucket from the archive of one database, SQLite, into that of
// another, Postgres, and calls within in the transaction that stores them. It returns an error, and stores
// nothing, unless Postgres then has the rows that the bucket's latest complete run has counted, by
// their number, sum of points and hash. A bucket without rows, whose month was dropped, has nothing to
// count. A query of SQLite, and a transaction of five statements; it holds few rows at a time.
func Copy(ctx context.Context, from *gorm.DB, to *pgxpool.Pool, bucket *models.Bucket, within func(pgx.Tx) error) error {
	target := &postgres{pool: to}
	if err := target.ensurePartition(ctx, bucket.Day); err != nil {
		return err
	}
	counted, err := counted(from.WithContext(ctx), bucket)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, to, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		rows, err := copyRows(ctx, from, tx, bucket)
		if err != nil {
			return fmt.Errorf("copy %s %s: %w", bucket.Board, bucket.Name, err)
		}
		var stored totals
		err = tx.QueryRow(ctx, sumQuery(`archived_scores WHERE board = $1 AND day = $2`), bucket.Board, bucket.Day.UTC()).
			Scan(&stored.rows, &stored.pointsSum, &stored.hash)
		if err != nil {
			return fmt.Errorf("sum up %s %s: %w", bucket.Board, bucket.Name, err)
		}
		if stored.rows != rows || rows > 0 && stored != counted {
			return fmt.Errorf("archive of %s %s: %d rows were read, Postgres has %v, and the latest run has counted %v",
				bucket.Board, bucket.Name, rows, stored, counted)
		}
		return within(tx)
	})
}

// counted returns what the latest complete run of a bucket has counted.
func counted(db *gorm.DB, bucket *models.Bucket) (totals, error) {
	run, err := lists.Take[models.ArchiveRun](db.Where("board = ? AND bucket = ? AND state = ?", bucket.Board, bucket.Name, models.ArchiveComplete).
		Order("run DESC"), errNoRun)
	return totals{rows: run.Entries, pointsSum: run.PointsSum, hash: run.Hash}, err
}

// copyRows copies the current rows of a bucket and returns how many there are.
func copyRows(ctx context.Context, from *gorm.DB, tx pgx.Tx, bucket *models.Bucket) (int64, error) {
	query := from.WithContext(ctx).Raw(`
		SELECT s.user_id, s.composite, s.rank FROM archive_versions v JOIN archived_scores s ON s.version = v.version
		WHERE `+currentVersion+` ORDER BY s.user_id`, namesOf(bucket))
	rows, err := query.Rows() //nolint:sqlclosecheck // it does not see Close below
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	codec, day := score.Of(bucket), bucket.Day.UTC()
	copied, err := tx.CopyFrom(ctx, pgx.Identifier{"archived_scores"}, []string{"user_id", "score", "reached_at", "rank", "day", "board"},
		pgx.CopyFromFunc(func() ([]any, error) {
			if !rows.Next() {
				return nil, rows.Err()
			}
			var (
				user, rank int64
				composite  models.Composite
			)
			if err := rows.Scan(&user, &composite, &rank); err != nil {
				return nil, err
			}
			points, reachedAt := codec.Decode(composite)
			return []any{user, int64(points), reachedAt.Time(), rank, day, bucket.Board}, nil
		}))
	return copied, errors.Join(err, rows.Err())
}
