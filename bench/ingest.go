package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
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
