package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/platform/auth"
)

// archiveRounds is the number of days archived; the medians are printed.
const archiveRounds = 3

// archiveResults holds the measurements of archiving.
type archiveResults struct {
	service       []time.Duration
	peak          int64
	calm, busy    []time.Duration // p99 of friend rankings
	rate          int             // friend rankings a second
	hot, archived time.Duration   // latency of a friend ranking with one client
}

// archiveBench measures how fast a day is archived, and the latency of rankings
// meanwhile.
func (e *environment) archiveBench(ctx context.Context) error {
	saturation, err := e.serviceRanking(ctx)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, e.config.Postgres.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	m := archiveResults{rate: max(1, int(saturation/4))}
	var last *models.Bucket
	for round := range archiveRounds {
		bucket, err := e.fillDay(ctx, -10-round)
		if err != nil {
			return err
		}
		last = bucket
		moved, err := e.archiveDay(ctx, pool, bucket)
		if err != nil {
			return err
		}
		m.service = append(m.service, moved)
	}
	m.peak = e.service.peakRSS()
	for round := range archiveRounds {
		if err := e.archiveUnderLoad(ctx, pool, &m, -20-round); err != nil {
			return err
		}
	}
	// In production, autovacuum has processed a day before it is read much.
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE archived_scores"); err != nil {
		return err
	}
	if m.hot, err = e.singleClientLatency(ctx, ""); err != nil {
		return err
	}
	if m.archived, err = e.singleClientLatency(ctx, "&date="+last.Day.String()); err != nil {
		return err
	}
	return e.printArchive(ctx, pool, m)
}

// fillDay writes a whole day into Redis, as its uploads would have, and returns its
// bucket. ago is the offset from today in days.
func (e *environment) fillDay(ctx context.Context, ago int) (*models.Bucket, error) {
	c := catalog.New(catalog.NewStore(e.stores.Gorm), time.Now, e.config.HotDays, e.log())
	if err := c.Definitions.Refresh(ctx); err != nil {
		return nil, err
	}
	b, err := c.Definitions.Board("steps")
	if err != nil {
		return nil, err
	}
	bucket, err := c.Buckets.ForImport(ctx, b, b.Today(time.Now())+models.Date(ago), time.Now())
	if err != nil {
		return nil, err
	}
	then := board.NewStore(e.rdb, keys.Builder{Prefix: e.config.Redis.KeyPrefix}, time.Now, nil).At(bucket.StartsAt)
	rng := mathrand.New(mathrand.NewPCG(5, uint64(-ago)))
	codec := score.Of(bucket)
	entries := make([]models.Entry, e.board)
	for i := range entries {
		composite, err := codec.Encode(int64(rng.IntN(30_000)), models.TimestampOf(bucket.StartsAt)+models.Timestamp(rng.IntN(86_400_000)))
		if err != nil {
			return nil, err
		}
		entries[i] = models.Entry{User: models.RowID(firstUser + i), Composite: composite}
	}
	for chunk := range slices.Chunk(entries, 10_000) {
		raises := make([]models.Raise, len(chunk))
		for i, e := range chunk {
			raises[i] = models.Raise{Bucket: bucket, Entry: e}
		}
		if errs := then.Raise(ctx, raises); errs != nil {
			return nil, errors.Join(errs...)
		}
	}
	return bucket, nil
}

// archiveDay lets the service archive a day and returns how long the run took.
func (e *environment) archiveDay(ctx context.Context, pool *pgxpool.Pool, bucket *models.Bucket) (time.Duration, error) {
	body, err := json.Marshal(map[string]string{"board": bucket.Board, "bucket": bucket.Day.String()})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := e.send(ctx, http.MethodPost, "/v1/admin/archives", auth.ScopeAdmin, body); err != nil {
		return 0, fmt.Errorf("archive %v: %w", bucket.Day, err)
	}
	for {
		var state, why string
		err := pool.QueryRow(ctx, "SELECT state, error FROM board_archives WHERE board = $1 AND bucket = $2 ORDER BY run DESC",
			bucket.Board, bucket.Name).Scan(&state, &why)
		switch {
		case err != nil:
			return 0, err
		case state == "complete":
			return time.Since(start), nil
		case state == "failed":
			return 0, fmt.Errorf("archive %v: %s", bucket.Day, why)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// archiveUnderLoad measures friend rankings at a constant rate, first without other
// load, then while a day is archived.
func (e *environment) archiveUnderLoad(ctx context.Context, pool *pgxpool.Pool, m *archiveResults, ago int) error {
	bucket, err := e.fillDay(ctx, ago)
	if err != nil {
		return err
	}
	calm, err := e.p99Now(ctx, m.rate)
	if err != nil {
		return err
	}
	busy, err := e.p99(ctx, m.rate, func(stop func()) error {
		defer stop()
		_, err := e.archiveDay(ctx, pool, bucket)
		return err
	})
	m.calm, m.busy = append(m.calm, calm), append(m.busy, busy)
	return err
}

// p99Now is p99 for the time of a measurement, whatever else the machine does.
func (e *environment) p99Now(ctx context.Context, rate int) (time.Duration, error) {
	return e.p99(ctx, rate, func(stop func()) error {
		defer stop()
		select {
		case <-ctx.Done():
		case <-time.After(e.seconds):
		}
		return ctx.Err()
	})
}

// p99 reads friend rankings at a constant rate while work runs, whether or not
// earlier ones are answered, and returns the 99th percentile of their latencies.
func (e *environment) p99(ctx context.Context, rate int, work func(stop func()) error) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- work(cancel) }()
	took, err := loadAtRate(ctx, e.service.addr, rankingCallers, rate, e.rankings)
	if err := errors.Join(err, <-worked); err != nil {
		return 0, err
	}
	slices.Sort(took)
	return took[len(took)*99/100], nil
}

// singleClientLatency returns the mean latency of a friend ranking with one client.
func (e *environment) singleClientLatency(ctx context.Context, query string) (time.Duration, error) {
	requests := make([][]byte, e.viewers)
	for v := range requests {
		token, err := e.token(userID(viewer(v)), "")
		if err != nil {
			return 0, err
		}
		requests[v] = e.rankingRequest("steps", token, query)
	}
	if _, err := load(ctx, e.service.addr, 1, e.seconds/2, rotate(requests)); err != nil { // warms up
		return 0, err
	}
	rate, err := load(ctx, e.service.addr, 1, e.seconds, rotate(requests))
	return time.Duration(float64(time.Second) / rate), err
}

func (e *environment) printArchive(ctx context.Context, pool *pgxpool.Pool, m archiveResults) error {
	fmt.Printf("\narchiving a day of %d: %.0f rows a second\n", e.board, float64(e.board)/median(m.service).Seconds())
	fmt.Printf("\npeak resident memory of the service: %d bytes\n", m.peak)
	fmt.Printf("\n| friend rankings | time | ratio |\n| --- | ---: | --- |\n")
	calm, busy := median(m.calm), median(m.busy)
	fmt.Printf("| p99 at %d a second | %v | 1 |\n", m.rate, calm.Round(10*time.Microsecond))
	fmt.Printf("| p99 at %d a second while a day is archived | %v | %.2f |\n", m.rate, busy.Round(10*time.Microsecond), busy.Seconds()/calm.Seconds())
	fmt.Printf("| one client, today | %v | 1 |\n", m.hot.Round(10*time.Microsecond))
	fmt.Printf("| one client, an archived day | %v | %.2f |\n", m.archived.Round(10*time.Microsecond), m.archived.Seconds()/m.hot.Seconds())
	var heap, keys float64
	err := pool.QueryRow(ctx, `
		SELECT sum(pg_relation_size(c.oid))::float8 / sum(c.reltuples), sum(pg_indexes_size(c.oid))::float8 / sum(c.reltuples)
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'archived_scores'::regclass AND c.reltuples > 0`).Scan(&heap, &keys)
	if err != nil {
		return err
	}
	fmt.Printf("\nPostgres, for each user and day: %.0f bytes of rows, %.0f of indexes\n", heap, keys)
	return nil
}
