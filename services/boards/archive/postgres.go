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
	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/boards/results"
	"stepboard/services/boards/score"
	"stepboard/services/platform/outcomes"
)

// postgres stores rows in monthly partitions.
type postgres struct {
	pool    *pgxpool.Pool // for runs
	reads   *gorm.DB
	reports *gorm.DB
	outbox  *outcomes.Outbox // may be nil
}

// postgresUserText is Store.userText.
const postgresUserText = `s.user_id::text COLLATE "C"`

// storeProgress implements storage. It uses a connection of its own, because the
// run's transaction is not visible until it commits. It stores nothing while every
// connection of the pool is in use.
func (p *postgres) storeProgress(ctx context.Context, run *models.ArchiveRun, moved int64) {
	if stat := p.pool.Stat(); stat.AcquiredConns() >= stat.MaxConns() {
		return
	}
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return
	}
	defer conn.Release()
	// To cancel a statement costs its connection, so the end of ctx does not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), progressTimeout)
	defer cancel()
	// Nothing but the displayed progress depends on it.
	_, _ = conn.Exec(ctx, `UPDATE board_archives SET moved = $4 WHERE board = $1 AND bucket = $2 AND run = $3 AND state = 'running'`,
		run.Board, run.Bucket, run.Run, moved)
}

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
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '10s'`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/archived_scores', 0))`); err != nil {
			return err
		}
		if exists, err := p.attached(ctx, tx, name); err != nil || exists {
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
		return fmt.Errorf("create partition %s: %w", name, err)
	}
	return nil
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

// storeRun implements storage. The staging table belongs to the transaction, so
// that it never holds rows of a run that died.
func (p *postgres) storeRun(ctx context.Context, bucket *models.Bucket, run int, rows *rowReader, now time.Time) (stored totals, err error) {
	err = p.inRun(ctx, bucket, func(tx pgx.Tx) error {
		if err := p.stage(ctx, tx, rows); err != nil {
			return err
		}
		failpoint.Hit("archive.staged")
		stored, err = p.storeStaged(ctx, tx, bucket, run, rows.totals, rows.repeats, now)
		return err
	})
	return stored, err
}

// inRun calls fn in a transaction that has an empty staging table and the bucket's lock, and
// commits.
func (p *postgres) inRun(ctx context.Context, bucket *models.Bucket, fn func(tx pgx.Tx) error) error {
	committing := false
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if err := p.begin(ctx, tx, bucket); err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		failpoint.Hit("archive.stored")
		committing = true
		return nil
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

// storeStaged stores the staged rows, whose totals are given, with corrections applied,
// verifies the result and completes the run. If repeats is false, the staged rows are ranked
// and have each user once.
func (p *postgres) storeStaged(
	ctx context.Context, tx pgx.Tx, bucket *models.Bucket, run int, staged totals, repeats bool, now time.Time,
) (stored totals, err error) {
	source, expected := "archive_staging", staged
	corrected, err := p.lockCorrections(ctx, tx, bucket)
	if err != nil {
		return stored, err
	}
	erased, err := p.stagedErased(ctx, tx)
	if err != nil {
		return stored, err
	}
	merge := repeats || corrected || erased
	if !merge {
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM archived_scores WHERE board = $1 AND day = $2)`, bucket.Board, bucket.Day.UTC()).Scan(&merge)
		if err != nil {
			return stored, fmt.Errorf("find archived rows: %w", err)
		}
	}
	if merge {
		source = "archive_merged"
		if expected, err = p.merge(ctx, tx, bucket, staged); err != nil {
			return stored, err
		}
	}
	if err := p.insert(ctx, tx, bucket, source); err != nil {
		return stored, err
	}
	stored, err = p.sum(ctx, tx, `archived_scores WHERE board = $1 AND day = $2`, bucket.Board, bucket.Day.UTC())
	if err != nil {
		return stored, err
	}
	if stored != expected {
		return stored, fmt.Errorf("%w: read %v; the archive would hold %v", ErrVerification, expected, stored)
	}
	if err := p.complete(ctx, tx, bucket, run, staged.rows, stored, now); err != nil {
		return stored, err
	}
	return stored, p.completeCorrections(ctx, tx, bucket)
}

// complete records that the run is complete, and writes the bucket's result to the outbox.
func (p *postgres) complete(ctx context.Context, tx pgx.Tx, bucket *models.Bucket, run int, moved int64, stored totals, now time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE board_archives SET state = 'complete', moved = $4, entries = $5, score_sum = $6, hash = $7, finished_at = $8, error = ''
		WHERE board = $1 AND bucket = $2 AND run = $3`,
		bucket.Board, bucket.Name, run, moved, stored.rows, stored.scoreSum, stored.hash, now)
	if err != nil {
		return fmt.Errorf("complete run: %w", err)
	}
	return p.addResult(ctx, tx, bucket, stored)
}

// addResult writes the result of an archived bucket to the outbox, if it has changed. Each
// transaction that changes archived rows calls it last, with their totals.
func (p *postgres) addResult(ctx context.Context, tx pgx.Tx, bucket *models.Bucket, stored totals) error {
	if !p.outbox.Wants(models.OutcomeBoardFinal) {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT user_id, score, reached_at FROM archived_scores WHERE board = $1 AND day = $2 AND rank <= $3 ORDER BY rank`,
		bucket.Board, bucket.Day.UTC(), results.TopEntries)
	if err != nil {
		return fmt.Errorf("read the first entries: %w", err)
	}
	top, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (entry outcomes.TopEntry, err error) {
		var reachedAt time.Time
		err = row.Scan(&entry.User, &entry.Score, &reachedAt)
		entry.ReachedAt = models.TimestampOf(reachedAt)
		return entry, err
	})
	if err != nil {
		return fmt.Errorf("read the first entries: %w", err)
	}
	result := results.Result{Total: stored.rows, ScoreSum: stored.scoreSum, Top: top}
	return results.Add(p.outbox, outcomes.InPgx(ctx, tx), bucket, result)
}

// existingTotals is the condition of the totals of the bucket $1 / $2 that are archived:
// those of users who were not erased.
const existingTotals = `board = $1 AND total = $2 AND score > 0 AND user_id NOT IN (SELECT row_id FROM erasures)`

// storeTotals implements storage.
func (p *postgres) storeTotals(ctx context.Context, bucket *models.Bucket, run int, now time.Time) (moved int64, stored totals, err error) {
	err = p.inRun(ctx, bucket, func(tx pgx.Tx) error {
		var staged totals
		if run == 1 {
			if staged, err = p.stageTotals(ctx, tx, bucket); err != nil {
				return err
			}
		}
		moved = staged.rows
		stored, err = p.storeStaged(ctx, tx, bucket, run, staged, false, now)
		return err
	})
	return moved, stored, err
}

// stageTotals ranks the bucket's running totals in the staging table and compares them with
// the ledger. It deletes archived rows, which no complete run has stored.
func (p *postgres) stageTotals(ctx context.Context, tx pgx.Tx, bucket *models.Bucket) (staged totals, err error) {
	_, err = tx.Exec(ctx, `
		INSERT INTO archive_staging (rank, user_id, score, reached_at)
		SELECT row_number() OVER (ORDER BY score DESC, reached_at, user_id::text COLLATE "C" DESC), user_id, score, reached_at
		FROM score_totals WHERE `+existingTotals, bucket.Board, bucket.Name)
	if err != nil {
		return staged, fmt.Errorf("rank totals: %w", err)
	}
	if staged, err = p.sum(ctx, tx, "archive_staging"); err != nil {
		return staged, err
	}
	counted := totals{hash: staged.hash}
	err = tx.QueryRow(ctx, `SELECT count(*), coalesce(sum(score), 0)::bigint FROM score_totals WHERE `+existingTotals,
		bucket.Board, bucket.Name).Scan(&counted.rows, &counted.scoreSum)
	if err != nil {
		return staged, fmt.Errorf("sum up the ledger: %w", err)
	}
	if staged != counted {
		return staged, fmt.Errorf("%w: the ledger has %v; staged %v", ErrVerification, counted, staged)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM archived_scores WHERE board = $1 AND day = $2`, bucket.Board, bucket.Day.UTC()); err != nil {
		return staged, fmt.Errorf("delete archived rows: %w", err)
	}
	return staged, nil
}

// bucketKeyExpr is the SQL expression of the lock of bucket $1 / $2.
const bucketKeyExpr = `hashtextextended(current_schema() || '/archive/' || $1 || '/' || $2, 0)`

// lockBucketQuery locks the bucket $1 / $2 if no other session has locked it, and
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

// begin creates the staging table and locks the bucket. The caller holds the
// bucket's lease. So another session that has locked the bucket is that of a run
// which has lost its lease: its process has not noticed yet, or is stopped and would
// keep the lock for as long. Its session is ended.
func (p *postgres) begin(ctx context.Context, tx pgx.Tx, bucket *models.Bucket) error {
	for _, statement := range []string{
		`SET LOCAL statement_timeout = 0`, // large buckets take long; the job has a deadline
		`SET LOCAL lock_timeout = '20s'`,
		`SET LOCAL work_mem = '32MB'`,
		// Use one core, and leave the others to readers.
		`SET LOCAL max_parallel_workers_per_gather = 0`,
		`SET LOCAL jit = off`,
		`CREATE TEMP TABLE archive_staging (rank integer, user_id bigint, score bigint, reached_at timestamptz) ON COMMIT DROP`,
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("create staging table: %w", err)
		}
	}
	return p.lockBucket(ctx, tx, bucket)
}

// lockBucket locks the bucket until the transaction ends. Another run's session that
// was ended gives up its lock a moment later.
func (p *postgres) lockBucket(ctx context.Context, tx pgx.Tx, bucket *models.Bucket) error {
	var (
		locked bool
		ended  int
	)
	err := tx.QueryRow(ctx, lockBucketQuery, bucket.Board, bucket.Name).Scan(&locked, &ended)
	if err == nil && !locked {
		_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock(`+bucketKeyExpr+`)`, bucket.Board, bucket.Name)
	}
	if err != nil {
		return fmt.Errorf("lock bucket: %w", err)
	}
	return nil
}

// stage copies the rows into the staging table.
func (p *postgres) stage(ctx context.Context, tx pgx.Tx, rows *rowReader) error {
	var cause error // Postgres's error has only its text
	values := make([]any, 4)
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"archive_staging"}, []string{"rank", "user_id", "score", "reached_at"},
		pgx.CopyFromFunc(func() ([]any, error) {
			r, ok, err := rows.next()
			if err != nil || !ok {
				cause = err
				return nil, err
			}
			values[0], values[1], values[2], values[3] = r.rank, int64(r.user), r.score, r.reachedAt.Time()
			return values, nil
		}))
	if cause != nil {
		err = cause
	}
	if err != nil {
		return fmt.Errorf("copy into staging: %w", err)
	}
	return nil
}

// stagedErased reports whether any staged row is that of a user who was erased. The bucket
// is locked, so an erasure that it does not see waits for the run, or finds its rows.
func (p *postgres) stagedErased(ctx context.Context, tx pgx.Tx) (erased bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM erasures e JOIN archive_staging s ON s.user_id = e.row_id)`).Scan(&erased)
	if err != nil {
		return false, fmt.Errorf("look for erased users: %w", err)
	}
	return erased, nil
}

// merge first verifies the staged rows against the totals read. It then leaves out users
// who were erased, and writes the best entry of each user, or the corrected one, into
// archive_merged, with new ranks, and returns the totals of that table.
func (p *postgres) merge(ctx context.Context, tx pgx.Tx, bucket *models.Bucket, read totals) (totals, error) {
	staged, err := p.sum(ctx, tx, "archive_staging")
	if err != nil {
		return totals{}, err
	}
	if staged != read {
		return totals{}, fmt.Errorf("%w: read %v; staged %v", ErrVerification, read, staged)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM archive_staging WHERE user_id IN (SELECT row_id FROM erasures)`); err != nil {
		return totals{}, fmt.Errorf("leave out erased users: %w", err)
	}
	if _, err := tx.Exec(ctx, `CREATE TEMP TABLE archive_merged (LIKE archive_staging) ON COMMIT DROP`); err != nil {
		return totals{}, fmt.Errorf("create merge table: %w", err)
	}
	if err := p.keepReported(ctx, tx, bucket); err != nil {
		return totals{}, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO archive_merged (rank, user_id, score, reached_at)
		SELECT row_number() OVER (ORDER BY score DESC, reached_at, user_id::text COLLATE "C" DESC), user_id, score, reached_at
		FROM (
			SELECT user_id, coalesce(c.score, best.score) AS score, coalesce(c.reached_at, best.reached_at) AS reached_at
			FROM (`+bestOfUsers+`) best LEFT JOIN archive_corrected c USING (user_id)
			WHERE c.kind IS DISTINCT FROM 'exclude'
		) counted`, bucket.Board, bucket.Name, bucket.Day.UTC())
	if err != nil {
		return totals{}, fmt.Errorf("merge: %w", err)
	}
	return p.sum(ctx, tx, "archive_merged")
}

// insert stores the rows of a temporary table. It does not touch rows that are
// stored already and equal.
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

// hashOf returns the SQL expression of the hash of a row, as row.hash computes it. user and
// rank are names of columns.
func hashOf(user, rank string) string {
	return `hashint8extended(` + user + `, hashint8extended(score,
		hashint8extended((date_part('epoch', reached_at) * 1000)::bigint, hashint8extended(` + rank + `, 0))))`
}

// sum computes the totals of rows in Postgres, exactly as totals.add does.
func (p *postgres) sum(ctx context.Context, tx pgx.Tx, from string, args ...any) (totals, error) {
	var t totals
	err := tx.QueryRow(ctx, `
		SELECT count(*), coalesce(sum(score), 0)::bigint, coalesce(bit_xor(`+hashOf("user_id", "rank")+`), 0)
		FROM `+from, args...).Scan(&t.rows, &t.scoreSum, &t.hash)
	if err != nil {
		return totals{}, fmt.Errorf("sum up %s: %w", strings.Fields(from)[0], err)
	}
	return t, nil
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
	err := p.eachScore(ctx, func(user, points int64, reachedAt time.Time) (err error) {
		composites[index[user]], err = composite(codec, points, reachedAt)
		return err
	}, `SELECT user_id, score, reached_at FROM archived_scores WHERE board = $1 AND day = $2 AND user_id = ANY($3)`,
		bucket.Board, bucket.Day.UTC(), ids)
	return composites, err
}

// stored implements storage.
func (p *postgres) stored(ctx context.Context, raises []models.Raise) ([]models.Composite, error) {
	boards, days, users := make([]string, len(raises)), make([]time.Time, len(raises)), make([]int64, len(raises))
	for i, r := range raises {
		boards[i], days[i], users[i] = r.Bucket.Board, r.Bucket.Day.UTC(), int64(r.User)
	}
	composites := make([]models.Composite, len(raises))
	err := p.eachScore(ctx, func(position, points int64, reachedAt time.Time) (err error) {
		composites[position-1], err = composite(score.Of(raises[position-1].Bucket), points, reachedAt)
		return err
	}, `SELECT r.position, s.score, s.reached_at
		FROM unnest($1::text[], $2::date[], $3::bigint[]) WITH ORDINALITY AS r(board, day, user_id, position)
		JOIN archived_scores s ON s.day = r.day AND s.user_id = r.user_id AND s.board = r.board`, boards, days, users)
	return composites, err
}

// eachScore calls do for each row of a query: a number that identifies it, a score, and when
// that was reached.
func (p *postgres) eachScore(ctx context.Context, do func(id, points int64, reachedAt time.Time) error, query string, args ...any) error {
	db, err := p.reads.DB() // gorm would make a parameter of each element
	if err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			id, points int64
			reachedAt  time.Time
		)
		if err := rows.Scan(&id, &points, &reachedAt); err != nil {
			return err
		}
		if err := do(id, points, reachedAt); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sumsQuery lists the buckets of a span, and adds up the scores of each user on those that
// are archived. OFFSET 0 keeps the reads of the days apart, as each of them finds its rows
// by the primary key; joined in any other way, Postgres may read whole partitions. The ids, $4,
// are ascending; width_bucket finds the place of one among them.
const sumsQuery = `
	WITH span AS MATERIALIZED (
		SELECT bucket, day, ends_at, archived FROM bucket_states WHERE board = $1 AND day BETWEEN $2 AND $3
	)
	SELECT bucket, archived, ends_at, 0, 0, 0, NULL FROM span
	UNION ALL
	SELECT '', true, NULL, s.user_id, sum(s.score)::bigint, count(*),
		coalesce(max(s.reached_at) FILTER (WHERE s.score > 0), min(s.reached_at))
	FROM span CROSS JOIN LATERAL (
		SELECT user_id, score, reached_at FROM archived_scores
		WHERE board = $1 AND day = span.day AND user_id = ANY($4) OFFSET 0
	) s
	WHERE span.archived AND span.ends_at > ($5::timestamptz[])[width_bucket(s.user_id, $4::bigint[])]
	GROUP BY s.user_id`

// sums implements storage.
func (p *postgres) sums(
	ctx context.Context, boardName string, users []Viewed, from, to models.Date,
) (days []SpanDay, sums map[models.RowID]models.Sum, err error) {
	users = slices.SortedFunc(slices.Values(users), func(a, b Viewed) int { return cmp.Compare(a.User, b.User) })
	ids, after := make([]int64, len(users)), make([]time.Time, len(users))
	for i, u := range users {
		ids[i], after[i] = int64(u.User), u.After
	}
	db, err := p.reports.DB() // gorm would make a parameter of each id
	if err != nil {
		return nil, nil, err
	}
	rows, err := db.QueryContext(ctx, sumsQuery, boardName, from.UTC(), to.UTC(), ids, after)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	sums = make(map[models.RowID]models.Sum, len(users))
	for rows.Next() {
		var (
			day               SpanDay
			user              models.RowID
			sum               models.Sum
			endsAt, reachedAt sql.NullTime
		)
		if err := rows.Scan(&day.Bucket, &day.Archived, &endsAt, &user, &sum.Score, &sum.Days, &reachedAt); err != nil {
			return nil, nil, err
		}
		if user == 0 {
			day.EndsAt = endsAt.Time
			days = append(days, day)
			continue
		}
		sum.ReachedAt = models.TimestampOf(reachedAt.Time)
		sums[user] = sum
	}
	return days, sums, rows.Err()
}

// dropMonths implements storage. Each month is dropped in a transaction of its
// own. It waits for current readers of the archive and makes later ones wait,
// so lock_timeout bounds the wait. The next call drops the months that are left.
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
