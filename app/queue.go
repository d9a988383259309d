package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/services/ingest"
)

// writeBatch is how many updates one write gathers, to the queue or to the
// boards: about a millisecond of Redis.
const writeBatch = 1000

const (
	// uploadWriters is how many writes of users' uploads may run at the same
	// time. With one, the next write is larger for having waited.
	uploadWriters = 1
	// batchWriters is how many writes of batches may run at the same time. They
	// are large by themselves: while Redis executes one, the next is encoded.
	batchWriters = 2
)

// newQueue makes the queue of the settings; nil in direct mode.
func newQueue(ctx context.Context, opts Options) (ingest.Queue, error) {
	cfg, log := opts.Config, opts.Log
	o := cfg.Ingest
	switch o.Mode {
	case "redis":
		server := cfg.Redis
		if len(o.Redis.Addrs) > 0 {
			server = o.Redis.Server()
		}
		rdb, err := stores.OpenTracedRedis(server, opts.Traces.Provider())
		if err != nil {
			return nil, fmt.Errorf("ingest.redis: %w", err)
		}
		if err := checkRedis(ctx, rdb, log); err != nil {
			return nil, errors.Join(fmt.Errorf("ingest.redis: %w", err), rdb.Close())
		}
		return ingest.NewStream(rdb, keys.Builder{Prefix: cfg.Redis.KeyPrefix}, ingest.StreamOptions{
			MaxUpdates: o.Redis.MaxUpdates, Keep: o.Redis.Keep, ClaimAfter: o.Redis.ClaimAfter,
		}), nil
	case "kafka":
		queue, err := ingest.NewKafka(ctx, ingest.KafkaOptions{
			Brokers: o.Kafka.Brokers, Topic: o.Kafka.Topic, Group: o.Kafka.Group, TLS: o.Kafka.TLS,
			SASL: o.Kafka.SASL, Username: o.Kafka.Username, Password: o.Kafka.Password,
			ClientID: "stepboard", Retention: time.Duration(cfg.HotDays+2) * 24 * time.Hour, Log: log,
		})
		if err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
		return queue, nil
	default:
		return nil, nil //nolint:nilnil // without a queue, updates go straight to the boards
	}
}

// newConsumer makes what applies the queue's updates.
func (a *App) newConsumer(o Options, deadLetters ingest.DeadLetterWriter) *ingest.Consumer {
	return ingest.NewConsumer(ingest.ConsumerOptions{
		Queue: a.queue, Buckets: a.Catalog.Buckets, Boards: a.Boards, DeadLetters: deadLetters,
		Clock: o.Clock, Log: o.Log, Interval: o.Config.Ingest.FlushInterval, Batch: o.Config.Ingest.BatchSize, Registry: a.registry,
	})
}
