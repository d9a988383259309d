package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stepboard/config"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

const (
	// nearBoard has a change stream.
	nearBoard = "near"
	// nearStaleness is how old its rankings may be.
	nearStaleness = time.Second
	// nearMemory holds today's and tomorrow's scores of a million users, and the circles
	// of the fewest viewers, but not of the most.
	nearMemory = "40 MB"
	// nearConnections is the number of concurrent requests. With a fourth of them the client
	// and the service wait for each other: the cores of both are idle for a seventh of the time.
	nearConnections = 128
	// nearStreams is the number of live rankings that are open at the same time.
	nearStreams = 1000
	// nearUploaders is how many users upload.
	nearUploaders = 20_000
)

// nearViewers are the numbers of viewers that are measured.
var nearViewers = []int{300, 100_000}

// nearBench compares rankings from the memory of the process with rankings from Redis
// and with the commands alone, and uploads with and without a change stream.
func (e *environment) nearBench(ctx context.Context) (err error) {
	a, err := e.open(ctx, e.nearConfig())
	if err != nil {
		return err
	}
	if err := errors.Join(fillBoard(ctx, a, nearBoard, e.board), a.Close()); err != nil {
		return err
	}
	flags := []string{"--limits.streams_per_address=0"}
	plain, err := e.serve(ctx, "plain", flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.stop()) }()
	near, err := e.serve(ctx, "near", append(flags, "--rankings.max_staleness="+nearStaleness.String(), "--rankings.memory="+nearMemory)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, near.stop()) }()
	viewers := slices.Clone(nearViewers)
	viewers[len(viewers)-1] = min(viewers[len(viewers)-1], e.board)
	if err := e.storeFriendSets(ctx, viewers[len(viewers)-1]); err != nil {
		return err
	}
	if err := e.awaitCopy(ctx, near); err != nil {
		return err
	}
	copied, err := metric(ctx, near, "stepboard_near_cache_bytes")
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

// nearConfig returns the run's settings with the boards of flags.
func (e *environment) nearConfig() config.Config {
	cfg := e.config
	board := cfg.Boards[0]
	board.Name, board.ChangeStream = nearBoard, true
	cfg.Boards = []config.Board{cfg.Boards[0], board}
	return cfg
}

// awaitCopy waits until the process has copied the board.
func (e *environment) awaitCopy(ctx context.Context, near *process) error {
	for {
		unproven, err := metric(ctx, near, "stepboard_near_cache_unproven_seconds")
		if err != nil {
			return err
		}
		answers, err := metric(ctx, near, "stepboard_near_cache_bytes")
		if err != nil || unproven == 0 && answers > 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
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
func (e *environment) nearRankings(ctx context.Context, plain, near *process, viewers []int) (err error) {
	var rows []*nameRow
	requests := make(map[int][][]byte) // by page
	for _, n := range viewers {
		rows = append(rows, e.newLoopRow(nearConnections, n))
	}
	for _, page := range []int{50, 200} {
		all, err := e.friendRequests(nearBoard, viewers[len(viewers)-1], page)
		if err != nil {
			return err
		}
		requests[page] = all
		for _, p := range []struct {
			*process
			from string
		}{{plain, "Redis"}, {near, "memory"}} {
			// Every name that a ranking needs gets into Redis.
			if err := e.askOnce(ctx, p.addr, all); err != nil {
				return err
			}
			for _, n := range viewers {
				next := rotate(all[:n])
				rows = append(rows, &nameRow{viewers: n, row: row{
					name: fmt.Sprintf("%d rows of %d, from %s", page, e.friends, p.from), process: p.process,
					measure: func(ctx context.Context) (float64, error) {
						return load(ctx, p.addr, nearConnections, e.seconds, next)
					},
				}})
			}
		}
	}
	for range e.rounds {
		for _, r := range rows {
			// The row before has left other people in the process.
			if _, err := r.measure(ctx); err != nil {
				return err
			}
			if err := r.run(ctx, e); err != nil {
				return fmt.Errorf("%s, %d viewers: %w", r.name, r.viewers, err)
			}
		}
	}
	fmt.Printf("\n| friend ranking, %d friends, board of %d | viewers | a second | of the loop | Redis, µs of CPU each | server | client |\n", e.friends, e.board)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	loops := make(map[int]float64)
	for _, r := range rows {
		if loops[r.viewers] == 0 {
			loops[r.viewers] = r.median()
		}
		fmt.Printf("| %s | %d | %.0f | %.2f | %.0f | %.0f | %.0f |\n",
			r.name, r.viewers, r.median(), r.median()/loops[r.viewers], r.redis.each(), r.server.each(), r.client.each())
	}
	return e.nearLatency(ctx, rows, requests, viewers[0])
}

// nearLatency prints the latencies of rankings of the fewest viewers at half of the
// rate that each row has reached: the medians of the rounds.
func (e *environment) nearLatency(ctx context.Context, rows []*nameRow, requests map[int][][]byte, viewers int) error {
	fmt.Printf("\n| friend ranking, %d viewers, at half the rate above | a second | p50 | p99 |\n| --- | ---: | ---: | ---: |\n", viewers)
	rows = slices.DeleteFunc(slices.Clone(rows), func(r *nameRow) bool { return r.process == nil || r.viewers != viewers })
	half, most := make([][]time.Duration, len(rows)), make([][]time.Duration, len(rows))
	for range e.rounds {
		for i, r := range rows {
			// The row before has left other people in the process.
			if _, err := r.measure(ctx); err != nil {
				return err
			}
			page := 50
			if strings.HasPrefix(r.name, "200 ") {
				page = 200
			}
			timed, cancel := context.WithTimeout(ctx, e.seconds)
			took, err := loadAtRate(timed, r.process.addr, nearConnections, int(r.median()/2), requests[page][:viewers])
			cancel()
			if err != nil {
				return err
			}
			slices.Sort(took)
			half[i], most[i] = append(half[i], took[len(took)/2]), append(most[i], took[len(took)*99/100])
		}
	}
	for i, r := range rows {
		fmt.Printf("| %s | %.0f | %v | %v |\n", r.name, r.median()/2,
			median(half[i]).Round(10*time.Microsecond), median(most[i]).Round(10*time.Microsecond))
	}
	return nil
}

// nearUploads prints the rates of uploads, all of which raise a score, to a board with
// a change stream that is followed and to one without.
func (e *environment) nearUploads(ctx context.Context, near *process) error {
	var sent atomic.Int64
	rows := make([]row, 0, 4)
	for _, board := range []string{"steps", nearBoard} {
		next, err := e.risingUploads(board, &sent)
		if err != nil {
			return err
		}
		rows = append(rows, row{name: "one a request, 64 connections: " + board, process: near, measure: func(ctx context.Context) (float64, error) {
			return load(ctx, near.addr, 64, e.seconds, next)
		}})
	}
	for _, board := range []string{"steps", nearBoard} {
		next, err := e.risingBatches(board, &sent)
		if err != nil {
			return err
		}
		rows = append(rows, row{
			name: fmt.Sprintf("%d a request, %d connections: %s", batchScores, batchCallers, board), process: near,
			measure: func(ctx context.Context) (float64, error) {
				calls, err := load(ctx, near.addr, batchCallers, e.seconds, next)
				return calls * batchScores, err
			},
		})
	}
	for range e.rounds {
		for i := range rows {
			if err := rows[i].run(ctx, e); err != nil {
				return fmt.Errorf("%s: %w", rows[i].name, err)
			}
		}
	}
	fmt.Printf("\n| uploads that raise a score; board %s has a change stream | scores a second | ratio | Redis, µs of CPU each | server | client |\n", nearBoard)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: |")
	for i, r := range rows {
		fmt.Printf("| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n",
			r.name, r.median(), r.median()/rows[i-i%2].median(), r.redis.each(), r.server.each(), r.client.each())
	}
	return nil
}

// nearLive prints the processor time of live rankings.
func (e *environment) nearLive(ctx context.Context, plain, near *process) error {
	fmt.Printf("\n| %d live rankings of %d friends | Redis, cores | server | ratio |\n| --- | ---: | ---: | ---: |\n", nearStreams, e.friends)
	var base float64
	for _, p := range []struct {
		*process
		from string
	}{{plain, "Redis"}, {near, "memory"}} {
		streaming, stop := context.WithCancel(ctx)
		err := e.openStreams(streaming, p.addr)
		if err != nil {
			stop()
			return err
		}
		beforeRedis, beforeServer := e.redisServer.cpu(), p.cpu()
		begin := time.Now()
		select {
		case <-ctx.Done():
		case <-time.After(3 * e.seconds):
		}
		took := time.Since(begin).Seconds()
		redis, server := (e.redisServer.cpu()-beforeRedis).Seconds()/took, (p.cpu()-beforeServer).Seconds()/took
		stop()
		if base == 0 {
			base = redis + server
		}
		fmt.Printf("| from %s | %.3f | %.3f | %.2f |\n", p.from, redis, server, (redis+server)/base)
	}
	return ctx.Err()
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

// Scores that are uploaded begin behind those that the board is filled with, and have
// scoreDigits digits.
const (
	firstScore  = 30_000
	scoreDigits = 5
)

// risingUploads returns a source of uploads of many users, each of which raises the
// user's score.
func (e *environment) risingUploads(board string, sent *atomic.Int64) (func() []byte, error) {
	users := min(nearUploaders, e.board)
	templates := make([][]byte, users)
	placeholder := strings.Repeat("#", scoreDigits)
	for v := range templates {
		token, err := e.token(userID(viewer(v)), "")
		if err != nil {
			return nil, err
		}
		templates[v] = httpRequest("POST", "/v1/boards/"+board+"/scores", token, fmt.Sprintf(`{"date":%q,"score":%s}`, e.today(), placeholder))
	}
	return func() []byte {
		n := int(sent.Add(1))
		return withScore(templates[n%users], placeholder, n/users)
	}, nil
}

// risingBatches is risingUploads for batches of a trusted backend.
func (e *environment) risingBatches(board string, sent *atomic.Int64) (func() []byte, error) {
	token, err := e.token("1", auth.ScopeService)
	if err != nil {
		return nil, err
	}
	placeholder := strings.Repeat("#", scoreDigits)
	templates := make([][]byte, 64)
	for i, scores := range e.randomBatches(len(templates)) {
		items := make([]string, len(scores))
		for j, s := range scores {
			items[j] = fmt.Sprintf(`{"user_id":"%d","date":%q,"score":%s}`, s.user, e.today(), placeholder)
		}
		templates[i] = httpRequest("POST", "/v1/boards/"+board+"/scores/batch", token, `{"scores":[`+strings.Join(items, ",")+`]}`)
	}
	return func() []byte {
		n := int(sent.Add(1))
		return withScore(templates[n%len(templates)], placeholder, n/len(templates))
	}, nil
}

// withScore returns the request with every placeholder replaced by a score, which is
// the larger the more raises there were before.
func withScore(template []byte, placeholder string, raises int) []byte {
	text := strconv.AppendInt(nil, firstScore+int64(raises), 10)
	request := slices.Clone(template)
	for at := 0; ; {
		i := bytes.Index(request[at:], []byte(placeholder))
		if i < 0 {
			return request
		}
		at += i
		copy(request[at:], text)
	}
}

func (e *environment) today() models.Date {
	return models.DateOf(time.Now().In(time.FixedZone("Asia/Shanghai", 8*3600)))
}
