package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"stepboard/internal/stores"
	"stepboard/models"
)

// digestFriends is the number of friends of each user who gets a digest.
const digestFriends = 20

// digestBench measures how long the digest of a day takes until a webhook has received all
// of it, and the latency of rankings meanwhile, in turns.
func (e *environment) digestBench(ctx context.Context) (err error) {
	if err := fillFriendships(ctx, e.stores, e.board, spread(digestFriends/2)...); err != nil {
		return err
	}
	saturation, err := e.serviceRanking(ctx)
	if err != nil {
		return err
	}
	rate := max(1, int(saturation/4))
	r, err := startReceiver(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	postgres, err := findPostgres(ctx, e.stores.Pool)
	if err != nil {
		return err
	}
	var spent, sql share
	before := postgres.cpu()
	jobs, err := e.serve(ctx, "digest", "--only=jobs", "--jobs.digest_cron=0 0 * * *", r.flag())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jobs.stop()) }()
	turns, err := e.digestTurns(ctx, rate, jobs, r)
	if err != nil {
		return err
	}
	spent.add(jobs.cpu(), float64(e.board))
	sql.add(postgres.cpu()-before, float64(e.board))
	calm, busy := median(turns.calm), median(turns.busy)
	fmt.Printf("\n| digest | |\n| --- | ---: |\n")
	fmt.Printf("| users, each with %d friends | %d |\n", digestFriends, e.board)
	fmt.Printf("| time until a webhook has received all | %v |\n", turns.worked.Round(time.Second))
	fmt.Printf("| users a second | %.0f |\n", float64(e.board)/turns.worked.Seconds())
	fmt.Printf("| µs of CPU for each user: the process of jobs | %.0f |\n| Postgres | %.0f |\n", spent.each(), sql.each())
	fmt.Printf("\n| friend rankings | time | ratio |\n| --- | ---: | --- |\n")
	fmt.Printf("| p99 at %d a second while the digest stands still, median of %d turns | %v | 1 |\n",
		rate, len(turns.calm), calm.Round(10*time.Microsecond))
	fmt.Printf("| p99 at %d a second during the digest, median of %d turns | %v | %.2f |\n",
		rate, len(turns.busy), busy.Round(10*time.Microsecond), busy.Seconds()/calm.Seconds())
	return nil
}

// turnTimes holds the latencies of rankings in each turn.
type turnTimes struct {
	calm, busy []time.Duration
	worked     time.Duration // how long the digest took, without the calm turns
}

// digestTurns measures friend rankings in turns until the receiver has the digests of all
// users. In each fourth turn the process that makes them is stopped, so that slow minutes of
// the machine count on both sides.
func (e *environment) digestTurns(ctx context.Context, rate int, jobs *process, r *receiver) (turns turnTimes, err error) {
	for turn := 1; r.users.Load() < int64(e.board); turn++ {
		if turn%4 != 0 {
			start := time.Now()
			p99, err := e.p99Now(ctx, rate)
			if err != nil {
				return turns, err
			}
			turns.busy, turns.worked = append(turns.busy, p99), turns.worked+time.Since(start)
			continue
		}
		if err := jobs.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return turns, err
		}
		p99, err := e.p99Now(ctx, rate)
		if err := errors.Join(err, jobs.cmd.Process.Signal(syscall.SIGCONT)); err != nil {
			return turns, err
		}
		turns.calm = append(turns.calm, p99)
	}
	return turns, nil
}

// spread returns n distances between friends, so that each user's friends are far apart.
func spread(n int) []int {
	distances := make([]int, n)
	for i := range distances {
		distances[i] = 1 + 7919*i
	}
	return distances
}

// receiver is a webhook that counts the users of digests.
type receiver struct {
	net.Listener
	users atomic.Int64
}

// startReceiver starts a receiver, which serves until it is closed.
func startReceiver(ctx context.Context) (*receiver, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{Listener: listener}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return r, nil
}

// ServeHTTP accepts an outcome.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var outcome struct {
		Data struct {
			Users []json.RawMessage `json:"users"`
		} `json:"data"`
	}
	if err := errors.Join(err, json.Unmarshal(body, &outcome)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.users.Add(int64(len(outcome.Data.Users)))
}

// flag returns the setting by which a service sends its digests to the receiver.
func (r *receiver) flag() string {
	return fmt.Sprintf("--webhooks=[{url: 'http://%s/', secrets: [whsec_%s], events: [%s], private_network: true}]",
		r.Addr(), base64.StdEncoding.EncodeToString(make([]byte, 32)), models.OutcomeDigestReady)
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
