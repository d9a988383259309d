package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/internal/column"
	"stepboard/models"
)

// postgres counts in three round trips, and in one more each if rows are probed,
// totals are locked first, or increments were counted before. Rows are passed as arrays,
// so that the statements never change.
type postgres struct {
	pool *pgxpool.Pool
	// lockWait is how long a statement waits for a lock.
	lockWait time.Duration
}

// idleWait is how long a transaction may be idle between two statements before
// Postgres ends it. A process that takes longer was stopped, and its users wait.
const idleWait = 5 * time.Second

// SQLSTATE codes of errors that are expected.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
	lockNotAvailable     = "55P03"
)

// transact implements transactor. The transaction begins with the first step and
// is committed with the last one, so that neither takes a round trip of its own.
func (p *postgres) transact(ctx context.Context, fn func(transaction) error) error {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	// The pool closes a connection that is released within a transaction.
	defer conn.Release()
	tx := &postgresTx{conn: conn.Conn(), lockWait: p.lockWait}
	err = fn(tx)
	if tx.begun && !tx.committed && !conn.Conn().IsClosed() {
		if _, rollback := conn.Exec(ctx, `ROLLBACK`); rollback != nil {
			return errors.Join(err, rollback)
		}
	}
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code {
	case serializationFailure, deadlockDetected:
		return fmt.Errorf("%w: %w", errConflict, err)
	case lockNotAvailable:
		return fmt.Errorf("%w: %w", errLocked, err)
	default:
		return err
	}
}

// postgresTx is one transaction of postgres.
type postgresTx struct {
	conn             *pgx.Conn
	lockWait         time.Duration
	begun, committed bool
}

// batch returns an empty batch for a step, or one that begins the transaction.
func (t *postgresTx) batch() *pgx.Batch {
	b := &pgx.Batch{}
	if !t.begun {
		t.begun = true
		b.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
		b.Queue(settingsQuery, millis(t.lockWait), millis(idleWait))
	}
	return b
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// settingsQuery makes settings that hold in the transaction. A query plan that was
// made while the tables were small would read whole tables, and stay cached while
// they grow; hence enable_seqscan.
const settingsQuery = `
	SELECT set_config('enable_seqscan', 'off', true), set_config('lock_timeout', $1, true),
		set_config('idle_in_transaction_session_timeout', $2, true)`

// The statements look each key up in the primary key's index, in the order of the
// arrays: Postgres never joins a LATERAL with a limit in any other way.
const (
	knownQuery = `
	SELECT e.board, e.event_id, e.user_id, e.delta, e.score, e.reached_at, e.total
	FROM unnest($1::text[], $2::text[]) AS k (board, event_id)
	CROSS JOIN LATERAL (SELECT * FROM score_events e WHERE e.board = k.board AND e.event_id = k.event_id LIMIT 1) AS e`
	totalsQuery = `
	SELECT t.board, t.user_id, t.total, t.score, t.reached_at
	FROM unnest($1::text[], $2::bigint[], $3::text[]) AS k (board, user_id, total)
	CROSS JOIN LATERAL (
		SELECT * FROM score_totals t WHERE t.board = k.board AND t.user_id = k.user_id AND t.total = k.total LIMIT 1) AS t`
	probeQuery = `
	SELECT CASE WHEN free.yes THEN 1 WHEN stored.yes THEN 2 ELSE 0 END
	FROM unnest($1::text[], $2::bigint[], $3::text[]) WITH ORDINALITY AS k (board, user_id, total, n)
	LEFT JOIN LATERAL (
		SELECT true AS yes FROM score_totals t
		WHERE t.board = k.board AND t.user_id = k.user_id AND t.total = k.total LIMIT 1 FOR UPDATE SKIP LOCKED) AS free ON true
	LEFT JOIN LATERAL (
		SELECT true AS yes FROM score_totals t
		WHERE t.board = k.board AND t.user_id = k.user_id AND t.total = k.total LIMIT 1) AS stored ON true
	ORDER BY k.n`
	lockQuery = `
	SELECT t.board, t.user_id, t.total, t.score
	FROM unnest($1::text[], $2::bigint[], $3::text[]) AS k (board, user_id, total)
	CROSS JOIN LATERAL (
		SELECT * FROM score_totals t WHERE t.board = k.board AND t.user_id = k.user_id AND t.total = k.total LIMIT 1 FOR UPDATE) AS t`
	// A statement that changes final_at takes the lock that this one excludes. Other changes of a
	// bucket, and corrections, do not.
	openQuery = `
	SELECT board, ends_at, closes_at, final_at IS NOT NULL FROM board_buckets WHERE board = ANY ($1) AND bucket = 'event' FOR KEY SHARE`
	joinQuery = `
	INSERT INTO score_totals AS t (board, user_id, total, score, reached_at)
	SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::timestamptz[])
	ON CONFLICT (board, user_id, total) DO UPDATE SET `
	// addQuery and bestQuery do what balance.join does.
	addQuery = joinQuery + `score = t.score + excluded.score, reached_at = CASE
		WHEN t.score = 0 AND excluded.score = 0 THEN LEAST(t.reached_at, excluded.reached_at)
		WHEN t.score = 0 THEN excluded.reached_at
		WHEN excluded.score = 0 THEN t.reached_at
		ELSE GREATEST(t.reached_at, excluded.reached_at) END
	RETURNING user_id, total, score, reached_at`
	bestQuery = joinQuery + `score = GREATEST(t.score, excluded.score), reached_at = CASE
		WHEN excluded.score > t.score THEN excluded.reached_at
		WHEN excluded.score < t.score THEN t.reached_at
		ELSE LEAST(t.reached_at, excluded.reached_at) END
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

// read implements transaction.
func (t *postgresTx) read(
	ctx context.Context, keys []eventKey, events []string,
) (map[eventKey]knownEvent, map[string]eventState, error) {
	known := make(map[eventKey]knownEvent)
	var e knownEvent
	b := t.batch()
	boards := column.Of(keys, func(k eventKey) string { return k.board })
	b.Queue(knownQuery, boards, column.Of(keys, func(k eventKey) string { return k.id })).Query(
		each([]any{&e.Board, &e.EventID, &e.User, &e.Delta, &e.Score, &e.ReachedAt, &e.Total}, func() error {
			known[eventKey{e.Board, e.EventID}] = e
			return nil
		}))
	states := queueEvents(b, events)
	if err := t.conn.SendBatch(ctx, b).Close(); err != nil || len(known) == 0 {
		return known, states, err
	}
	return known, states, t.readTotals(ctx, known)
}

// queueEvents queues the query for the states of events, if there are any, and returns the map that
// it fills.
func queueEvents(b *pgx.Batch, boards []string) map[string]eventState {
	if len(boards) == 0 {
		return nil
	}
	states := make(map[string]eventState, len(boards))
	var board string
	var s eventState
	b.Queue(openQuery, boards).Query(each([]any{&board, &s.endsAt, &s.closesAt, &s.final}, func() error {
		states[board] = s
		return nil
	}))
	return states
}

// readTotals reads the running totals of increments that are stored. It is a statement of
// its own, because the first statement of a transaction may be prepared before lock_timeout is set:
// if the totals are locked as a whole, it would wait.
func (t *postgresTx) readTotals(ctx context.Context, known map[eventKey]knownEvent) error {
	events := make(map[totalKey][]eventKey, len(known))
	for event, e := range known {
		key := totalKey{e.Board, e.User, e.Total}
		events[key] = append(events[key], event)
	}
	var (
		key   totalKey
		total balance
		at    time.Time
	)
	rows, err := t.conn.Query(ctx, totalsQuery, keyColumns(slices.Collect(maps.Keys(events)))...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, []any{&key.board, &key.user, &key.name, &total.score, &at}, func() error {
		total.reachedAt, total.stored = models.TimestampOf(at), true
		for _, event := range events[key] {
			e := known[event]
			e.total = total
			known[event] = e
		}
		return nil
	})
	return err
}

// each returns the callback of a queued query. It scans each row into the columns and calls do.
func each(columns []any, do func() error) func(pgx.Rows) error {
	return func(found pgx.Rows) error {
		_, err := pgx.ForEachRow(found, columns, do)
		return err
	}
}

// eachRow returns the callback of a queued query. It scans each row into the columns and
// calls do with the row's position. It returns errOrder if there are not n rows.
func eachRow(n int, columns []any, do func(i int) error) func(pgx.Rows) error {
	return func(found pgx.Rows) error {
		at := 0
		err := each(columns, func() error {
			if at++; at > n {
				return errOrder
			}
			return do(at - 1)
		})(found)
		if err == nil && at < n {
			return errOrder
		}
		return err
	}
}

// errOrder means that the database has returned rows in another order than they
// were asked for.
var errOrder = errors.New("rows come out of order")

// probe implements transaction.
func (t *postgresTx) probe(ctx context.Context, totals []*total) ([]rowState, error) {
	rows := make([]rowState, len(totals))
	var row rowState
	b := t.batch()
	b.Queue(probeQuery, keyColumns(totals)...).Query(eachRow(len(totals), []any{&row}, func(i int) error {
		rows[i] = row
		return nil
	}))
	return rows, t.conn.SendBatch(ctx, b).Close()
}

// lock implements transaction. The windows are read by a statement of their own:
// only a new statement sees commits that happened while the locks were awaited.
func (t *postgresTx) lock(ctx context.Context, totals []*total, windows []*window) (balances, error) {
	locked := balances{totals: make([]balance, len(totals)), windows: make([]int64, len(windows))}
	var (
		key    totalKey
		points int64
		at     int
	)
	b := t.batch()
	b.Queue(lockQuery, keyColumns(totals)...).Query(each([]any{&key.board, &key.user, &key.name, &points}, func() error {
		for at < len(totals) && totals[at].totalKey != key {
			at++ // a total that does not exist
		}
		if at == len(totals) {
			return errOrder
		}
		locked.totals[at].score = points
		return nil
	}))
	queueWindows(b, windows, locked.windows)
	return locked, t.conn.SendBatch(ctx, b).Close()
}

// add implements transaction. It waits for a row that another transaction has
// locked and joins to what that transaction leaves.
func (t *postgresTx) add(ctx context.Context, additions []addition, windows []*window) (balances, error) {
	after := balances{totals: make([]balance, len(additions)), windows: make([]int64, len(windows))}
	bests := slices.IndexFunc(additions, func(a addition) bool { return a.bucket.Best })
	if bests < 0 {
		bests = len(additions)
	}
	b := t.batch()
	queueAdditions(b, addQuery, additions[:bests], after.totals[:bests])
	queueAdditions(b, bestQuery, additions[bests:], after.totals[bests:])
	queueWindows(b, windows, after.windows)
	return after, t.conn.SendBatch(ctx, b).Close()
}

// queueAdditions queues the statement that joins additions to their totals, if there are any. It
// writes the totals to after.
func queueAdditions(b *pgx.Batch, query string, additions []addition, after []balance) {
	if len(additions) == 0 {
		return
	}
	var (
		user   models.RowID
		name   string
		points int64
		at     time.Time
	)
	args := append(keyColumns(additions), column.Of(additions, func(a addition) int64 { return a.score }),
		column.Of(additions, func(a addition) time.Time { return a.reachedAt.Time() }))
	b.Queue(query, args...).Query(
		eachRow(len(additions), []any{&user, &name, &points, &at}, func(i int) error {
			if additions[i].user != user || additions[i].name != name {
				return errOrder
			}
			after[i] = balance{points, models.TimestampOf(at), true}
			return nil
		}))
}

// keyColumns returns the columns of the keys of totals: boards, users and names.
func keyColumns[T keyed](totals []T) []any {
	return []any{
		column.Of(totals, func(t T) string { return t.key().board }), column.Of(totals, func(t T) int64 { return int64(t.key().user) }),
		column.Of(totals, func(t T) string { return t.key().name }),
	}
}

// queueWindows queues the query for the sums of windows, if there are any. It
// writes them to sums, in the order of the windows.
func queueWindows(b *pgx.Batch, windows []*window, sums []int64) {
	if len(windows) == 0 {
		return
	}
	var sum int64
	b.Queue(windowQuery, column.Of(windows, func(w *window) string { return w.board }), column.Of(windows, func(w *window) int64 { return int64(w.user) }),
		column.Of(windows, func(w *window) string { return w.since }), column.Of(windows, func(w *window) string { return w.total.bucket.Name }),
	).Query(eachRow(len(windows), []any{&sum}, func(i int) error {
		sums[i] = sum
		return nil
	}))
}

// finish implements transaction.
func (t *postgresTx) finish(ctx context.Context, events []models.ScoreEvent) error {
	b := t.batch()
	b.Queue(eventsQuery,
		column.Of(events, func(e models.ScoreEvent) string { return e.Board }),
		column.Of(events, func(e models.ScoreEvent) string { return e.EventID }),
		column.Of(events, func(e models.ScoreEvent) string { return e.Total }),
		column.Of(events, func(e models.ScoreEvent) int64 { return int64(e.User) }),
		column.Of(events, func(e models.ScoreEvent) int64 { return e.Delta }),
		column.Of(events, func(e models.ScoreEvent) time.Time { return e.AcceptedAt }),
		column.Of(events, func(e models.ScoreEvent) int64 { return e.Score }),
		column.Of(events, func(e models.ScoreEvent) time.Time { return e.ReachedAt }))
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
