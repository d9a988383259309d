package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

// ingestBench measures uploads in each ingest mode.
func (e *environment) ingestBench(ctx context.Context) (err error) {
	const topic = "bench"
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(8, topic))
	if err != nil {
		return err
	}
	defer broker.Close()
	batches, err := e.batchRequests("steps", func(s userScore) any { return s.score })
	if err != nil {
		return err
	}
	single, batch := []*row{}, []*row{{name: "go-redis loop of variadic ZADD GT", measure: e.bareBatches}}
	for _, mode := range []struct {
		name  string
		flags []string
	}{
		{"direct", nil},
		{"redis", []string{"--ingest.mode=redis"}},
		{"kafka", []string{"--ingest.mode=kafka", "--ingest.kafka.topic=" + topic, "--ingest.kafka.brokers=" + strings.Join(broker.ListenAddrs(), ",")}},
	} {
		p, err := e.serve(ctx, mode.name, mode.flags...)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.stop()) }()
		// Each process looks up the row ids of all uploaders.
		if err := errors.Join(askOnce(ctx, p, e.uploads), askOnce(ctx, p, batches)); err != nil {
			return err
		}
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
	return e.printTable(ctx, "uploads", append(single, batch...)...)
}

// bareBatches sends the ZADD commands of the batch calls and nothing else: the same
// scores of the same users, to the service's own board, because a copy would be
// laid out better in memory. The composites are as long as the service's.
func (e *environment) bareBatches(ctx context.Context) (float64, error) {
	var commands [][]any
	for _, scores := range e.randomBatches() {
		command := []any{"zadd", e.keys.board, "gt"}
		for _, s := range scores {
			command = append(command, s.score<<28, s.user)
		}
		commands = append(commands, command)
	}
	rate, err := loop(ctx, batchCallers, e.seconds, func(ctx context.Context, i int) error {
		return e.rdb.Do(ctx, commands[i%len(commands)]...).Err()
	})
	return rate * batchScores, err
}
