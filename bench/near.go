package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	// slowly is how often until asks a process that is busy.
	slowly = 100 * time.Millisecond
	// nearStreams is the number of live rankings that are open at the same time.
	nearStreams = 1000
)

// nearBench compares rankings from the memory of the process with rankings from Redis
// and with the commands alone, and uploads with and without a change stream.
func (e *environment) nearBench(ctx context.Context) {
	viewers := []int{nearFewest, min(nearMost, e.board)}
	forms := e.serveNear(ctx, viewers[1], "--rankings.memory="+nearMemory)
	defer forms.stop()
	copied := metric(ctx, forms.memory(), "stepboard_near_cache_bytes")
	fmt.Printf("\na copy of the board in the memory of a process: %.1f bytes a user\n", copied/float64(e.board))
	e.nearRankings(ctx, forms, viewers)
	e.nearUploads(ctx, forms.memory())
	e.nearLive(ctx, forms)
}

// nearForms are two services of the same board: one reads rankings from Redis, the other from its
// memory.
type nearForms [2]struct {
	name    string
	process *process
}

func (f nearForms) memory() *process { return f[1].process }

func (f nearForms) stop() {
	for _, from := range f {
		from.process.stop()
	}
}

// serveNear fills the board, stores the friend sets of a number of viewers, and starts both services,
// the one with a memory with flags. It has copied the board.
func (e *environment) serveNear(ctx context.Context, viewers int, flags ...string) (forms nearForms) {
	e.fillBoard(ctx, nearBoard, 0)
	forms[0].name, forms[0].process = "Redis", e.serve(ctx, "plain")
	forms[1].name, forms[1].process = "memory", e.serve(ctx, "near", append(flags, "--rankings.max_staleness="+nearStaleness.String())...)
	e.storeFriendSets(ctx, viewers)
	near := forms.memory()
	until(ctx, slowly, func() bool {
		return metric(ctx, near, "stepboard_near_cache_unproven_seconds") == 0 && metric(ctx, near, "stepboard_near_cache_bytes") > 0
	})
	return forms
}

// metric reads a metric of a process.
func metric(ctx context.Context, p *process, name string) float64 {
	answer := must(send(ctx, p, http.MethodGet, "/metrics", "", http.NoBody))
	defer answer.Close()
	lines := bufio.NewScanner(answer)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return must(strconv.ParseFloat(text, 64))
		}
	}
	check(errors.Join(fmt.Errorf("there is no metric %s", name), lines.Err()))
	return 0
}

// nearRankings prints the rates of rankings, and their latencies at half of them.
func (e *environment) nearRankings(ctx context.Context, forms nearForms, viewers []int) {
	var rows []*row
	add := func(r, base *row) *row {
		r.base = base
		// The row before has left other people in the process.
		r.prepare = func(ctx context.Context) { r.measure(ctx) }
		rows = append(rows, r)
		return r
	}
	loops := make(map[int]*row)
	for _, n := range viewers {
		loops[n] = add(e.redisRow(fmt.Sprintf("go-redis loop, %d viewers", n), nearConnections, n), nil)
	}
	requests := make(map[*row][][]byte) // of the rows with the fewest viewers
	for _, page := range []int{50, 200} {
		all := e.friendRequests(nearBoard, 0, viewers[1], page, "")
		for _, from := range forms {
			// Every name that a ranking needs gets into Redis.
			askOnce(ctx, from.process, all)
			for _, n := range viewers {
				name := fmt.Sprintf("%d rows, from %s, %d viewers", page, from.name, n)
				r := add(e.loadRow(name, from.process, nearConnections, 1, rotate(all[:n])), loops[n])
				if n == viewers[0] {
					requests[r] = all[:n]
				}
			}
		}
	}
	e.printTable(ctx, fmt.Sprintf("friend ranking, %d friends", e.friends), rows...)
	e.printSlowest(ctx, "friend ranking", rows, requests)
}

// printSlowest prints the p99 of those rows that have requests, at half of the rates that they
// have reached.
func (e *environment) printSlowest(ctx context.Context, what string, rows []*row, requests map[*row][][]byte) {
	slowest := make(map[*row][]time.Duration)
	for range e.rounds {
		for r, list := range requests {
			if r.prepare != nil {
				r.prepare(ctx)
			}
			slowest[r] = append(slowest[r], p99(latencies(ctx, r.process, nearConnections, int(r.median()/2), list, e.wait)))
		}
	}
	fmt.Printf("\n| %s, at half the rate above | p99 |\n| --- | ---: |\n", what)
	for _, r := range rows {
		if took := slowest[r]; took != nil {
			fmt.Printf("| %s | %v |\n", r.name, median(took).Round(10*time.Microsecond))
		}
	}
}

// nearUploads prints the rates of uploads, all of which raise a score, to a board with
// a change stream that is followed and to one without.
func (e *environment) nearUploads(ctx context.Context, near *process) {
	var sent atomic.Int64
	var rows []*row
	for _, kind := range []struct {
		connections, scores int
		requests            func(board string) [][]byte
	}{
		{uploadCallers, 1, e.risingUploads},
		{batchCallers, batchScores, e.risingBatches},
	} {
		var first *row
		for _, board := range []string{"steps", nearBoard} {
			name := fmt.Sprintf("%d a request, %d connections: %s", kind.scores, kind.connections, board)
			r := e.loadRow(name, near, kind.connections, kind.scores, rising(kind.requests(board), &sent))
			r.base, first = first, cmp.Or(first, r)
			rows = append(rows, r)
		}
	}
	e.printTable(ctx, "uploads that raise a score; board "+nearBoard+" has a change stream", rows...)
}

// nearLive prints the processor time of live rankings.
func (e *environment) nearLive(ctx context.Context, forms nearForms) {
	fmt.Printf("\n| %d live rankings of %d friends | Redis, cores | server | ratio |\n| --- | ---: | ---: | ---: |\n", nearStreams, e.friends)
	var base float64
	for _, from := range forms {
		streaming, stop := context.WithCancel(ctx)
		e.openStreams(streaming, from.process)
		beforeRedis, beforeServer, begin := e.redisServer.cpu(), from.process.cpu(), time.Now()
		check(pause.For(ctx, 3*e.seconds))
		took := time.Since(begin).Seconds()
		redis, server := (e.redisServer.cpu()-beforeRedis).Seconds()/took, (from.process.cpu()-beforeServer).Seconds()/took
		stop()
		base = cmp.Or(base, redis+server)
		fmt.Printf("| from %s | %.3f | %.3f | %.2f |\n", from.name, redis, server, (redis+server)/base)
	}
}

// openStreams opens live rankings of different viewers, which are read until ctx ends.
func (e *environment) openStreams(ctx context.Context, p *process) {
	var opening errgroup.Group
	opening.SetLimit(nearConnections)
	for v := range nearStreams {
		token := e.token(userID(viewer(v)), "")
		opening.Go(func() error {
			stream, err := send(ctx, p, http.MethodGet, "/v1/boards/"+nearBoard+"/friends/stream?limit=50", token, http.NoBody)
			if err == nil {
				go func() {
					_, _ = io.Copy(io.Discard, stream)
					_ = stream.Close()
				}()
			}
			return err
		})
	}
	check(opening.Wait())
}

// ranksViewers is how many viewers ask for their rank. The circles of all fit into memory.
const ranksViewers = 20_000

// ranksBench compares me, top and around from the memory of the process with those from Redis,
// and uploads with and without a change stream while the order of the board is kept.
func (e *environment) ranksBench(ctx context.Context) {
	viewers := min(ranksViewers, e.board)
	forms := e.serveNear(ctx, viewers)
	defer forms.stop()
	var rows []*row
	requests := make(map[*row][][]byte)
	for _, path := range []string{"me", "top?limit=50", "around?radius=25"} {
		all := e.viewerRequests(fmt.Sprintf("/v1/boards/%s/%s", nearBoard, path), 0, viewers)
		var first *row
		for _, from := range forms {
			// Names and circles get into memory, and the first question begins the order.
			askOnce(ctx, from.process, all)
			r := e.loadRow(path+", from "+from.name, from.process, nearConnections, 1, rotate(all))
			r.base, first = first, r
			// The row before has left other people in the process.
			r.prepare = func(ctx context.Context) { r.measure(ctx) }
			rows, requests[r] = append(rows, r), all
		}
	}
	near := forms.memory()
	until(ctx, slowly, func() bool { return metric(ctx, near, "stepboard_near_cache_orders_total") > 0 })
	bytes := metric(ctx, near, "stepboard_near_cache_order_bytes")
	fmt.Printf("\nthe order of the board in the memory of a process: %.1f bytes a user\n", bytes/float64(e.board))
	title := fmt.Sprintf("ranks of %d viewers with %d friends, board of %d", viewers, e.friends, e.board)
	e.printTable(ctx, title, rows...)
	e.printSlowest(ctx, "ranks", rows, requests)
	e.nearUploads(ctx, near)
}
