package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/batch"
)

const (
	// ledgerUsers is the number of users who get increments.
	ledgerUsers = 100_000
	// spreadUsers is about how many of them the requests name. With a few users only,
	// each would be updated hundreds of times a second, and Postgres would spend its
	// time on the versions of their rows.
	spreadUsers = 64_000
	// ledgerList is the number of increments of a list call, and ledgerCallers the
	// number of concurrent list calls.
	ledgerList, ledgerCallers = 1000, 8
	// ledgerWorkers is the number of concurrent transactions of bareLedger.
	ledgerWorkers = 2
	// rollingUsers is the number of users in each hour of the rolling board, and
	// rollingHours the length of its window.
	rollingUsers, rollingHours = 200_000, 24
	// idDigits is the number of digits of an event id.
	idDigits = 12
)

// bareIncrement is an increment of bareLedger.
type bareIncrement struct {
	id          string
	user, delta int64
}

// ledgerBench measures increments, and bare transactions of the same two statements.
func (e *environment) ledgerBench(ctx context.Context) error {
	bare, err := e.newBareLedger(ctx)
	if err != nil {
		return err
	}
	defer bare.batcher.Close()
	token, err := e.token("1", auth.ScopeService)
	if err != nil {
		return err
	}
	var ids atomic.Int64
	single := func(name string) func() []byte { return e.increments(&ids, name, token, 1) }
	list := func(name string) func() []byte { return e.increments(&ids, name, token, ledgerList) }
	one := func(ctx context.Context, i int) error {
		return bare.batcher.Submit(ctx, bare.randomIncrements(&ids, i, 1))
	}
	rows := []row{
		{name: "bare pgx, one an increment, gathered", measure: func(ctx context.Context) (float64, error) {
			return loop(ctx, 64, e.seconds, one)
		}},
		{name: "bare pgx, one an increment, gathered, a transaction open", measure: func(ctx context.Context) (float64, error) {
			return e.whileOpen(ctx, func() (float64, error) { return loop(ctx, 64, e.seconds, one) })
		}},
		{name: "event: one a request, 64 connections", process: e.service, measure: func(ctx context.Context) (float64, error) {
			return load(ctx, e.service.addr, 64, e.seconds, single("gifts"))
		}},
		{name: "event: one a request, 64 connections, another user locked", process: e.service, measure: func(ctx context.Context) (float64, error) {
			return e.whileLocked(ctx, &ids, token, func() (float64, error) { return load(ctx, e.service.addr, 64, e.seconds, single("gifts")) })
		}},
		{name: "event: one a request, 64 connections, a transaction open", process: e.service, measure: func(ctx context.Context) (float64, error) {
			return e.whileOpen(ctx, func() (float64, error) { return load(ctx, e.service.addr, 64, e.seconds, single("gifts")) })
		}},
		{name: "rolling: one a request, 64 connections", process: e.service, measure: func(ctx context.Context) (float64, error) {
			return load(ctx, e.service.addr, 64, e.seconds, single("active"))
		}},
		{name: "daily upload: one a request, 64 connections", process: e.service, measure: e.serviceUpload},
		{name: "bare pgx, 1000 a transaction", measure: func(ctx context.Context) (float64, error) {
			calls, err := loop(ctx, ledgerCallers, e.seconds, func(ctx context.Context, i int) error {
				return bare.count(ctx, bare.randomIncrements(&ids, i, ledgerList))
			})
			return calls * ledgerList, err
		}},
		{name: "event: 1000 a request, 8 connections", process: e.service, measure: func(ctx context.Context) (float64, error) {
			calls, err := load(ctx, e.service.addr, ledgerCallers, e.seconds, list("gifts"))
			return calls * ledgerList, err
		}},
		{name: "rolling: 1000 a request, 8 connections", process: e.service, measure: func(ctx context.Context) (float64, error) {
			calls, err := load(ctx, e.service.addr, ledgerCallers, e.seconds, list("active"))
			return calls * ledgerList, err
		}},
	}
	const firstList = 7
	for range e.rounds {
		for i := range rows {
			if err := rows[i].run(ctx, e); err != nil {
				return fmt.Errorf("%s: %w", rows[i].name, err)
			}
		}
	}
	fmt.Printf("\n| increments | a second | ratio | Redis, µs of CPU each | server | client |\n| --- | ---: | --- | ---: | ---: | ---: |\n")
	for i, r := range rows {
		base := rows[0].median()
		if i >= firstList {
			base = rows[firstList].median()
		}
		fmt.Printf("| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n", r.name, r.median(), r.median()/base, r.redis.each(), r.server.each(), r.client.each())
	}
	if err := e.ledgerBytes(ctx); err != nil {
		return err
	}
	return e.drainBench(ctx)
}

// lockedCallers is the number of calls for the locked user that wait at a time.
const lockedCallers = 8

// whileOpen measures while another session has a transaction open that locks nothing.
// Every open transaction keeps Postgres from removing old versions of rows; that part of
// the cost of a locked row is the same for any service.
func (e *environment) whileOpen(ctx context.Context, measure func() (float64, error)) (rate float64, err error) {
	tx, err := e.stores.Pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tx.Rollback(ctx)) }()
	if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
		return 0, err
	}
	return measure()
}

// whileLocked measures while another session has locked the row of a user whose
// increments keep coming.
func (e *environment) whileLocked(ctx context.Context, ids *atomic.Int64, token string, measure func() (float64, error)) (rate float64, err error) {
	const user = firstUser + ledgerUsers // gets no other increments
	give := func(ctx context.Context) (status int, err error) {
		body := fmt.Sprintf(`{"user_id":"%d","delta":1,"event_id":"%0*d"}`, user, idDigits, ids.Add(1))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.service.addr+"/v1/boards/gifts/increments", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	if status, err := give(ctx); err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("an increment is answered %d: %w", status, err)
	}
	tx, err := e.stores.Pool.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tx.Rollback(ctx)) }()
	if _, err := tx.Exec(ctx, `SELECT FROM score_totals WHERE board = 'gifts' AND user_id = $1 FOR UPDATE`, user); err != nil {
		return 0, err
	}
	sending, stop := context.WithCancel(ctx)
	var callers sync.WaitGroup
	defer callers.Wait()
	defer stop()
	for range lockedCallers {
		callers.Go(func() {
			for sending.Err() == nil {
				if status, err := give(sending); err == nil && status != http.StatusServiceUnavailable {
					fmt.Printf("an increment of the locked user was answered %d\n", status)
				}
			}
		})
	}
	return measure()
}

// ledgerBytes prints the disk space of increments in Postgres.
func (e *environment) ledgerBytes(ctx context.Context) error {
	var events, totals float64
	err := e.stores.Pool.QueryRow(ctx, `
		SELECT pg_total_relation_size('score_events')::float8 / (SELECT count(*) FROM score_events),
			pg_total_relation_size('score_totals')::float8 / (SELECT count(*) FROM score_totals)`).Scan(&events, &totals)
	if err != nil {
		return err
	}
	fmt.Printf("\nPostgres, with indexes: %.0f bytes for each increment, %.0f for each running total\n", events, totals)
	return nil
}

// increments returns a source of requests with n increments of random users, each
// with a new event id. The users of all requests are about spreadUsers.
func (e *environment) increments(ids *atomic.Int64, board, token string, n int) func() []byte {
	placeholder := strings.Repeat("#", idDigits)
	var templates [][]byte
	rng := mathrand.New(mathrand.NewPCG(9, 10))
	for range max(1, spreadUsers/n) {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(`{"user_id":"%d","delta":%d,"event_id":"%s"}`, firstUser+rng.IntN(ledgerUsers), 1+rng.IntN(9), placeholder)
		}
		body := items[0]
		if n > 1 {
			body = `{"increments":[` + strings.Join(items, ",") + `]}`
		}
		templates = append(templates, httpRequest("POST", "/v1/boards/"+board+"/increments", token, body))
	}
	next := rotate(templates)
	return func() []byte {
		request := slices.Clone(next())
		id := ids.Add(int64(n))
		for at := 0; ; id-- {
			i := bytes.Index(request[at:], []byte(placeholder))
			if i < 0 {
				return request
			}
			at += i
			copy(request[at:], fmt.Sprintf("%0*d", idDigits, id))
		}
	}
}

// bareLedger does the minimum that the ledger must do.
type bareLedger struct {
	pool    *pgxpool.Pool
	batcher *batch.Batcher[bareIncrement]
}

func (e *environment) newBareLedger(ctx context.Context) (*bareLedger, error) {
	b := &bareLedger{pool: e.stores.Pool}
	for _, statement := range []string{
		`CREATE TABLE bare_events (LIKE score_events INCLUDING ALL)`,
		`CREATE TABLE bare_totals (LIKE score_totals INCLUDING ALL) WITH (fillfactor = 70)`,
	} {
		if _, err := b.pool.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	b.batcher = batch.New(ledgerList, ledgerWorkers, func(ctx context.Context, items []bareIncrement) []error {
		if err := b.count(ctx, items); err != nil {
			return slices.Repeat([]error{err}, len(items))
		}
		return nil
	})
	return b, nil
}

// randomIncrements returns n increments of random users.
func (b *bareLedger) randomIncrements(ids *atomic.Int64, seed, n int) []bareIncrement {
	rng := mathrand.New(mathrand.NewPCG(11, uint64(seed)))
	list := make([]bareIncrement, n)
	for i := range list {
		list[i] = bareIncrement{id: strconv.FormatInt(ids.Add(1), 10), user: int64(firstUser + rng.IntN(ledgerUsers)), delta: int64(1 + rng.IntN(9))}
	}
	return list
}

// count counts increments in one transaction of two statements.
func (b *bareLedger) count(ctx context.Context, items []bareIncrement) error {
	sums := make(map[int64]int64, len(items))
	ids, users, deltas := make([]string, len(items)), make([]int64, len(items)), make([]int64, len(items))
	for i, item := range items {
		ids[i], users[i], deltas[i] = item.id, item.user, item.delta
		sums[item.user] += item.delta
	}
	// Without an order, concurrent transactions would deadlock.
	rows := make([]int64, 0, len(sums))
	for user := range sums {
		rows = append(rows, user)
	}
	slices.Sort(rows)
	added := make([]int64, len(rows))
	for i, user := range rows {
		added[i] = sums[user]
	}
	now := time.Now()
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`
			INSERT INTO bare_totals AS t (board, user_id, total, score, reached_at)
			SELECT 'gifts', u, 'event', s, $3 FROM unnest($1::bigint[], $2::bigint[]) AS x (u, s)
			ON CONFLICT (board, user_id, total) DO UPDATE
			SET score = t.score + excluded.score, reached_at = GREATEST(t.reached_at, excluded.reached_at)`, rows, added, now)
		batch.Queue(`
			INSERT INTO bare_events (board, event_id, total, user_id, delta, accepted_at, score, reached_at)
			SELECT 'gifts', id, 'event', u, d, $4, d, $4 FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS x (id, u, d)
			ON CONFLICT DO NOTHING`, ids, users, deltas, now)
		return tx.SendBatch(ctx, batch).Close()
	})
}

// drainBench measures the longest time that Redis is blocked while an hour leaves
// the window, and compares it with recomputing the whole window at once.
func (e *environment) drainBench(ctx context.Context) error {
	b, err := catalog.NewBoard(models.Board{
		Name: "drained", Kind: models.KindRolling, TimeZone: "UTC", MaxScore: 8_000_000, Shards: 1, Global: models.AudienceUsers, WindowHours: rollingHours,
	})
	if err != nil {
		return err
	}
	now := time.Now().Truncate(time.Hour)
	bucket, err := catalog.New(nil, time.Now, 3, e.log()).Buckets.Current(b, now, models.UTCOffset{})
	if err != nil {
		return err
	}
	keys := keys.Builder{Prefix: e.config.Redis.KeyPrefix}
	codec := score.Of(bucket)
	at := now
	store := board.NewStore(e.rdb, keys, func() time.Time { return at }, nil)
	var hours []string
	for h := range rollingHours {
		at = now.Add(time.Duration(h-rollingHours+1) * time.Hour)
		hours = append(hours, keys.BoardHour(bucket, 0, models.HourOf(at)))
		for from := 0; from < rollingUsers; from += 10_000 {
			raises := make([]models.Raise, 10_000)
			for i := range raises {
				composite, err := codec.Encode(int64(1+(from+i+h)%1000), codec.Cut(models.TimestampOf(at.Add(time.Duration(i%3600)*time.Second))))
				if err != nil {
					return err
				}
				raises[i] = models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(firstUser + from + i), Composite: composite}}
			}
			if _, err := store.RaiseAll(ctx, raises); err != nil {
				return err
			}
		}
	}
	union, err := e.longestCommand(ctx, func() error {
		return e.rdb.ZUnionStore(ctx, keys.Prefix+"union:{drained.00}", &redis.ZStore{Keys: hours}).Err()
	})
	if err != nil {
		return err
	}
	at = now.Add(time.Hour)
	start := time.Now()
	var drained int64
	chunk, err := e.longestCommand(ctx, func() (err error) {
		drained, err = store.Drain(ctx, bucket)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("\nan hour of %d users leaves a window of %d hours: %d totals in %v, longest command %v = 1/%.0f of one ZUNIONSTORE over the window, %v\n",
		rollingUsers, rollingHours, drained, time.Since(start).Round(time.Millisecond), chunk, float64(union)/float64(chunk), union)
	return nil
}

// longestCommand returns the duration of the longest command during work, from the
// slow log of Redis.
func (e *environment) longestCommand(ctx context.Context, work func() error) (time.Duration, error) {
	before, err := e.rdb.ConfigGet(ctx, "slowlog-*").Result()
	if err != nil {
		return 0, err
	}
	set := func(values map[string]string) error {
		for name, value := range values {
			if err := e.rdb.ConfigSet(ctx, name, value).Err(); err != nil {
				return err
			}
		}
		return e.rdb.SlowLogReset(ctx).Err()
	}
	if err := set(map[string]string{"slowlog-log-slower-than": "0", "slowlog-max-len": "100000"}); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	log, err := e.rdb.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return 0, err
	}
	var longest time.Duration
	for _, entry := range log {
		longest = max(longest, entry.Duration)
	}
	return longest, set(before)
}
