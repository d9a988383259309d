package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/services/boards/ingest"
)

// newQueue returns the queue of the settings, or nil in direct mode. daysHot is the
// longest time that a day stays in Redis, and room is the Room of a stream.
func newQueue(ctx context.Context, options Options, daysHot int, room func(context.Context) error) (ingest.Queue, error) {
	cfg, log := options.Config, options.Log
	o := cfg.Ingest
	switch o.Mode {
	case "redis":
		server := cfg.Redis
		if ownStream(cfg) {
			server = o.Redis.Server()
		}
		rdb := options.Stores.Queue
		if rdb == nil {
			var err error
			if rdb, err = stores.OpenTracedRedis(server, options.Traces.Provider()); err != nil {
				return nil, fmt.Errorf("ingest.redis: %w", err)
			}
		}
		if err := checkRedis(ctx, rdb, log); err != nil {
			return nil, errors.Join(fmt.Errorf("ingest.redis: %w", err), rdb.Close())
		}
		return ingest.NewStream(rdb, keys.Builder{Prefix: cfg.Redis.KeyPrefix}, ingest.StreamOptions{
			MaxUpdates: o.Redis.MaxUpdates, Keep: o.Redis.Keep, ClaimAfter: o.Redis.ClaimAfter, Room: room, Clock: options.Machine,
		}), nil
	case "kafka":
		queue, err := ingest.NewKafka(ctx, ingest.KafkaOptions{
			Brokers: o.Kafka.Brokers, Topic: o.Kafka.Topic, Group: o.Kafka.Group, TLS: o.Kafka.TLS,
			SASL: o.Kafka.SASL, Username: o.Kafka.Username, Password: o.Kafka.Password,
			ClientID: "stepboard", Retention: time.Duration(daysHot+2) * 24 * time.Hour, Log: log,
		})
		if err != nil {
			return nil, fmt.Errorf("ingest: %w", err)
		}
		return queue, nil
	default:
		return nil, nil //nolint:nilnil // without a queue, updates go straight to the boards
	}
}

// ownStream reports whether the queue is a stream in a Redis of its own, not in
// that of the boards.
func ownStream(cfg config.Config) bool { return len(cfg.Ingest.Redis.Addrs) > 0 }
