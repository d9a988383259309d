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

	"stepboard/models"
)

const (
	// digestFriends is the number of friends of each user who gets a digest.
	digestFriends = 20
	// likers is the number of friends who like one user's score.
	likers = 1000
)

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

// likesBench measures how many likes a second one popular user's score is given, by users
// who like it, take that back, and like it again.
func (e *environment) likesBench(ctx context.Context) error {
	postgres, err := findPostgres(ctx, e.stores.Pool)
	if err != nil {
		return err
	}
	popular := viewer(e.viewers)
	_, err = e.stores.Pool.Exec(ctx, `
		INSERT INTO friendships (user_id, friend_id, created_at)
		SELECT * FROM (
			SELECT $1::bigint, i, now() FROM generate_series($2::bigint, $2 + $3 - 1) AS i
			UNION ALL SELECT i, $1::bigint, now() FROM generate_series($2::bigint, $2 + $3 - 1) AS i
		) AS sides ON CONFLICT DO NOTHING`, popular, popular+1, likers)
	if err != nil {
		return err
	}
	requests := make([][]byte, 0, 2*likers)
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		for i := range likers {
			token, err := e.token(userID(popular+1+models.RowID(i)), "")
			if err != nil {
				return err
			}
			requests = append(requests, httpRequest(method, "/v1/boards/steps/likes/"+string(userID(popular)), token, ""))
		}
	}
	next := rotate(requests)
	r := row{name: "likes given or taken back", process: e.service, postgres: postgres, measure: func(ctx context.Context) (float64, error) {
		return load(ctx, e.service.addr, 64, e.seconds, next)
	}}
	for range e.rounds {
		if err := r.run(ctx, e); err != nil {
			return fmt.Errorf("likes: %w", err)
		}
	}
	fmt.Printf("\n| %d friends of one user | a second | Redis, µs of CPU each | server | Postgres | client |\n", likers)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: |")
	fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f | %.0f |\n",
		r.name, r.median(), r.redis.each(), r.server.each(), r.sql.each(), r.client.each())
	return nil
}
