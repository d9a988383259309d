package archive

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/gorm"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/score"
)

// postgres stores rows in monthly partitions.
type postgres struct {
	pool               *pgxpool.Pool // for runs
	db, reads, reports *gorm.DB      // those of Store; db is over pool
}

// postgresUserText is the row id of row s as text, which orders equal entries.
const postgresUserText = `s.user_id::text COLLATE "C"`

// partition returns the name of a month's partition of archived_scores.
func partition(month time.Time) string { return "archived_scores_" + month.Format("200601") }

// partitionQuery returns a row if a table of this name exists. The row says
// whether the table is a partition of archived_scores.
const partitionQuery = `
	SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid AND inhparent = 'archived_scores'::regclass)
	FROM pg_class c WHERE c.oid = to_regclass($1)`

// ensurePartition implements storage. It creates a table and then attaches it,
// so that readers of other months don't wait.
func (p *postgres) ensurePartition(ctx context.Context, day models.Date) error {
	month := monthOf(day)
	name := partition(month)
	exists, err := p.attached(ctx, p.pool, name)
	if err != nil || exists {
		return err
	}
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		// One process creates it; the others wait for the lock and then find it.
		_, err := tx.Exec(ctx, `
			SET LOCAL lock_timeout = '10s';
			SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/archived_scores', 0))`)
		if err != nil {
			return err
		}
		if exists, err := p.attached(ctx, tx, name); err != nil || exists {
			return err
		}
		_, err = tx.Exec(ctx, fmt.Sprintf(`
			CREATE TABLE %[1]s (LIKE archived_scores INCLUDING ALL);
			ALTER TABLE archived_scores ATTACH PARTITION %[1]s FOR VALUES FROM ('%[2]s') TO ('%[3]s')`,
			name, month.Format(time.DateOnly), month.AddDate(0, 1, 0).Format(time.DateOnly)))
		return err
	})
	return models.Wrap("create partition "+name, err)
}

// queryRower is a pool or a transaction.
type queryRower interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// attached reports whether the partition exists. A table of its name that is
// not attached is an error: an operator has detached it for a reason.
func (p *postgres) attached(ctx context.Context, q queryRower, name string) (bool, error) {
	var attached bool
	err := q.QueryRow(ctx, partitionQuery, name).Scan(&attached)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("find partition %s: %w", name, err)
	case !attached:
		return false, fmt.Errorf("table %s is no partition of archived_scores: attach it, or rename it", name)
	}
	return true, nil
}

// inRun calls fn in a transaction that has locked the bucket and has the tables of runTables,
// with the rows, if any, in archive_staging. It commits if fn returns no error. The rows of these
// tables belong to the transaction, so that they never are those of a run that died. The bucket's row is locked last, so that corrections
// of it can be made and lifted while rows are copied, and not after that.
func (p *postgres) inRun(ctx context.Context, m *move, fn func(tx *gorm.DB) error) error {
	bucket, committing := m.bucket, false
	err := p.db.WithContext(ctx).Connection(func(conn *gorm.DB) error {
		return conn.Transaction(func(tx *gorm.DB) error {
			if err := p.begin(tx, bucket); err != nil {
				return err
			}
			if m.rows != nil {
				if err := p.stage(ctx, conn, m.rows); err != nil {
					return fmt.Errorf("copy into staging: %w", err)
				}
				failpoint.Hit("archive.staged")
			}
			err := tx.Exec(`SELECT FROM board_buckets WHERE board = ? AND bucket = ? FOR NO KEY UPDATE`, bucket.Board, bucket.Name).Error
			if err != nil {
				return fmt.Errorf("lock the bucket's row: %w", err)
			}
			if err := fn(tx); err != nil {
				return err
			}
			failpoint.Hit("archive.stored")
			committing = true
			return nil
		})
	})
	if err != nil && committing {
		err = fmt.Errorf("commit: %w", err)
	}
	if err == nil {
		p.analyzeNew(ctx, bucket)
	}
	return err
}

// analyzeNew gathers the statistics of the bucket's partition if it has none yet. If it can't,
// Postgres does so later.
func (p *postgres) analyzeNew(ctx context.Context, bucket *models.Bucket) {
	name := partition(monthOf(bucket.Day))
	var unknown bool
	err := p.pool.QueryRow(ctx, `SELECT reltuples < 0 FROM pg_class WHERE oid = to_regclass($1)`, name).Scan(&unknown)
	if err == nil && unknown {
		_, _ = p.pool.Exec(ctx, `ANALYZE `+name)
	}
}

// bucketKeyExpr is the SQL expression of a bucket's lock.
const bucketKeyExpr = `hashtextextended(current_schema() || '/archive/' || @board || '/' || @bucket, 0)`

// lockBucketQuery locks the bucket if no other session has locked it, and
// otherwise ends that session and returns false. pg_locks has the two halves of the
// key as numbers.
const lockBucketQuery = `
	WITH key (key) AS (
		SELECT ` + bucketKeyExpr + `
	), attempt (locked) AS MATERIALIZED (
		SELECT pg_try_advisory_xact_lock(key) FROM key
	)
	SELECT locked, (
		SELECT count(pg_terminate_backend(pid)) FROM pg_locks, key
		WHERE NOT locked AND locktype = 'advisory' AND granted AND objsubid = 1
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND (classid::bigint << 32) | objid::bigint = key)
	FROM attempt`

// begin creates the temporary tables and locks the bucket. The caller holds the
// bucket's lease. So another session that has locked the bucket is that of a run
// which has lost its lease: its process has not noticed yet, or is stopped and would
// keep the lock for as long. Its session is ended.
func (p *postgres) begin(tx *gorm.DB, bucket *models.Bucket) error {
	for _, statement := range append([]string{
		`SET LOCAL statement_timeout = 0`, // large buckets take long; the job has a deadline
		`SET LOCAL lock_timeout = '20s'`,
		`SET LOCAL work_mem = '32MB'`,
		// Use one core, and leave the others to readers.
		`SET LOCAL max_parallel_workers_per_gather = 0`,
		`SET LOCAL jit = off`,
	}, runTables...) {
		if err := tx.Exec(statement).Error; err != nil {
			return fmt.Errorf("create staging table: %w", err)
		}
	}
	return p.lockBucket(tx, bucket)
}

// lockBucket locks the bucket until the transaction ends. Another run's session that
// was ended gives up its lock a moment later.
func (p *postgres) lockBucket(tx *gorm.DB, bucket *models.Bucket) error {
	var (
		locked bool
		ended  int
	)
	names := map[string]any{"board": bucket.Board, "bucket": bucket.Name}
	err := tx.Raw(lockBucketQuery, names).Row().Scan(&locked, &ended)
	if err == nil && !locked {
		err = tx.Exec(`SELECT pg_advisory_xact_lock(`+bucketKeyExpr+`)`, names).Error
	}
	return models.Wrap("lock bucket", err)
}

// stage copies the rows into the staging table, in the transaction of a connection.
func (p *postgres) stage(ctx context.Context, db *gorm.DB, rows *rowReader) error {
	conn, ok := db.Statement.ConnPool.(*sql.Conn)
	if !ok {
		return fmt.Errorf("%T is no connection", db.Statement.ConnPool)
	}
	var cause error // Postgres's error has only its text
	err := conn.Raw(func(driver any) error {
		pg, ok := driver.(*stdlib.Conn)
		if !ok {
			return fmt.Errorf("%T is no connection to Postgres", driver)
		}
		values := make([]any, 4)
		_, err := pg.Conn().CopyFrom(ctx, pgx.Identifier{"archive_staging"}, []string{"rank", "user_id", "score", "reached_at"},
			pgx.CopyFromFunc(func() ([]any, error) {
				r, ok, err := rows.next()
				if err != nil || !ok {
					cause = err
					return nil, err
				}
				values[0], values[1], values[2], values[3] = r.rank, int64(r.user), int64(r.points), r.reachedAt.Time()
				return values, nil
			}))
		return err
	})
	return cmp.Or(cause, err)
}

// hashOf returns the SQL expression of the hash of a row, as row.hash computes it. user and
// rank are names of columns.
func hashOf(user, rank string) string {
	return `hashint8extended(` + user + `, hashint8extended(score,
		hashint8extended((date_part('epoch', reached_at) * 1000)::bigint, hashint8extended(` + rank + `, 0))))`
}

// sumQuery returns the query that adds up the rows that follow FROM, as totals.add does.
func sumQuery(from string) string {
	return `SELECT count(*), coalesce(sum(score), 0)::bigint, coalesce(bit_xor(` + hashOf("user_id", "rank") + `), 0) FROM ` + from
}

// sum adds up the rows that follow FROM.
func (p *postgres) sum(tx *gorm.DB, from string, args ...any) (t totals, err error) {
	err = tx.Raw(sumQuery(from), args...).Row().Scan(&t.rows, &t.pointsSum, &t.hash)
	return t, models.Wrap("sum up "+strings.Fields(from)[0], err)
}

// composites implements storage.
func (p *postgres) composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	ids := make([]int64, len(users))
	index := make(map[int64]int, len(users))
	for i, user := range users {
		ids[i], index[int64(user)] = int64(user), i
	}
	composites := make([]models.Composite, len(users))
	codec := score.Of(bucket)
	err := eachScore(p.reads.WithContext(ctx).Raw(
		`SELECT user_id, score, reached_at FROM archived_scores WHERE board = ? AND day = ? AND user_id = ANY(?)`,
		bucket.Board, bucket.Day.UTC(), &ids), func(user int64, points models.Points, reachedAt time.Time) (err error) {
		composites[index[user]], err = composite(codec, points, reachedAt)
		return err
	})
	return composites, err
}

// stored implements storage.
func (p *postgres) stored(ctx context.Context, raises []models.Raise) ([]models.Composite, error) {
	boards, days, users := make([]string, len(raises)), make([]time.Time, len(raises)), make([]int64, len(raises))
	for i, r := range raises {
		boards[i], days[i], users[i] = r.Bucket.Board, r.Bucket.Day.UTC(), int64(r.User)
	}
	composites := make([]models.Composite, len(raises))
	err := eachScore(p.reads.WithContext(ctx).Raw(`
		SELECT r.position, s.score, s.reached_at
		FROM unnest(CAST(? AS text[]), CAST(? AS date[]), CAST(? AS bigint[])) WITH ORDINALITY AS r(board, day, user_id, position)
		JOIN archived_scores s ON s.day = r.day AND s.user_id = r.user_id AND s.board = r.board`,
		&boards, &days, &users), func(position int64, points models.Points, reachedAt time.Time) (err error) {
		composites[position-1], err = composite(score.Of(raises[position-1].Bucket), points, reachedAt)
		return err
	})
	return composites, err
}

// eachScore calls do for each row of a query: a number that identifies it, points, and when
// they were reached. Arguments of queries are pointers to slices, because gorm would expand the slices.
func eachScore(query *gorm.DB, do func(id int64, points models.Points, reachedAt time.Time) error) error {
	var (
		id        int64
		points    models.Points
		reachedAt time.Time
	)
	return lists.Each(query, []any{&id, &points, &reachedAt}, func() error { return do(id, points, reachedAt) })
}

// windowQuery reads the entries of a bucket around a position. A binary search
// over the ranks finds the number of entries before the position, whether or not
// an entry has it. %[1]s is the condition aheadOfPosition.
const windowQuery = `
	WITH RECURSIVE bucket (total) AS (
		SELECT coalesce(max(rank), 0) FROM archived_scores WHERE board = @board AND day = @day
	), search (low, high) AS (
		SELECT 0, total FROM bucket
		UNION ALL
		SELECT CASE WHEN %[1]s THEN s.rank ELSE low END, CASE WHEN %[1]s THEN high ELSE s.rank - 1 END
		FROM search JOIN archived_scores s ON s.board = @board AND s.day = @day AND s.rank = (low + high) / 2 + 1
		WHERE low < high
	), boundary (before) AS (
		SELECT max(low) FROM search
	)
	SELECT total, before, coalesce(s.rank, 0) AS rank, coalesce(s.user_id, 0) AS user_id, coalesce(s.score, 0) AS score, s.reached_at
	FROM bucket CROSS JOIN boundary
	LEFT JOIN archived_scores s ON s.board = @board AND s.day = @day AND s.rank > before - @back AND s.rank <= before + @forward
	ORDER BY s.rank`

// aheadOfPosition is true for a row that ranks before the position.
const aheadOfPosition = `(s.score > @score OR (s.score = @score AND (s.reached_at < @reached OR (s.reached_at = @reached AND ` +
	postgresUserText + ` > @user))))`

// window implements storage.
func (p *postgres) window(db *gorm.DB, bucket *models.Bucket, at models.Entry, back, forward int) ([]windowRow, error) {
	codec := score.Of(bucket)
	points, reachedAt := codec.Decode(at.Composite)
	var found []struct {
		Row       windowRow     `gorm:"embedded"`
		Points    models.Points `gorm:"column:score"`
		ReachedAt *time.Time
	}
	err := db.Raw(fmt.Sprintf(windowQuery, aheadOfPosition), map[string]any{
		"board": bucket.Board, "day": bucket.Day, "score": points, "reached": reachedAt.Time(), "user": at.User.String(),
		"back": back, "forward": forward,
	}).Scan(&found).Error
	if err != nil {
		return nil, err
	}
	rows := make([]windowRow, len(found))
	for i, r := range found {
		if rows[i] = r.Row; r.ReachedAt == nil {
			continue // the window is empty
		}
		if rows[i].Composite, err = composite(codec, r.Points, *r.ReachedAt); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// dayOf implements storage.
func (p *postgres) dayOf() (columns, join string) {
	return `s.score, s.reached_at, s.rank`, `LEFT JOIN archived_scores s ON s.board = b.board AND s.day = b.day AND s.user_id = @user`
}

// tidy implements storage. A run's transaction leaves nothing behind.
func (p *postgres) tidy(context.Context, *models.Bucket) error { return nil }

// news implements storage. Redis has what comes late.
func (p *postgres) news(context.Context, *models.Bucket) (bool, error) { return false, nil }

// left implements storage.
func (p *postgres) left(context.Context) ([]bucketKey, error) { return nil, nil }

// sumsQuery lists the buckets of a span, and adds up the scores of each user on those that
// are archived. OFFSET 0 keeps the reads of the days apart, as each of them finds its rows
// by the primary key; joined in any other way, Postgres may read whole partitions. The ids
// are ascending; width_bucket finds the place of one among them.
const sumsQuery = `
	WITH span AS MATERIALIZED (
		SELECT bucket, day, ends_at, archived FROM bucket_states WHERE board = @board AND day BETWEEN @from AND @to
	)
	SELECT bucket, archived, ends_at, 0, 0, 0, NULL FROM span
	UNION ALL
	SELECT '', true, NULL, s.user_id, sum(s.score)::bigint, count(*),
		coalesce(max(s.reached_at) FILTER (WHERE s.score > 0), min(s.reached_at))
	FROM span CROSS JOIN LATERAL (
		SELECT user_id, score, reached_at FROM archived_scores
		WHERE board = @board AND day = span.day AND user_id = ANY(@ids) OFFSET 0
	) s
	WHERE span.archived AND span.ends_at > (CAST(@after AS timestamptz[]))[width_bucket(s.user_id, CAST(@ids AS bigint[]))]
	GROUP BY s.user_id`

// sums implements storage.
func (p *postgres) sums(
	ctx context.Context, boardName string, users []Viewed, from, to models.Date,
) (days []SpanDay, sums map[models.RowID]models.Sum, err error) {
	users = slices.SortedFunc(slices.Values(users), func(a, b Viewed) int { return cmp.Compare(a.User, b.User) })
	ids := column.Of(users, func(u Viewed) int64 { return int64(u.User) })
	after := column.Of(users, func(u Viewed) time.Time { return u.After })
	var (
		day               SpanDay
		user              models.RowID
		sum               models.Sum
		endsAt, reachedAt sql.NullTime
	)
	columns := []any{&day.Bucket, &day.Archived, &endsAt, &user, &sum.Score, &sum.Days, &reachedAt}
	sums = make(map[models.RowID]models.Sum, len(users))
	query := p.reports.WithContext(ctx).Raw(sumsQuery, map[string]any{
		"board": boardName, "from": from.UTC(), "to": to.UTC(), "ids": &ids, "after": &after,
	})
	err = lists.Each(query, columns, func() error {
		if user == 0 {
			day.EndsAt = endsAt.Time
			days = append(days, day)
			return nil
		}
		sum.ReachedAt = models.TimestampOf(reachedAt.Time)
		sums[user] = sum
		return nil
	})
	return days, sums, err
}

// dropMonths implements storage. Each month is dropped in a transaction of its
// own. It waits for current readers of the archive and makes later ones wait,
// so lock_timeout bounds the wait. The next call drops the months that are left.
func (p *postgres) dropMonths(ctx context.Context, before models.Date) (int, error) {
	var names []string
	err := p.db.WithContext(ctx).Raw(`
		SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'archived_scores'::regclass AND c.relname ~ '^archived_scores_[0-9]{6}$' AND c.relname < ?
		ORDER BY c.relname`, partition(monthOf(before))).Scan(&names).Error
	if err != nil {
		return 0, fmt.Errorf("list partitions: %w", err)
	}
	for i, name := range names {
		err := p.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			return tx.Exec(`SET LOCAL lock_timeout = '2s'; DROP TABLE ` + name).Error
		})
		if err != nil {
			return i, fmt.Errorf("drop partition %s: %w", name, err)
		}
	}
	return len(names), nil
}
