package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stepboard/internal/pause"
)

const (
	// nearBoard has a change stream.
	nearBoard = "near"
	// nearStaleness is how old its rankings may be.
	nearStaleness = time.Second
	// nearMemory holds today's and tomorrow's scores of a million users, and the circles
	// of the fewest viewers, but not of the most.
	nearMemory = "40 MB"
	// nearFewest and nearMost are the numbers of viewers that are measured.
	nearFewest, nearMost = 300, 100_000
	// nearConnections is the number of concurrent requests. With a fourth of them the client
	// and the service wait for each other: the cores of both are idle for a seventh of the time.
	nearConnections = 128
	// nearStreams is the number of live rankings that are open at the same time.
	nearStreams = 1000
	// nearUploaders is how many users upload.
	nearUploaders = 20_000
)

// nearBench compares rankings from the memory of the process with rankings from Redis
// and with the commands alone, and uploads with and without a change stream.
func (e *environment) nearBench(ctx context.Context) (err error) {
	if _, err := e.fillBoard(ctx, nearBoard, 0); err != nil {
		return err
	}
	plain, err := e.serve(ctx, "plain")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.stop()) }()
	near, err := e.serve(ctx, "near", "--rankings.max_staleness="+nearStaleness.String(), "--rankings.memory="+nearMemory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, near.stop()) }()
	viewers := []int{nearFewest, min(nearMost, e.board)}
	if err := e.storeFriendSets(ctx, viewers[1]); err != nil {
		return err
	}
	copied, err := awaitCopy(ctx, near)
	if err != nil {
		return err
	}
	fmt.Printf("\na copy of the board in the memory of a process: %.1f bytes a user\n", copied/float64(e.board))
	if err := e.nearRankings(ctx, plain, near, viewers); err != nil {
		return err
	}
	if err := e.nearUploads(ctx, near); err != nil {
		return err
	}
	return e.nearLive(ctx, plain, near)
}

// awaitCopy waits until the process has copied the board, and returns the bytes of the copy.
func awaitCopy(ctx context.Context, near *process) (copied float64, err error) {
	for err == nil {
		var unproven float64
		if unproven, err = metric(ctx, near, "stepboard_near_cache_unproven_seconds"); err != nil {
			break
		}
		if copied, err = metric(ctx, near, "stepboard_near_cache_bytes"); err != nil || unproven == 0 && copied > 0 {
			break
		}
		err = pause.For(ctx, 100*time.Millisecond)
	}
	return copied, err
}

// metric reads a metric of a process.
func metric(ctx context.Context, p *process, name string) (value float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, errors.Join(fmt.Errorf("there is no metric %s", name), lines.Err())
}

// nearRankings prints the rates of rankings, and their latencies at half of them.
func (e *environment) nearRankings(ctx context.Context, plain, near *process, viewers []int) error {
	var rows []*row
	add := func(r, base *row) *row {
		r.base = base
		// The row before has left other people in the process.
		r.prepare = func(ctx context.Context) error { _, err := r.measure(ctx); return err }
		rows = append(rows, r)
		return r
	}
	loops := make(map[int]*row)
	for _, n := range viewers {
		loops[n] = add(e.redisRow(fmt.Sprintf("go-redis loop, %d viewers", n), nearConnections, n), nil)
	}
	requests := make(map[*row][][]byte) // of the rows with the fewest viewers
	for _, page := range []int{50, 200} {
		all, err := e.friendRequests(nearBoard, 0, viewers[1], page, "")
		if err != nil {
			return err
		}
		for _, from := range []struct {
			name string
			*process
		}{{"Redis", plain}, {"memory", near}} {
			// Every name that a ranking needs gets into Redis.
			if err := askOnce(ctx, from.process, all); err != nil {
				return err
			}
			for _, n := range viewers {
				name := fmt.Sprintf("%d rows, from %s, %d viewers", page, from.name, n)
				r := add(e.loadRow(name, from.process, nearConnections, 1, rotate(all[:n])), loops[n])
				if n == viewers[0] {
					requests[r] = all[:n]
				}
			}
		}
	}
	if err := e.printTable(ctx, fmt.Sprintf("friend ranking, %d friends", e.friends), rows...); err != nil {
		return err
	}
	return e.printSlowest(ctx, "friend ranking", rows, requests)
}

// printSlowest prints the p99 of those rows that have requests, at half of the rates that they
// have reached.
func (e *environment) printSlowest(ctx context.Context, what string, rows []*row, requests map[*row][][]byte) error {
	slowest := make(map[*row][]time.Duration)
	for range e.rounds {
		for r, list := range requests {
			if r.prepare != nil {
				if err := r.prepare(ctx); err != nil {
					return err
				}
			}
			took, err := latencies(ctx, r.process, nearConnections, int(r.median()/2), list, e.wait)
			if err != nil {
				return err
			}
			slowest[r] = append(slowest[r], p99(took))
		}
	}
	fmt.Printf("\n| %s, at half the rate above | p99 |\n| --- | ---: |\n", what)
	for _, r := range rows {
		if took := slowest[r]; took != nil {
			fmt.Printf("| %s | %v |\n", r.name, median(took).Round(10*time.Microsecond))
		}
	}
	return nil
}

// nearUploads prints the rates of uploads, all of which raise a score, to a board with
// a change stream that is followed and to one without.
func (e *environment) nearUploads(ctx context.Context, near *process) error {
	var sent atomic.Int64
	var rows []*row
	for _, kind := range []struct {
		connections, scores int
		requests            func(board string) ([][]byte, error)
	}{
		{uploadCallers, 1, e.risingUploads},
		{batchCallers, batchScores, func(board string) ([][]byte, error) {
			return e.batchRequests(board, func(userScore) any { return scorePlace })
		}},
	} {
		var first *row
		for _, board := range []string{"steps", nearBoard} {
			requests, err := kind.requests(board)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%d a request, %d connections: %s", kind.scores, kind.connections, board)
			r := e.loadRow(name, near, kind.connections, kind.scores, rising(requests, &sent))
			r.base, first = first, cmp.Or(first, r)
			rows = append(rows, r)
		}
	}
	return e.printTable(ctx, "uploads that raise a score; board "+nearBoard+" has a change stream", rows...)
}

// risingUploads returns an upload of each of many users, for rising.
func (e *environment) risingUploads(board string) ([][]byte, error) {
	requests := make([][]byte, min(nearUploaders, e.board))
	for v := range requests {
		token, err := e.token(userID(viewer(v)), "")
		if err != nil {
			return nil, err
		}
		requests[v] = uploadRequest(board, token, scorePlace)
	}
	return requests, nil
}

// nearLive prints the processor time of live rankings.
func (e *environment) nearLive(ctx context.Context, plain, near *process) error {
	fmt.Printf("\n| %d live rankings of %d friends | Redis, cores | server | ratio |\n| --- | ---: | ---: | ---: |\n", nearStreams, e.friends)
	var base float64
	for _, from := range []struct {
		name string
		*process
	}{{"Redis", plain}, {"memory", near}} {
		redis, server, err := e.liveCost(ctx, from.process)
		if err != nil {
			return err
		}
		base = cmp.Or(base, redis+server)
		fmt.Printf("| from %s | %.3f | %.3f | %.2f |\n", from.name, redis, server, (redis+server)/base)
	}
	return nil
}

// liveCost returns how many cores Redis and a process use for live rankings.
func (e *environment) liveCost(ctx context.Context, p *process) (redis, server float64, err error) {
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	if err := e.openStreams(streaming, p.addr); err != nil {
		return 0, 0, err
	}
	beforeRedis, beforeServer, begin := e.redisServer.cpu(), p.cpu(), time.Now()
	err = pause.For(ctx, 3*e.seconds)
	took := time.Since(begin).Seconds()
	return (e.redisServer.cpu() - beforeRedis).Seconds() / took, (p.cpu() - beforeServer).Seconds() / took, err
}

// openStreams opens live rankings of different viewers, which are read until ctx ends.
func (e *environment) openStreams(ctx context.Context, addr string) error {
	var opening errgroup.Group
	opening.SetLimit(nearConnections)
	for v := range nearStreams {
		opening.Go(func() error {
			token, err := e.token(userID(viewer(v)), "")
			if err != nil {
				return err
			}
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			if _, err := conn.Write(httpRequest("GET", "/v1/boards/"+nearBoard+"/friends/stream?limit=50", token, "")); err != nil {
				return err
			}
			in := bufio.NewReader(conn)
			status, err := in.ReadString('\n')
			if err == nil && !strings.Contains(status, " 200 ") {
				err = fmt.Errorf("a stream is answered %q", strings.TrimSpace(status))
			}
			go func() { _, _ = io.Copy(io.Discard, in) }()
			return err
		})
	}
	return opening.Wait()
}
