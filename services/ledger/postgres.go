package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/models"
)

// postgres counts in three round trips. Rows come as arrays, so that the
// statements are always the same.
type postgres struct {
	pool *pgxpool.Pool
}

// Postgres's reasons to end a transaction or refuse a row.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
)

// transact: see books. It begins with the first step and is committed with the
// last one, so that neither takes a round trip of its own.
func (p *postgres) transact(ctx context.Context, fn func(transaction) error) error {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	// A connection that is given back within a transaction is closed.
	defer conn.Release()
	tx := &postgresTx{conn: conn.Conn()}
	err = fn(tx)
	if tx.begun && !tx.committed && !conn.Conn().IsClosed() {
		if _, rollback := conn.Exec(ctx, `ROLLBACK`); rollback != nil {
			return errors.Join(err, rollback)
		}
	}
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == serializationFailure || refused.Code == deadlockDetected) {
		return fmt.Errorf("%w: %w", errConflict, err)
	}
	return err
}

// postgresTx is one transaction.
type postgresTx struct {
	conn             *pgx.Conn
	begun, committed bool
}

// batch is the statements of a step.
func (t *postgresTx) batch() *pgx.Batch {
	b := &pgx.Batch{}
	if !t.begun {
		t.begun = true
		b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
		// A plan that was made while the tables were small would read them whole,
		// and be kept while they grow.
		b.Queue(`SET LOCAL enable_seqscan = off`)
	}
	return b
}

// The statements look each key up by the primary key, in the order of the
// arrays: a LATERAL with a limit is never joined in any other way.
const (
	knownQuery = `
	SELECT e.board, e.event_id, e.user_id, e.delta, e.score, e.reached_at
	FROM unnest($1::text[], $2::text[]) AS k (board, event_id)
	CROSS JOIN LATERAL (SELECT * FROM score_events e WHERE e.board = k.board AND e.event_id = k.event_id LIMIT 1) AS e`
	lockQuery = `
	SELECT t.board, t.user_id, t.total, t.score
	FROM unnest($1::text[], $2::bigint[], $3::text[]) AS k (board, user_id, total)
	CROSS JOIN LATERAL (
		SELECT * FROM score_totals t WHERE t.board = k.board AND t.user_id = k.user_id AND t.total = k.total LIMIT 1 FOR UPDATE) AS t`
	addQuery = `
	INSERT INTO score_totals AS t (board, user_id, total, score, reached_at)
	SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::timestamptz[])
	ON CONFLICT (board, user_id, total) DO UPDATE
	SET score = t.score + excluded.score, reached_at = GREATEST(t.reached_at, excluded.reached_at)
	RETURNING user_id, total, score, reached_at`
	windowQuery = `
	SELECT coalesce((
		SELECT sum(t.score) FROM score_totals t
		WHERE t.board = w.board AND t.user_id = w.user_id AND t.total >= w.since AND t.total <> w.bucket), 0)::bigint
	FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) WITH ORDINALITY AS w (board, user_id, since, bucket, n)
	ORDER BY w.n`
	eventsQuery = `
	INSERT INTO score_events (board, event_id, total, user_id, delta, accepted_at, score, reached_at)
	SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::timestamptz[], $7::bigint[], $8::timestamptz[])`
)

// known: see transaction.
func (t *postgresTx) known(ctx context.Context, keys []eventKey) (map[eventKey]models.ScoreEvent, error) {
	boards, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		boards[i], ids[i] = k.board, k.id
	}
	known := make(map[eventKey]models.ScoreEvent)
	b := t.batch()
	b.Queue(knownQuery, boards, ids).Query(func(found pgx.Rows) error {
		for found.Next() {
			var e models.ScoreEvent
			if err := found.Scan(&e.Board, &e.EventID, &e.User, &e.Delta, &e.Score, &e.ReachedAt); err != nil {
				return err
			}
			known[eventKey{e.Board, e.EventID}] = e
		}
		return found.Err()
	})
	return known, t.conn.SendBatch(ctx, b).Close()
}

// lock: see transaction. The windows are read by a statement of their own: what
// others have committed while this one waited for its locks is seen by the next.
func (t *postgresTx) lock(ctx context.Context, rows []*row, windows []*window) error {
	boards, users, totals := rowKeys(rows)
	b := t.batch()
	b.Queue(lockQuery, boards, users, totals).Query(func(found pgx.Rows) error {
		at := 0
		for found.Next() {
			var (
				key    totalKey
				points int64
			)
			if err := found.Scan(&key.board, &key.user, &key.total, &points); err != nil {
				return err
			}
			for at < len(rows) && rows[at].compare(key) < 0 {
				at++
			}
			if at == len(rows) || rows[at].totalKey != key {
				return errOrder
			}
			rows[at].score = points
		}
		return found.Err()
	})
	queueWindows(b, windows)
	return t.conn.SendBatch(ctx, b).Close()
}

// errOrder says that the database has answered rows otherwise than it was asked
// for them.
var errOrder = errors.New("rows come out of order")

// add: see transaction. A row that somebody else has locked is waited for, and
// increased from what it is then.
func (t *postgresTx) add(ctx context.Context, rows []*row, windows []*window) error {
	boards, users, totals := rowKeys(rows)
	added, reachedAt := make([]int64, len(rows)), make([]time.Time, len(rows))
	for i, r := range rows {
		added[i], reachedAt[i] = r.added, r.reachedAt.Time()
	}
	b := t.batch()
	b.Queue(addQuery, boards, users, totals, added, reachedAt).Query(func(found pgx.Rows) error {
		n := 0
		for ; found.Next(); n++ {
			var (
				key    totalKey
				points int64
				at     time.Time
			)
			if err := found.Scan(&key.user, &key.total, &points, &at); err != nil {
				return err
			}
			if n == len(rows) || rows[n].user != key.user || rows[n].total != key.total {
				return errOrder
			}
			rows[n].score, rows[n].reachedAt = points, models.TimestampOf(at)
		}
		if n < len(rows) {
			return cmp.Or(found.Err(), errOrder)
		}
		return found.Err()
	})
	queueWindows(b, windows)
	return t.conn.SendBatch(ctx, b).Close()
}

// rowKeys is the columns of the rows' names.
func rowKeys(rows []*row) (boards []string, users []int64, totals []string) {
	boards, users, totals = make([]string, len(rows)), make([]int64, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		boards[i], users[i], totals[i] = r.board, int64(r.user), r.total
	}
	return boards, users, totals
}

// queueWindows reads the sums of windows, if there are any.
func queueWindows(b *pgx.Batch, windows []*window) {
	if len(windows) == 0 {
		return
	}
	boards, users := make([]string, len(windows)), make([]int64, len(windows))
	since, buckets := make([]string, len(windows)), make([]string, len(windows))
	for i, w := range windows {
		boards[i], users[i], since[i], buckets[i] = w.row.board, int64(w.row.user), w.since, w.row.bucket.Name
	}
	b.Queue(windowQuery, boards, users, since, buckets).Query(func(found pgx.Rows) error {
		n := 0
		for ; found.Next() && n < len(windows); n++ {
			if err := found.Scan(&windows[n].sum); err != nil {
				return err
			}
		}
		if n < len(windows) {
			return cmp.Or(found.Err(), errOrder)
		}
		return found.Err()
	})
}

// finish: see transaction.
func (t *postgresTx) finish(ctx context.Context, events []models.ScoreEvent) error {
	var (
		boards, ids, totals   = make([]string, len(events)), make([]string, len(events)), make([]string, len(events))
		users, deltas, scores = make([]int64, len(events)), make([]int64, len(events)), make([]int64, len(events))
		accepted, reachedAt   = make([]time.Time, len(events)), make([]time.Time, len(events))
	)
	for i, e := range events {
		boards[i], ids[i], totals[i] = e.Board, e.EventID, e.Total
		users[i], deltas[i], scores[i] = int64(e.User), e.Delta, e.Score
		accepted[i], reachedAt[i] = e.AcceptedAt, e.ReachedAt
	}
	b := t.batch()
	b.Queue(eventsQuery, boards, ids, totals, users, deltas, accepted, scores, reachedAt)
	b.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		if t.committed = tag.String() == `COMMIT`; !t.committed {
			return fmt.Errorf("the transaction ended with %s", tag)
		}
		return nil
	})
	err := t.conn.SendBatch(ctx, b).Close()
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == uniqueViolation {
		return errDuplicateID
	}
	return err
}
