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
	"stepboard/services/auth"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/score"
)

// archiveRounds is how often a day moves; of each figure the median counts.
const archiveRounds = 3

// moves is what the moves of days have shown.
type moves struct {
	bare, service []time.Duration
	peak          int64
	calm, busy    []time.Duration // p99 of friend rankings
	rate          int             // of these, a second
	hot, archived time.Duration   // of a friend ranking at one client
}

// archiveBench measures the nightly move of a day, and what it means for who
// reads meanwhile.
func (w *setup) archiveBench(ctx context.Context) error {
	saturation, err := w.serviceRanking(ctx)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, w.config.Postgres.DSN)
	if err != nil {
		return err
	}
	defer pool.Close()
	m := moves{rate: max(1, int(saturation/4))}
	var last *models.Bucket
	for round := range archiveRounds {
		bucket, rows, err := w.fillDay(ctx, -10-round)
		if err != nil {
			return err
		}
		last = bucket
		bare, err := bareCopy(ctx, pool, bucket, rows)
		if err != nil {
			return err
		}
		m.bare = append(m.bare, bare)
		moved, err := w.moveDay(ctx, pool, bucket)
		if err != nil {
			return err
		}
		m.service = append(m.service, moved)
	}
	m.peak = w.service.peak()
	for round := range archiveRounds {
		if err := w.moveUnderLoad(ctx, pool, &m, -20-round); err != nil {
			return err
		}
	}
	// A night's vacuum has seen the days before anybody looks at them.
	if _, err := pool.Exec(ctx, "VACUUM ANALYZE archived_scores"); err != nil {
		return err
	}
	if m.hot, err = w.alone(ctx, ""); err != nil {
		return err
	}
	if m.archived, err = w.alone(ctx, "&date="+last.Day.String()); err != nil {
		return err
	}
	return w.printMoves(ctx, pool, m)
}

// dayRow is one row of a day.
type dayRow struct {
	user, score, reachedAt, rank int64
}

// fillDay puts a whole day into Redis, so many days from today, as its
// uploads would have, and answers its rows by user.
func (w *setup) fillDay(ctx context.Context, ago int) (*models.Bucket, []dayRow, error) {
	c := catalog.New(catalog.NewStore(w.stores.Gorm), time.Now, w.config.HotDays, w.log())
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
	then := board.NewStore(w.rdb, keys.Builder{Prefix: w.config.Redis.KeyPrefix}, func() time.Time { return bucket.StartsAt })
	rng := mathrand.New(mathrand.NewPCG(5, uint64(-ago)))
	codec := score.Of(bucket)
	entries := make([]models.Entry, w.board)
	for i := range entries {
		composite, err := codec.Encode(int64(rng.IntN(30_000)), models.TimestampOf(bucket.StartsAt)+models.Timestamp(rng.IntN(86_400_000)))
		if err != nil {
			return nil, nil, err
		}
		entries[i] = models.Entry{User: models.UserID(firstUser + i), Composite: composite}
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

// bareCopy stores the rows under another board's name, by one COPY of bytes
// that were made before.
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
	if err := makeMonth(ctx, conn, bucket.Day); err != nil {
		return 0, err
	}
	start := time.Now()
	_, err = conn.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(buf),
		"COPY archived_scores (user_id, score, reached_at, rank, day, board) FROM STDIN (FORMAT binary)")
	return time.Since(start), err
}

// makeMonth makes the partition of a day, as the service would.
func makeMonth(ctx context.Context, conn *pgxpool.Conn, day models.Date) error {
	t := day.UTC()
	first := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	_, err := conn.Exec(ctx, fmt.Sprintf("CREATE TABLE IF NOT EXISTS archived_scores_%s PARTITION OF archived_scores FOR VALUES FROM ('%s') TO ('%s')",
		first.Format("200601"), first.Format(time.DateOnly), first.AddDate(0, 1, 0).Format(time.DateOnly)))
	return err
}

// moveDay lets the service move a day and tells how long its run took.
func (w *setup) moveDay(ctx context.Context, pool *pgxpool.Pool, bucket *models.Bucket) (time.Duration, error) {
	token, err := w.token(1, auth.ScopeAdmin)
	if err != nil {
		return 0, err
	}
	body, err := json.Marshal(map[string]string{"board": bucket.Board, "bucket": bucket.Day.String()})
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.service.addr+"/v1/admin/archives", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	start := time.Now()
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	if err := res.Body.Close(); err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusAccepted {
		return 0, fmt.Errorf("archive %v: %s", bucket.Day, res.Status)
	}
	for {
		var state, why string
		err := pool.QueryRow(ctx, "SELECT state, error FROM board_archives WHERE board = $1 AND bucket = $2 ORDER BY run DESC", bucket.Board, bucket.Name).Scan(&state, &why)
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

// moveUnderLoad reads friend rankings at a constant rate, first while nothing
// else happens, then while a day moves.
func (w *setup) moveUnderLoad(ctx context.Context, pool *pgxpool.Pool, m *moves, ago int) error {
	bucket, _, err := w.fillDay(ctx, ago)
	if err != nil {
		return err
	}
	calm, err := w.p99(ctx, m.rate, func(stop func()) error {
		defer stop()
		select {
		case <-ctx.Done():
		case <-time.After(w.seconds):
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	busy, err := w.p99(ctx, m.rate, func(stop func()) error {
		defer stop()
		_, err := w.moveDay(ctx, pool, bucket)
		return err
	})
	m.calm, m.busy = append(m.calm, calm), append(m.busy, busy)
	return err
}

// p99 reads friend rankings at a constant rate, whether or not they are
// answered in time, while work is done, and tells the 99th percentile of how
// long they took.
func (w *setup) p99(ctx context.Context, rate int, work func(stop func()) error) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- work(cancel) }()
	took, err := steady(ctx, w.service.addr, 32, rate, w.rankings)
	if err := errors.Join(err, <-worked); err != nil {
		return 0, err
	}
	slices.Sort(took)
	return took[len(took)*99/100], nil
}

// alone is how long a friend ranking takes where nobody else asks: the median.
func (w *setup) alone(ctx context.Context, query string) (time.Duration, error) {
	requests := make([][]byte, w.viewers)
	for v := range requests {
		token, err := w.token(viewer(v), "")
		if err != nil {
			return 0, err
		}
		requests[v] = w.rankingRequest("steps", token, query)
	}
	if _, err := load(ctx, w.service.addr, 1, w.seconds/2, rotate(requests)); err != nil { // warm
		return 0, err
	}
	rate, err := load(ctx, w.service.addr, 1, w.seconds, rotate(requests))
	return time.Duration(float64(time.Second) / rate), err
}

func (w *setup) printMoves(ctx context.Context, pool *pgxpool.Pool, m moves) error {
	rate := func(d time.Duration) float64 { return float64(w.board) / d.Seconds() }
	bare, service := median(m.bare), median(m.service)
	fmt.Printf("\n| moving a day of %d | rows a second | ratio |\n| --- | ---: | --- |\n", w.board)
	fmt.Printf("| bare COPY, rows made before and sorted by key | %.0f | 1 |\n", rate(bare))
	fmt.Printf("| Stepboard, from Redis, verified | %.0f | %.2f |\n", rate(service), rate(service)/rate(bare))
	fmt.Printf("\nresident memory of the service at most: %d bytes\n", m.peak)
	fmt.Printf("\n| friend rankings | time | ratio |\n| --- | ---: | --- |\n")
	calm, busy := median(m.calm), median(m.busy)
	fmt.Printf("| p99 at %d a second | %v | 1 |\n", m.rate, calm.Round(10*time.Microsecond))
	fmt.Printf("| p99 at %d a second while a day moves | %v | %.2f |\n", m.rate, busy.Round(10*time.Microsecond), busy.Seconds()/calm.Seconds())
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
	fmt.Printf("\nPostgres, for each user and day: %.0f bytes of rows, %.0f of keys\n", heap, keys)
	return nil
}
