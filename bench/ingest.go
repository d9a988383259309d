package main

import (
	"bytes"
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"

	"stepboard/internal/pause"
	"stepboard/services/platform/auth"
)

// ingestBench measures uploads in each ingest mode.
func (e *environment) ingestBench(ctx context.Context) {
	const topic = "bench"
	broker := must(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, topic)))
	defer broker.Close()
	batches := e.batchRequests("steps", func(s userScore) any { return s.score })
	single, batch := []*row{}, []*row{{name: "go-redis loop of variadic ZADD GT", measure: e.bareBatches}}
	for _, mode := range []struct {
		name  string
		flags []string
	}{
		{"direct", nil},
		{"redis", []string{"--ingest.mode=redis"}},
		{"kafka", []string{"--ingest.mode=kafka", "--ingest.kafka.topic=" + topic, "--ingest.kafka.brokers=" + strings.Join(broker.ListenAddrs(), ",")}},
	} {
		p := e.serve(ctx, mode.name, mode.flags...)
		defer p.stop()
		// Each process looks up the row ids of all uploaders.
		askOnce(ctx, p, e.uploads)
		askOnce(ctx, p, batches)
		name := fmt.Sprintf("one a request, %d connections: %s", uploadCallers, mode.name)
		single = append(single, e.loadRow(name, p, uploadCallers, 1, rotate(e.uploads)))
		name = fmt.Sprintf("%d a request, %d connections: %s", batchScores, batchCallers, mode.name)
		batch = append(batch, e.loadRow(name, p, batchCallers, batchScores, rotate(batches)))
	}
	for _, rows := range [][]*row{single, batch} {
		for _, r := range rows {
			r.base = rows[0]
		}
	}
	e.printTable(ctx, "uploads", append(single, batch...)...)
}

// bareBatches sends the ZADD commands of the batch calls and nothing else: the same
// scores of the same users, to the service's own board, because a copy would be
// laid out better in memory. The composites are as long as the service's.
func (e *environment) bareBatches(ctx context.Context) float64 {
	var commands [][]any
	for _, scores := range e.randomBatches() {
		command := []any{"zadd", e.keys.board, "gt"}
		for _, s := range scores {
			command = append(command, s.score<<28, s.user)
		}
		commands = append(commands, command)
	}
	return batchScores * loop(ctx, batchCallers, e.seconds, func(ctx context.Context, i int) error {
		return e.rdb.Do(ctx, commands[i%len(commands)]...).Err()
	})
}

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
	// idDigits is the number of digits of an event id.
	idDigits = 12
)

// ledgerBench measures increments, beside uploads, which touch no database.
func (e *environment) ledgerBench(ctx context.Context) {
	token := e.token("1", auth.ScopeService)
	var ids atomic.Int64
	upload := e.loadRow(fmt.Sprintf("daily upload: one a request, %d connections", uploadCallers), e.service, uploadCallers, 1, rotate(e.uploads))
	rows := []*row{upload}
	for _, board := range []struct{ kind, name string }{{"event", "gifts"}, {"rolling", "active"}} {
		for _, call := range []struct{ increments, callers int }{{1, uploadCallers}, {ledgerList, ledgerCallers}} {
			name := fmt.Sprintf("%s: %d a request, %d connections", board.kind, call.increments, call.callers)
			r := e.loadRow(name, e.service, call.callers, call.increments, e.increments(&ids, board.name, token, call.increments))
			r.base = upload
			rows = append(rows, r)
		}
	}
	rows = append(rows, e.besideAStopped(rows[1], e.increments(&ids, "gifts", token, 1)))
	e.printTable(ctx, "increments", rows...)
	e.ledgerBytes(ctx)
}

// besideAStopped returns a row of increments, compared with a base, while another process that counts increments of the
// same users stands still, perhaps within a transaction. Refused increments don't count.
func (e *environment) besideAStopped(base *row, next func() []byte) *row {
	answered := func(ctx context.Context, p *process) float64 {
		return rateOf(ctx, uploadCallers, e.seconds, func(ctx context.Context, done func()) error {
			for ctx.Err() == nil {
				_ = sendRequests(ctx, p.addr, next, done) // it ends with the first that is refused
			}
			return nil
		})
	}
	measure := func(ctx context.Context) float64 {
		other := e.serve(ctx, "other")
		defer other.stop()
		var working sync.WaitGroup
		defer working.Wait()
		before, cancel := context.WithCancel(ctx)
		defer cancel()
		working.Go(func() { answered(before, other) })
		check(pause.For(ctx, e.seconds/4))
		cancel()
		check(other.cmd.Process.Signal(syscall.SIGSTOP))
		defer func() { check(other.cmd.Process.Signal(syscall.SIGCONT)) }()
		return answered(ctx, e.service)
	}
	return &row{name: base.name + ", beside a stopped process", base: base, process: e.service, measure: measure}
}

// ledgerBytes prints the disk space of increments in Postgres.
func (e *environment) ledgerBytes(ctx context.Context) {
	var events, totals float64
	check(e.stores.Pool.QueryRow(ctx, `
		SELECT pg_total_relation_size('score_events')::float8 / (SELECT count(*) FROM score_events),
			pg_total_relation_size('score_totals')::float8 / (SELECT count(*) FROM score_totals)`).Scan(&events, &totals))
	fmt.Printf("\nPostgres, with indexes: %.0f bytes for each increment, %.0f for each running total\n", events, totals)
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
