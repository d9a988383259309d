package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"stepboard/models"
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
	// ageFirst is the first of the ages that Lag tells apart. There are ageSteps,
	// each an eighth more than the one before, up to a year.
	ageFirst = time.Second / 4
	ageSteps = 160
)

// Replay is part of Queue. It reads with a client of its own, outside any
// group. Its memory is bounded as that of Receive is.
func (k *Kafka) Replay(ctx context.Context, since time.Time, apply func(context.Context, []Message) error) error {
	starts, left, err := k.span(ctx, since)
	if err != nil {
		return fmt.Errorf("find the offsets to replay: %w", err)
	}
	from := make(map[int32]kgo.Offset, len(left))
	for p, end := range left {
		if starts[p] < end {
			from[p] = kgo.NewOffset().At(starts[p])
		} else {
			delete(left, p)
		}
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
		if stalls++; moved {
			stalls = 0
		}
		if err == nil && stalls > replayStalls {
			err = fmt.Errorf("no more records arrive from partitions %v", slices.Sorted(maps.Keys(left)))
		}
		if err != nil {
			return fmt.Errorf("read the topic: %w", err)
		}
		if len(messages) > 0 {
			if err := apply(ctx, messages); err != nil {
				return err
			}
		}
	}
	return nil
}

// span returns startOffsets and the end of each partition, where the next record
// will be. Two requests to each broker.
func (k *Kafka) span(ctx context.Context, since time.Time) (starts, ends map[int32]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, offsetTimeout)
	defer cancel()
	if ends, err = k.offsets(k.admin.ListEndOffsets(ctx, k.options.Topic)); err == nil {
		starts, err = k.startOffsets(ctx, since)
	}
	return starts, ends, err
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
// their end. moved is false if no records arrived. Then it also removes those
// whose records were all deleted meanwhile: a reader would wait for them in vain.
func (k *Kafka) readReplay(ctx context.Context, reader *kgo.Client, left map[int32]int64) (messages []Message, moved bool, err error) {
	polling, cancel := context.WithTimeout(ctx, replayWait)
	defer cancel()
	got := reader.PollRecords(polling, replayBatch)
	if err := cmp.Or(ctx.Err(), k.failure(polling, got)); err != nil {
		return nil, false, err
	}
	if got.NumRecords() == 0 {
		starts, _, err := k.span(ctx, time.Time{})
		maps.DeleteFunc(left, func(p int32, end int64) bool { return starts[p] >= end })
		return nil, false, err
	}
	for r := range got.RecordsAll() {
		end, ok := left[r.Partition]
		moved = moved || ok
		if ok && r.Offset < end && !r.Attrs.IsControl() {
			messages = append(messages, messageOf(r))
		}
		if ok && r.Offset+1 >= end {
			delete(left, r.Partition)
			reader.PauseFetchPartitions(map[string][]int32{k.options.Topic: {r.Partition}})
		}
	}
	return messages, moved, nil
}

// Lag is part of Queue. It counts the records behind the committed offsets,
// also if no consumer runs. The age of the oldest is exact to an eighth, and to
// a quarter of a second. Three requests to each broker and, if any records wait,
// eight more.
func (k *Kafka) Lag(ctx context.Context) (Lag, error) {
	ctx, cancel := context.WithTimeout(ctx, offsetTimeout)
	defer cancel()
	committed, err := k.admin.FetchOffsets(ctx, k.options.Group)
	if err = errors.Join(err, committed.Error()); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return Lag{}, fmt.Errorf("read committed offsets: %w", err)
	}
	starts, ends, err := k.span(ctx, time.Time{})
	if err != nil {
		return Lag{}, fmt.Errorf("read first and last offsets: %w", err)
	}
	var lag Lag
	behind := make(map[int32]int64)
	for p, end := range ends {
		next := starts[p] // without a commit, or if later records were deleted, too
		if c, ok := committed.Lookup(k.options.Topic, p); ok {
			next = max(next, c.At)
		}
		if next < end {
			lag.Messages += end - next
			behind[p] = next
		}
	}
	if len(behind) > 0 {
		lag.Oldest, err = k.oldest(ctx, behind)
	}
	return lag, models.Wrap("find the oldest message", err)
}

// oldest returns about how long the oldest of the given records has waited. It
// reads no record: brokers know the first record of any moment or later, so it
// searches for the first age of which no record is older.
func (k *Kafka) oldest(ctx context.Context, behind map[int32]int64) (_ time.Duration, err error) {
	now := time.Now() // the clock of records
	age := func(step int) time.Duration { return time.Duration(float64(ageFirst) * math.Pow(9./8, float64(step))) }
	step := sort.Search(ageSteps, func(step int) bool {
		if err != nil {
			return true
		}
		var first map[int32]int64
		first, err = k.startOffsets(ctx, now.Add(-age(step)))
		for p, at := range behind {
			if first[p] > at {
				return false
			}
		}
		return true
	})
	return age(step), err
}
