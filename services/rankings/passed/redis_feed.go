package passed

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/platform/changes"
)

// FollowEvery is how often a process looks for notices of others.
const FollowEvery = 2 * time.Second

// RedisFeed is a feed of notices by all processes on a Redis. They are in a stream of changes, which
// is written while some process follows it. Follow must be called repeatedly, by one caller at a time.
type RedisFeed struct {
	*Feed

	follower changes.Follower[struct{}, *notice]
	streams  []*changes.Stream[struct{}, *notice] // one
	found    []*notice                            // by the present call of Follow
}

// NewRedisFeed returns a feed. elapsed is the clock that ages are measured by.
func NewRedisFeed(
	rdb redis.UniversalClient, names keys.Builder, users models.Finder, render Render, elapsed models.Clock, log *slog.Logger,
) *RedisFeed {
	f := &RedisFeed{Feed: newFeed(users, render, log)}
	f.publish = func(ctx context.Context, notices []*notice) error { return appendAll(ctx, rdb, names, notices) }
	f.follower = changes.Follower[struct{}, *notice]{
		Source: changes.Reader[struct{}, *notice]{
			Redis: rdb, Key: func(struct{}) string { return names.PassedChanges() },
			First: func() []byte { return []byte(rand.Text()) },
			Decode: func(entry changes.Place) (*notice, error) {
				n := new(notice)
				return n, json.Unmarshal([]byte(entry.Content), n)
			},
		},
		Elapsed: elapsed, Count: changes.PageSize,
		Failed: func(ctx context.Context, _ struct{}, err error) {
			log.WarnContext(ctx, "notices of passing can't be read", "error", err)
		},
	}
	f.streams = append(f.streams, f.follower.Stream(struct{}{}, f))
	return f
}

// appendAll appends notices to the stream if somebody follows it. One round trip.
func appendAll(ctx context.Context, rdb redis.UniversalClient, names keys.Builder, notices []*notice) error {
	pipe := rdb.Pipeline()
	cmds := make([]*redis.StringCmd, len(notices))
	for i, n := range notices {
		text, err := json.Marshal(n)
		if err != nil {
			return err
		}
		cmds[i] = pipe.XAdd(ctx, &redis.XAddArgs{Stream: names.PassedChanges(), NoMkStream: true, Values: []any{changes.Field, text}})
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) { // Nil: nobody follows it
			return err
		}
	}
	return nil
}

// Follow sends the notices that have come since it was called last to their streams. One round trip.
func (f *RedisFeed) Follow(ctx context.Context) error {
	var reads sync.WaitGroup
	f.found = nil
	f.follower.Poll(ctx, f.streams, &reads)
	reads.Wait()
	f.deliver(ctx, f.found)
	return nil
}

// Begin implements changes.Copy. What was told before is not told again.
func (f *RedisFeed) Begin(changes.Place) error { return nil }

// Apply implements changes.Copy.
func (f *RedisFeed) Apply(page changes.Page[*notice], _ time.Time) error {
	f.found = append(f.found, page.Entries...)
	return nil
}

// Drop implements changes.Copy. What is lost is not told.
func (f *RedisFeed) Drop(error) {}
