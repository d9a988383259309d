package main

import (
	"bytes"
	"context"
	"encoding/binary"
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
	bare, service []time.Duration
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
		bucket, rows, err := e.fillDay(ctx, -10-round)
		if err != nil {
			return err
		}
		last = bucket
		bare, err := bareCopy(ctx, pool, bucket, rows)
		if err != nil {
			return err
		}
		m.bare = append(m.bare, bare)
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

// dayRow is one row of a day.
type dayRow struct {
	user, score, reachedAt, rank int64
}

// fillDay writes a whole day into Redis, as its uploads would have, and returns its
// bucket and its rows, sorted by user. ago is the offset from today in days.
func (e *environment) fillDay(ctx context.Context, ago int) (*models.Bucket, []dayRow, error) {
	c := catalog.New(catalog.NewStore(e.stores.Gorm), time.Now, e.config.HotDays, e.log())
	if err := c.Definitions.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	b, err := c.Definitions.Board("steps")
	if err != nil {
		return nil, nil, err
	}
	bucket, err := c.Buckets.ForImport(ctx, b, b.Today(time.Now())+models.Date(ago), time.Now())
	if err != nil {
		return nil, nil, err
	}
	then := board.NewStore(e.rdb, keys.Builder{Prefix: e.config.Redis.KeyPrefix}, time.Now, nil).At(bucket.StartsAt)
	rng := mathrand.New(mathrand.NewPCG(5, uint64(-ago)))
	codec := score.Of(bucket)
	entries := make([]models.Entry, e.board)
	for i := range entries {
		composite, err := codec.Encode(int64(rng.IntN(30_000)), models.TimestampOf(bucket.StartsAt)+models.Timestamp(rng.IntN(86_400_000)))
		if err != nil {
			return nil, nil, err
		}
		entries[i] = models.Entry{User: models.RowID(firstUser + i), Composite: composite}
	}
	for chunk := range slices.Chunk(entries, 10_000) {
		raises := make([]models.Raise, len(chunk))
		for i, e := range chunk {
			raises[i] = models.Raise{Bucket: bucket, Entry: e}
		}
		if errs := then.Raise(ctx, raises); errs != nil {
			return nil, nil, errors.Join(errs...)
		}
	}
	slices.SortFunc(entries, models.Entry.Compare)
	rows := make([]dayRow, len(entries))
	for i, e := range entries {
		points, at := codec.Decode(e.Composite)
		rows[i] = dayRow{int64(e.User), points, int64(at), int64(i + 1)}
	}
	slices.SortFunc(rows, func(a, b dayRow) int { return int(a.user - b.user) })
	return bucket, rows, nil
}

// bareCopy stores the rows under another board's name, by one COPY of bytes that
// are encoded before the measurement.
func bareCopy(ctx context.Context, pool *pgxpool.Pool, bucket *models.Bucket, rows []dayRow) (time.Duration, error) {
	const board = "stepz" // as long as the other
	days := int32(bucket.Day) - 10_957
	buf := []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	for _, r := range rows {
		buf = binary.BigEndian.AppendUint16(buf, 6)
		for _, field := range []int64{r.user, r.score, (r.reachedAt - 946_684_800_000) * 1000} {
			buf = binary.BigEndian.AppendUint32(buf, 8)
			buf = binary.BigEndian.AppendUint64(buf, uint64(field))
		}
		for _, field := range []int32{int32(r.rank), days} {
			buf = binary.BigEndian.AppendUint32(buf, 4)
			buf = binary.BigEndian.AppendUint32(buf, uint32(field))
		}
		buf = binary.BigEndian.AppendUint32(buf, uint32(len(board)))
		buf = append(buf, board...)
	}
	buf = append(buf, 0xff, 0xff)
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	if err := createPartition(ctx, conn, bucket.Day); err != nil {
		return 0, err
	}
	start := time.Now()
	_, err = conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(buf),
		"COPY archived_scores (user_id, score, reached_at, rank, day, board) FROM STDIN (FORMAT binary)")
	return time.Since(start), err
}

// createPartition creates the partition of a day, as the service would.
func createPartition(ctx context.Context, conn *pgxpool.Conn, day models.Date) error {
	t := day.UTC()
	first := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	_, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE IF NOT EXISTS archived_scores_%s PARTITION OF archived_scores FOR VALUES FROM ('%s') TO ('%s')",
		first.Format("200601"), first.Format(time.DateOnly), first.AddDate(0, 1, 0).Format(time.DateOnly)))
	return err
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
	bucket, _, err := e.fillDay(ctx, ago)
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
	rate := func(d time.Duration) float64 { return float64(e.board) / d.Seconds() }
	bare, service := median(m.bare), median(m.service)
	fmt.Printf("\n| archiving a day of %d | rows a second | ratio |\n| --- | ---: | --- |\n", e.board)
	fmt.Printf("| bare COPY, rows encoded before and sorted by key | %.0f | 1 |\n", rate(bare))
	fmt.Printf("| Stepboard, from Redis, verified | %.0f | %.2f |\n", rate(service), rate(service)/rate(bare))
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
