package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stepboard/config"
	"stepboard/internal/stores"
)

// startRounds is how often the service is started on each amount of data. The
// medians are printed.
const startRounds = 10

// startup holds the times that starts on one amount of data took.
type startup struct {
	users     int
	flags     []string
	wall, cpu []time.Duration
}

// startBench measures how long the service takes to become ready, with few and with
// many users, each on their own Redis.
func (e *environment) startBench(ctx context.Context) (err error) {
	server, err := startRedis(ctx, e.folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	few, err := e.fillFew(ctx, server.addr)
	if err != nil {
		return err
	}
	if err := fillFriendships(ctx, e.stores, e.board, 1); err != nil {
		return err
	}
	sizes := []*startup{
		{users: costSmallest, flags: append(e.flags(), "--redis.addrs="+server.addr, "--postgres.dsn="+few)},
		{users: e.board, flags: e.flags()},
	}
	for range startRounds {
		for _, b := range sizes {
			if err := b.start(ctx, e.folder); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n| start of the service, until it is ready | time | ratio | its CPU | ratio |\n| --- | ---: | ---: | ---: | ---: |\n")
	for _, b := range sizes {
		wall, cpu := median(b.wall), median(b.cpu)
		fmt.Printf("| %d users with a score, a name and friends | %v | %.2f | %v | %.2f |\n", b.users,
			wall.Round(100*time.Microsecond), float64(wall)/float64(median(sizes[0].wall)),
			cpu.Round(100*time.Microsecond), float64(cpu)/float64(median(sizes[0].cpu)))
	}
	return nil
}

// fillFew fills another Redis and another schema with few users, and returns the
// schema's DSN.
func (e *environment) fillFew(ctx context.Context, redisAddr string) (dsn string, err error) {
	cfg := e.config
	cfg.Boards = slices.Clone(config.Default().Boards)
	cfg.Redis.Addrs = []string{redisAddr}
	if cfg.Postgres.DSN, err = createSchema(ctx, os.Getenv("TEST_POSTGRES_DSN"), "bench_"+strings.ToLower(rand.Text()[:8])); err != nil {
		return "", err
	}
	st, err := stores.Open(ctx, cfg, time.Now, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if _, err := st.Migrate(ctx); err != nil {
		return "", err
	}
	a, err := e.open(ctx, cfg)
	if err != nil {
		return "", err
	}
	err = errors.Join(fillBoard(ctx, a, "steps", costSmallest), a.Close(), fillUsers(ctx, st, costSmallest), fillFriendships(ctx, st, costSmallest, 1))
	return cfg.Postgres.DSN, err
}

// fillFriendships makes every user a friend of those at each of the distances ahead, with
// the last user before the first one.
func fillFriendships(ctx context.Context, st *stores.Stores, users int, distances ...int) error {
	err := pgx.BeginFunc(ctx, st.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil { // a million users take minutes
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO friendships (user_id, friend_id, created_at)
			SELECT $1::bigint + side[1], $1 + side[2], now()
			FROM generate_series(0, $2::bigint - 1) AS i, unnest($3::bigint[]) AS distance,
				LATERAL (VALUES (ARRAY[i, (i + distance) % $2]), (ARRAY[(i + distance) % $2, i])) AS sides (side)
			ORDER BY 1, 2
			ON CONFLICT DO NOTHING`, firstUser, users, distances)
		return err
	})
	if err != nil {
		return err
	}
	_, err = st.Pool.Exec(ctx, "VACUUM ANALYZE friendships")
	return err
}

// start starts the service, waits until it is ready, and kills it, so that its CPU
// time is that of starting.
func (s *startup) start(ctx context.Context, folder string) (err error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(folder, "start.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	cmd := exec.Command(filepath.Join(folder, "stepboard"), append(slices.Clone(s.flags), "--http.addr="+addr)...)
	cmd.Stderr = log
	from := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	readyErr := awaitReady(ctx, addr)
	s.wall = append(s.wall, time.Since(from))
	killErr, waitErr := cmd.Process.Kill(), cmd.Wait()
	if err := errors.Join(readyErr, killErr); err != nil {
		return err
	}
	// The exit error is expected, because the service was killed.
	var killed *exec.ExitError
	if !errors.As(waitErr, &killed) {
		return fmt.Errorf("the service ended by itself: %w", waitErr)
	}
	s.cpu = append(s.cpu, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	return nil
}

// awaitReady polls readiness, over a new connection each time.
func awaitReady(ctx context.Context, addr string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: startTimeout}
	return await(ctx, "the service is ready", func() (bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			return false, err
		}
		res, err := client.Do(r)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
}
