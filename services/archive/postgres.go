package archive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/models"
	"stepboard/services/score"
)

// postgres keeps rows in monthly partitions.
type postgres struct {
	pool *pgxpool.Pool
}

// userText is the order of user ids on equal scores.
func (p *postgres) userText() string { return `s.user_id::text COLLATE "C"` }

// reportProgress shows how far a run has come while its transaction goes on.
func (p *postgres) reportProgress(ctx context.Context, run *models.ArchiveRun, moved int64) {
	// What is shown is stale without it, and nothing else.
	_, _ = p.pool.Exec(ctx, `UPDATE board_archives SET moved = $4 WHERE board = $1 AND bucket = $2 AND run = $3 AND state = 'running'`,
		run.Board, run.Bucket, run.Run, moved)
}

// partition is the name of a month's part of archived_scores.
func partition(month time.Time) string { return "archived_scores_" + month.Format("200601") }

// partitionQuery tells whether a table of the name exists, and whether it is a
// partition of archived_scores.
const partitionQuery = `
	SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid AND inhparent = 'archived_scores'::regclass)
	FROM pg_class c WHERE c.oid = to_regclass($1)`

// ensurePartition makes the day's month if it is not there. It is made apart and then
// attached, which does not keep readers of other months waiting.
func (p *postgres) ensurePartition(ctx context.Context, day models.Date) error {
	month := monthOf(day)
	name := partition(month)
	there, err := p.attached(ctx, p.pool, name)
	if err != nil || there {
		return err
	}
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		// One maker at a time: who comes second finds it there.
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '10s'`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/archived_scores', 0))`); err != nil {
			return err
		}
		if there, err := p.attached(ctx, tx, name); err != nil || there {
			return err
		}
		for _, statement := range []string{
			`CREATE TABLE ` + name + ` (LIKE archived_scores INCLUDING ALL)`,
			fmt.Sprintf(`ALTER TABLE archived_scores ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`,
				name, month.Format(time.DateOnly), month.AddDate(0, 1, 0).Format(time.DateOnly)),
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make partition %s: %w", name, err)
	}
	return nil
}

// queryRower is a pool or a transaction.
type queryRower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// attached reports whether the partition is there. A table that stands in its
// place is an error: somebody has detached it, and has had a reason.
func (p *postgres) attached(ctx context.Context, q queryRower, name string) (bool, error) {
	var attached bool
	err := q.QueryRow(ctx, partitionQuery, name).Scan(&attached)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for partition %s: %w", name, err)
	case !attached:
		return false, fmt.Errorf("table %s is no partition of archived_scores: attach it, or rename it", name)
	}
	return true, nil
}

// storeRun: see vault. The staging table is the transaction's own, so that nothing
// of a run that died can be in it.
func (p *postgres) storeRun(ctx context.Context, bucket *models.Bucket, run int, rows *rowReader, merge bool, now time.Time) (kept totals, err error) {
	done := false
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if err := p.stage(ctx, tx, bucket, rows); err != nil {
			return err
		}
		source := "archive_staging"
		expected := rows.totals
		if !merge {
			err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM archived_scores WHERE board = $1 AND day = $2)`, bucket.Board, bucket.Day.UTC()).Scan(&merge)
			if err != nil {
				return fmt.Errorf("look for rows: %w", err)
			}
		}
		if merge {
			source = "archive_merged"
			if expected, err = p.merge(ctx, tx, bucket, rows.totals); err != nil {
				return err
			}
		}
		if err := p.insert(ctx, tx, bucket, source); err != nil {
			return err
		}
		kept, err = p.sum(ctx, tx, `archived_scores WHERE board = $1 AND day = $2`, bucket.Board, bucket.Day.UTC())
		if err != nil {
			return err
		}
		if kept != expected {
			return fmt.Errorf("%w: read %v; the archive would hold %v", ErrVerification, expected, kept)
		}
		_, err = tx.Exec(ctx, `
			UPDATE board_archives SET state = 'complete', moved = $4, entries = $5, score_sum = $6, hash = $7, finished_at = $8, error = ''
			WHERE board = $1 AND bucket = $2 AND run = $3`,
			bucket.Board, bucket.Name, run, rows.totals.rows, kept.rows, kept.scoreSum, kept.hash, now)
		if err != nil {
			return fmt.Errorf("complete run: %w", err)
		}
		done = true
		return nil
	})
	if err != nil && done {
		err = fmt.Errorf("commit: %w", err)
	}
	return kept, err
}

// stage copies the rows into the staging table. The lock keeps a process that
// has lost its lease and does not know it yet from working on the same rows.
func (p *postgres) stage(ctx context.Context, tx pgx.Tx, bucket *models.Bucket, rows *rowReader) error {
	for _, statement := range []string{
		`SET LOCAL statement_timeout = 0`, // a bucket takes as long as it takes; the job has a deadline
		`SET LOCAL lock_timeout = '20s'`,
		`SET LOCAL work_mem = '32MB'`,
		// One core is enough for it: the others are for who reads meanwhile.
		`SET LOCAL max_parallel_workers_per_gather = 0`,
		`SET LOCAL jit = off`,
		`CREATE TEMP TABLE archive_staging (rank integer, user_id bigint, score bigint, reached_at timestamptz) ON COMMIT DROP`,
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("prepare staging: %w", err)
		}
	}
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/archive/' || $1 || '/' || $2, 0))`, bucket.Board, bucket.Name)
	if err != nil {
		return fmt.Errorf("lock bucket: %w", err)
	}
	from := &copyReader{rows: rows}
	_, err = tx.Conn().PgConn().CopyFrom(ctx, from, `COPY archive_staging FROM STDIN (FORMAT binary)`)
	if from.err != nil {
		err = from.err // why the copy ended
	}
	if err != nil {
		return fmt.Errorf("copy into staging: %w", err)
	}
	return nil
}

// merge joins what is staged with what the archive has, the better entry of
// each user, and ranks them anew into archive_merged. What is staged is
// compared with what was read first.
func (p *postgres) merge(ctx context.Context, tx pgx.Tx, bucket *models.Bucket, read totals) (totals, error) {
	staged, err := p.sum(ctx, tx, "archive_staging")
	if err != nil {
		return totals{}, err
	}
	if staged != read {
		return totals{}, fmt.Errorf("%w: read %v; staged %v", ErrVerification, read, staged)
	}
	if _, err := tx.Exec(ctx, `CREATE TEMP TABLE archive_merged (LIKE archive_staging) ON COMMIT DROP`); err != nil {
		return totals{}, fmt.Errorf("prepare merging: %w", err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO archive_merged (rank, user_id, score, reached_at)
		SELECT row_number() OVER (ORDER BY score DESC, reached_at, user_id::text COLLATE "C" DESC), user_id, score, reached_at
		FROM (
			SELECT DISTINCT ON (user_id) user_id, score, reached_at
			FROM (
				SELECT user_id, score, reached_at FROM archived_scores WHERE board = $1 AND day = $2
				UNION ALL
				SELECT user_id, score, reached_at FROM archive_staging
			) both_sides
			ORDER BY user_id, score DESC, reached_at
		) best`, bucket.Board, bucket.Day.UTC())
	if err != nil {
		return totals{}, fmt.Errorf("merge: %w", err)
	}
	return p.sum(ctx, tx, "archive_merged")
}

// insert stores the rows of a temporary table. Rows that stand as they should
// are not touched.
func (p *postgres) insert(ctx context.Context, tx pgx.Tx, bucket *models.Bucket, source string) error {
	statement := `
		INSERT INTO archived_scores (board, day, user_id, score, reached_at, rank)
		SELECT $1, $2, user_id, score, reached_at, rank FROM ` + source
	if source == "archive_merged" {
		statement += `
		ON CONFLICT (day, user_id, board) DO UPDATE
		SET score = excluded.score, reached_at = excluded.reached_at, rank = excluded.rank
		WHERE (archived_scores.score, archived_scores.reached_at, archived_scores.rank) IS DISTINCT FROM (excluded.score, excluded.reached_at, excluded.rank)`
	}
	if _, err := tx.Exec(ctx, statement, bucket.Board, bucket.Day.UTC()); err != nil {
		return fmt.Errorf("store rows: %w", err)
	}
	return nil
}

// sum computes the totals of rows as totals.add does: see row.hash.
func (p *postgres) sum(ctx context.Context, tx pgx.Tx, from string, args ...any) (totals, error) {
	var t totals
	err := tx.QueryRow(ctx, `
		SELECT count(*), coalesce(sum(score), 0)::bigint, coalesce(bit_xor(hashint8extended(user_id,
			hashint8extended(score, hashint8extended((date_part('epoch', reached_at) * 1000)::bigint, hashint8extended(rank, 0))))), 0)
		FROM `+from, args...).Scan(&t.rows, &t.scoreSum, &t.hash)
	if err != nil {
		return totals{}, fmt.Errorf("sum up %s: %w", strings.Fields(from)[0], err)
	}
	return t, nil
}

// composites: see vault.
func (p *postgres) composites(ctx context.Context, bucket *models.Bucket, users []models.UserID) ([]models.Composite, error) {
	ids := make([]int64, len(users))
	at := make(map[int64]int, len(users))
	for i, user := range users {
		ids[i], at[int64(user)] = int64(user), i
	}
	rows, err := p.pool.Query(ctx, `SELECT user_id, score, reached_at FROM archived_scores WHERE board = $1 AND day = $2 AND user_id = ANY($3)`,
		bucket.Board, bucket.Day.UTC(), ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	composites := make([]models.Composite, len(users))
	codec := score.Of(bucket)
	for rows.Next() {
		var (
			user, points int64
			reachedAt    time.Time
		)
		if err := rows.Scan(&user, &points, &reachedAt); err != nil {
			return nil, err
		}
		if composites[at[user]], err = composite(codec, points, reachedAt); err != nil {
			return nil, err
		}
	}
	return composites, rows.Err()
}

// dropMonths: see vault. Each month is dropped in a transaction of its own, which
// waits for who reads the archive, and keeps who comes later waiting: no longer
// than readers can bear. What was not dropped is left to the next time.
func (p *postgres) dropMonths(ctx context.Context, before models.Date) (int, error) {
	rows, err := p.pool.Query(ctx, `
		SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'archived_scores'::regclass AND c.relname ~ '^archived_scores_[0-9]{6}$' AND c.relname < $1
		ORDER BY c.relname`, partition(monthOf(before)))
	if err != nil {
		return 0, fmt.Errorf("list partitions: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("list partitions: %w", err)
	}
	for i, name := range names {
		err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '2s'`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `DROP TABLE `+name)
			return err
		})
		if err != nil {
			return i, fmt.Errorf("drop partition %s: %w", name, err)
		}
	}
	return len(names), nil
}

// copyReader writes rows in the binary format of COPY: a header, for each row
// the number of its fields and each field behind its length, and a trailer.
type copyReader struct {
	rows *rowReader
	buf  []byte
	out  []byte // what of buf was not read yet
	done bool
	err  error
}

const (
	// copyBuffer is how many bytes are made at a time.
	copyBuffer = 64 << 10
	// copyRow is the most that a row takes.
	copyRow = 64
	// postgresEpoch is 2000-01-01 in milliseconds: Postgres counts from there.
	postgresEpoch = 946_684_800_000
)

// Read is part of io.Reader.
func (c *copyReader) Read(p []byte) (int, error) {
	if len(c.out) == 0 {
		if c.done {
			return 0, io.EOF
		}
		if c.err = c.fill(); c.err != nil {
			return 0, c.err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// fill makes the next bytes.
func (c *copyReader) fill() error {
	if c.buf == nil {
		c.buf = append(make([]byte, 0, copyBuffer), "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	} else {
		c.buf = c.buf[:0]
	}
	for len(c.buf) <= copyBuffer-copyRow {
		r, ok, err := c.rows.next()
		if err != nil {
			return err
		}
		if !ok {
			c.done = true
			c.buf = append(c.buf, 0xff, 0xff)
			break
		}
		c.buf = binary.BigEndian.AppendUint16(c.buf, 4)
		c.buf = binary.BigEndian.AppendUint32(c.buf, 4)
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(r.rank))
		for _, field := range [...]int64{int64(r.user), r.score, (int64(r.reachedAt) - postgresEpoch) * 1000} {
			c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
			c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(field))
		}
	}
	c.out = c.buf
	return nil
}
