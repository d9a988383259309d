package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// replayBatch is how many messages Replay passes on together.
	replayBatch = 5000
	// replayWait is how long Replay waits for records before it checks whether
	// any are left. replayStalls is how many times in a row it may wait without
	// any progress.
	replayWait   = time.Second
	replayStalls = 30

	// offsetTimeout bounds the requests for a topic's offsets.
	offsetTimeout = 5 * time.Second
	// ageFirst is the first age that Lag asks about, ageMost the last.
	ageFirst = time.Second
	ageMost  = 64 * 24 * time.Hour
)

// Replay is part of Queue. It reads with a client of its own, outside any
// group. Its memory is bounded as that of Receive is.
func (k *Kafka) Replay(ctx context.Context, since time.Time, apply func(context.Context, []Message) error) error {
	left, from, err := k.replayRange(ctx, since)
	if err != nil {
		return fmt.Errorf("find the offsets to replay: %w", err)
	}
	if len(left) == 0 {
		return nil
	}
	reader, err := k.connect(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.options.Topic: from}),
		// Markers of transactions show the reader's progress, too.
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(replayWait),
	)
	if err != nil {
		return err
	}
	defer reader.Close()
	for stalls := 0; len(left) > 0; {
		messages, moved, err := k.readReplay(ctx, reader, left)
		if err != nil {
			return fmt.Errorf("read the topic: %w", err)
		}
		if len(messages) > 0 {
			if err := apply(ctx, messages); err != nil {
				return err
			}
		}
		if moved {
			stalls = 0
			continue
		}
		if stalls++; stalls > replayStalls {
			return fmt.Errorf("read the topic: no more records arrive from partitions %v", slices.Sorted(maps.Keys(left)))
		}
		if err := k.dropDeleted(ctx, left); err != nil {
			return fmt.Errorf("find the records that are left: %w", err)
		}
	}
	return nil
}

// replayRange returns where each partition ends and begins. Partitions without
// records to replay are left out. Two or three requests to each broker.
func (k *Kafka) replayRange(ctx context.Context, since time.Time) (ends map[int32]int64, from map[int32]kgo.Offset, err error) {
	ctx, cancel := context.WithTimeout(ctx, offsetTimeout)
	defer cancel()
	if ends, err = k.offsets(k.admin.ListEndOffsets(ctx, k.options.Topic)); err != nil {
		return nil, nil, err
	}
	starts, err := k.startOffsets(ctx, since)
	if err != nil {
		return nil, nil, err
	}
	from = make(map[int32]kgo.Offset, len(ends))
	for p, end := range ends {
		start, ok := starts[p]
		if !ok || start >= end {
			delete(ends, p)
			continue
		}
		from[p] = kgo.NewOffset().At(start)
	}
	return ends, from, nil
}

// startOffsets returns the offset of each partition's first record of a moment
// or later, or its end offset if it has none. The zero time means the first
// record. One request to each broker.
func (k *Kafka) startOffsets(ctx context.Context, since time.Time) (map[int32]int64, error) {
	if since.IsZero() {
		return k.offsets(k.admin.ListStartOffsets(ctx, k.options.Topic))
	}
	return k.offsets(k.admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), k.options.Topic))
}

// offsets returns the topic's offsets by partition.
func (k *Kafka) offsets(listed kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	offsets := make(map[int32]int64, len(listed[k.options.Topic]))
	for p, o := range listed[k.options.Topic] {
		offsets[p] = o.Offset
	}
	return offsets, nil
}

// readReplay reads a batch and removes partitions from left that are read to
// their end. moved is false if no records arrived.
func (k *Kafka) readReplay(ctx context.Context, reader *kgo.Client, left map[int32]int64) (messages []Message, moved bool, err error) {
	polling, cancel := context.WithTimeout(ctx, replayWait)
	defer cancel()
	got := reader.PollRecords(polling, replayBatch)
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if err := k.failure(polling, got); err != nil {
		return nil, false, err
	}
	messages = make([]Message, 0, got.NumRecords())
	for r := range got.RecordsAll() {
		end, ok := left[r.Partition]
		if !ok {
			continue
		}
		moved = true
		if r.Offset < end && !r.Attrs.IsControl() {
			messages = append(messages, messageOf(r))
		}
		if r.Offset+1 >= end {
			delete(left, r.Partition)
			reader.PauseFetchPartitions(map[string][]int32{k.options.Topic: {r.Partition}})
		}
	}
	return messages, moved, nil
}

// dropDeleted removes partitions from left whose records were all deleted
// meanwhile. A reader would wait for these in vain.
func (k *Kafka) dropDeleted(ctx context.Context, left map[int32]int64) error {
	ctx, cancel := context.WithTimeout(ctx, offsetTimeout)
	defer cancel()
	starts, err := k.startOffsets(ctx, time.Time{})
	if err != nil {
		return err
	}
	maps.DeleteFunc(left, func(p int32, end int64) bool { return starts[p] >= end })
	return nil
}

// Lag is part of Queue. It counts the records behind the committed offsets,
// also if no consumer runs. The age of the oldest is exact to an eighth, and to
// a quarter of a second; see oldest. Three requests to each broker and, if any
// records wait, some five more; fifteen if they have waited for weeks.
func (k *Kafka) Lag(ctx context.Context) (Lag, error) {
	ctx, cancel := context.WithTimeout(ctx, offsetTimeout)
	defer cancel()
	committed, err := k.admin.FetchOffsets(ctx, k.options.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return Lag{}, fmt.Errorf("read committed offsets: %w", err)
	}
	starts, err := k.startOffsets(ctx, time.Time{})
	if err != nil {
		return Lag{}, fmt.Errorf("read first offsets: %w", err)
	}
	ends, err := k.offsets(k.admin.ListEndOffsets(ctx, k.options.Topic))
	if err != nil {
		return Lag{}, fmt.Errorf("read last offsets: %w", err)
	}
	var lag Lag
	behind := make(map[int32]int64)
	for p, end := range ends {
		next := starts[p] // without a commit, or if later records were deleted, too
		if c, ok := committed.Lookup(k.options.Topic, p); ok {
			if c.Err != nil {
				return Lag{}, fmt.Errorf("read the committed offset of partition %d: %w", p, c.Err)
			}
			next = max(next, c.At)
		}
		if next < end {
			lag.Messages += end - next
			behind[p] = next
		}
	}
	if len(behind) == 0 {
		return lag, nil
	}
	if lag.Oldest, err = k.oldest(ctx, behind); err != nil {
		return Lag{}, fmt.Errorf("find the oldest message: %w", err)
	}
	return lag, nil
}

// oldest returns about how long the oldest of the given records has waited. It
// reads no record: brokers know the first record of any moment or later, so it
// searches for the age. It multiplies an age by four until no record is older,
// then bisects.
func (k *Kafka) oldest(ctx context.Context, behind map[int32]int64) (time.Duration, error) {
	now := time.Now() // the clock of records
	older := func(age time.Duration) (bool, error) {
		first, err := k.startOffsets(ctx, now.Add(-age))
		if err != nil {
			return false, err
		}
		for p, at := range behind {
			if first[p] > at {
				return true, nil
			}
		}
		return false, nil
	}
	var under time.Duration
	over := ageFirst
	for over < ageMost {
		yes, err := older(over)
		if err != nil {
			return 0, err
		}
		if !yes {
			break
		}
		under, over = over, 4*over
	}
	for over-under > max(over/8, ageFirst/4) {
		middle := under + (over-under)/2
		yes, err := older(middle)
		if err != nil {
			return 0, err
		}
		if yes {
			under = middle
		} else {
			over = middle
		}
	}
	return over, nil
}
