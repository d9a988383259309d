package cache

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/platform/changes"
)

// The streams of changes name each set before and after its change. They are written
// only while somebody follows them: a stream that does not exist is not written to, and
// one that nobody keeps expires.
//
// An entry follows what it reports: the mark that keeps the sets from being stored, the
// removal of the sets, the new generation. So a set that was read in Redis after
// the entry was read is not the one from before the change.

// queueAppend queues an entry of a stream, which is not written if the stream does not
// exist.
func (s *Store) queueAppend(ctx context.Context, pipe redis.Pipeliner, stream int, entry []byte) {
	pipe.XAdd(ctx, &redis.XAddArgs{
		Stream: s.keys.SetsChanges(stream), NoMkStream: true, Values: []any{changes.Field, entry},
	})
}

// queueChanged queues an entry for each stream and kind that has some of the sets.
func (s *Store) queueChanged(ctx context.Context, pipe redis.Pipeliner, sets []Set) {
	type entry struct {
		stream int
		kind   keys.Sets
	}
	owners := make(map[entry][]int64)
	for _, of := range sets {
		e := entry{s.streamOf(keys.StripeOf(of.Owner)), of.Kind}
		owners[e] = append(owners[e], of.Owner)
	}
	for e, named := range owners {
		s.queueAppend(ctx, pipe, e.stream, encodeChanged(e.kind, named))
	}
}

// queueDropped queues an entry for each stream that has some of the stripes.
func (s *Store) queueDropped(ctx context.Context, pipe redis.Pipeliner, stripes []int) {
	queued := make(map[int]bool)
	for _, stripe := range stripes {
		if stream := s.streamOf(stripe); !queued[stream] {
			queued[stream] = true
			s.queueAppend(ctx, pipe, stream, newEntry(entryDropped, 0))
		}
	}
}

// execAppends executes a pipeline with entries of streams, some of which may not exist.
func execAppends(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if err == nil || !errors.Is(err, redis.Nil) {
		return err
	}
	for _, cmd := range cmds { // Nil is no error, but may have come before one
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// NewCircles returns an empty near cache of the sets of a store over the same client, whose copies
// are at most so stale. memory returns how many bytes all copies may take, which may change; it
// must be quick. elapsed is the clock that ages are measured by: time.Now, whose differences are
// those of the monotonic clock, except in tests.
func NewCircles(
	rdb redis.UniversalClient, names keys.Builder, staleness time.Duration, memory func() int64,
	elapsed models.Clock, log *slog.Logger,
) *Circles {
	return newCircles(changesOf(rdb, names), streamsOf(rdb), staleness, memory, elapsed, log)
}

// streamsOf returns the number of streams of changes. In a cluster each stripe has one.
func streamsOf(rdb redis.UniversalClient) int {
	if _, ok := rdb.(*redis.ClusterClient); ok {
		return keys.Stripes
	}
	return 1
}

// changesOf returns the reader of the streams of changes, which are numbered from 0. Another
// server than before may lack entries that were not read yet, so servers are identified.
func changesOf(rdb redis.UniversalClient, names keys.Builder) changes.Reader[int, Changed] {
	return changes.Reader[int, Changed]{
		Redis: rdb, Key: names.SetsChanges, Identified: true,
		First: func() []byte { return newEntry(entryBegan, 0) },
		Decode: func(entry changes.Place) (Changed, error) {
			sets, dropped := decodeEntry(entry.Content)
			return Changed{Sets: sets, Dropped: dropped}, nil
		},
	}
}
