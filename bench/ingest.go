package main

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"stepboard/services/platform/auth"
)

const (
	// batchScores is the number of scores of a batch call.
	batchScores = 1000
	// batchCallers is the number of concurrent batch calls.
	batchCallers = 8
)

// ingestBench measures uploads in each ingest mode.
func (e *environment) ingestBench(ctx context.Context) (err error) {
	const topic = "bench"
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, topic))
	if err != nil {
		return err
	}
	defer broker.Close()
	modes := []*mode{
		{name: "direct", process: e.service},
		{name: "redis", flags: []string{"--ingest.mode=redis"}},
		{name: "kafka", flags: []string{"--ingest.mode=kafka", "--ingest.kafka.topic=" + topic, "--ingest.kafka.brokers=" + strings.Join(broker.ListenAddrs(), ",")}},
	}
	for _, m := range modes[1:] {
		if m.process, err = e.serve(ctx, m.name, m.flags...); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.process.stop()) }()
	}
	single := make([]row, len(modes))
	for i, m := range modes {
		single[i] = row{name: m.name, process: m.process, measure: func(ctx context.Context) (float64, error) {
			return load(ctx, m.process.addr, 64, e.seconds, rotate(e.uploads))
		}}
	}
	bodies, err := e.batches()
	if err != nil {
		return err
	}
	bare := row{name: "go-redis loop of variadic ZADD GT", measure: e.bareBatches}
	batch := make([]row, len(modes))
	for i, m := range modes {
		batch[i] = row{name: m.name, process: m.process, measure: func(ctx context.Context) (float64, error) {
			calls, err := load(ctx, m.process.addr, batchCallers, e.seconds, rotate(bodies))
			return calls * batchScores, err
		}}
	}
	rows := slices.Concat(single, []row{bare}, batch)
	for _, m := range modes { // each process looks up the row ids of all uploaders
		if err := errors.Join(e.askOnce(ctx, m.process.addr, e.uploads), e.askOnce(ctx, m.process.addr, bodies)); err != nil {
			return err
		}
	}
	for range e.rounds {
		for i := range rows {
			if err := rows[i].run(ctx, e); err != nil {
				return fmt.Errorf("%s: %w", rows[i].name, err)
			}
		}
	}
	direct, loop := rows[0].median(), rows[len(single)].median()
	fmt.Printf("\n| uploads | scores a second | ratio | Redis, µs of CPU each | server | client |\n| --- | ---: | --- | ---: | ---: | ---: |\n")
	for i, r := range rows {
		what, ratio := "one a request, 64 connections: "+r.name, r.median()/direct
		if i >= len(single) {
			what, ratio = fmt.Sprintf("%d a request, %d connections: %s", batchScores, batchCallers, r.name), r.median()/loop
		}
		fmt.Printf("| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n", what, r.median(), ratio, r.redis.each(), r.server.each(), r.client.each())
	}
	return nil
}

// mode is an ingest mode and a service that uses it.
type mode struct {
	name    string
	flags   []string
	process *process
}

// serve starts another service on the run's stores.
func (e *environment) serve(ctx context.Context, name string, more ...string) (*process, error) {
	log, err := os.Create(filepath.Join(e.folder, name+".log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(e.folder, "stepboard"), append(e.flags(), more...)...)
	cmd.Stderr = log
	return startProcess(cmd, func() (string, error) { return awaitServing(ctx, log.Name()) })
}

// batches returns batch uploads of a trusted backend.
func (e *environment) batches() ([][]byte, error) {
	token, err := e.token("1", auth.ScopeService)
	if err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		return nil, err
	}
	today := time.Now().In(zone).Format(time.DateOnly)
	requests := make([][]byte, 64)
	for i, scores := range e.randomBatches(len(requests)) {
		items := make([]string, len(scores))
		for j, s := range scores {
			items[j] = fmt.Sprintf(`{"user_id":"%d","date":%q,"score":%d}`, s.user, today, s.score)
		}
		requests[i] = httpRequest("POST", "/v1/boards/steps/scores/batch", token, `{"scores":[`+strings.Join(items, ",")+`]}`)
	}
	return requests, nil
}

// userScore is one score of a batch.
type userScore struct{ user, score int64 }

// randomBatches returns n batches, the same ones in every call.
func (e *environment) randomBatches(n int) [][]userScore {
	rng := mathrand.New(mathrand.NewPCG(7, 8))
	batches := make([][]userScore, n)
	for i := range batches {
		batches[i] = make([]userScore, batchScores)
		for j := range batches[i] {
			batches[i][j] = userScore{user: int64(firstUser + rng.IntN(e.board)), score: int64(30_000 + rng.IntN(1000))}
		}
	}
	return batches
}

// bareBatches sends the ZADD commands of the batch calls and nothing else: the same
// scores of the same users, to the service's own board, because a copy would be
// laid out better in memory. The composites are as long as the service's.
func (e *environment) bareBatches(ctx context.Context) (float64, error) {
	commands := make([][]any, 64)
	for i, scores := range e.randomBatches(len(commands)) {
		commands[i] = []any{"zadd", e.keys.board, "gt"}
		for _, s := range scores {
			commands[i] = append(commands[i], s.score<<28, s.user)
		}
	}
	rate, err := loop(ctx, batchCallers, e.seconds, func(ctx context.Context, i int) error {
		return e.rdb.Do(ctx, commands[i%len(commands)]...).Err()
	})
	return rate * batchScores, err
}
