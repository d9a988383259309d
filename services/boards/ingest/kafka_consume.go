package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"stepboard/models"
)

const (
	// receiveWait is how long Receive waits for records.
	receiveWait = time.Second
	// acknowledgeTimeout bounds one attempt to acknowledge.
	acknowledgeTimeout = 10 * time.Second
	// leaveTimeout bounds how long a consumer takes to leave the group.
	leaveTimeout = 3 * time.Second

	// groupSession is how long the group waits for a consumer that is silent.
	// groupHeartbeat is how often a consumer reports that it is alive; the response
	// tells it of a rebalance.
	groupSession   = 10 * time.Second
	groupHeartbeat = time.Second
	// groupRebalance is how long the group waits for all consumers to join a
	// rebalance. Nothing in this package delays them.
	groupRebalance = 15 * time.Second
	// dataLossRewind is how far a consumer goes back after brokers have lost
	// records that it had read.
	dataLossRewind = 10 * time.Minute

	// fetchBytes, fetchPartitionBytes and fetches bound the records that are
	// fetched and not received yet: two responses of 2 MB each, 30 MB once they
	// are unpacked (measured).
	fetchBytes          = 2 << 20
	fetchPartitionBytes = 256 << 10
	fetches             = 2
)

// kafkaReceipt is the receipt of a delivery: the offset behind it in each
// partition of the topic.
type kafkaReceipt map[string]map[int32]kgo.EpochOffset

// Receive is part of Queue. The first call joins the group, which may take some
// seconds to assign partitions.
//
// A consumer stays in the group however long its caller takes between two
// calls: the client sends heartbeats on its own. Nor does it delay a rebalance.
// If a partition then moves to another consumer, that one receives its
// unacknowledged records again.
func (k *Kafka) Receive(ctx context.Context, limit int) (Delivery, error) {
	consumer, err := k.join()
	if err != nil {
		return Delivery{}, fmt.Errorf("join the group: %w", err)
	}
	polling, cancel := context.WithTimeout(ctx, receiveWait)
	defer cancel()
	got := consumer.PollRecords(polling, max(1, limit))
	if err := k.failure(polling, got); err != nil {
		return Delivery{}, fmt.Errorf("receive: %w", err)
	}
	if got.NumRecords() == 0 {
		return Delivery{}, ctx.Err()
	}
	d := Delivery{Messages: make([]Message, 0, got.NumRecords())}
	behind := make(map[int32]kgo.EpochOffset)
	for r := range got.RecordsAll() {
		d.Messages = append(d.Messages, messageOf(r))
		behind[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	}
	d.receipt = kafkaReceipt{k.options.Topic: behind}
	return d, nil
}

// join returns the consumer. The first call creates it.
func (k *Kafka) join() (*kgo.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, ErrClosed
	}
	if k.consumer != nil {
		return k.consumer, nil
	}
	consumer, err := k.connect(
		kgo.ConsumerGroup(k.options.Group),
		kgo.ConsumeTopics(k.options.Topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.AutoCommitMarks(),
		kgo.OnPartitionsRevoked(commitNothing),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.RewindOffset(dataLossRewind)),
		kgo.SessionTimeout(groupSession),
		kgo.HeartbeatInterval(groupHeartbeat),
		kgo.RebalanceTimeout(groupRebalance),
		kgo.FetchMaxWait(receiveWait),
	)
	k.consumer = consumer
	return consumer, err
}

// commitNothing keeps the client from committing marks when partitions move, or
// when it closes: it would wait for brokers that do not respond.
func commitNothing(context.Context, *kgo.Client, map[string][]int32) {}

// failure returns the errors of a poll, apart from the poll's own end. A data
// loss from which the client recovers is only logged.
func (k *Kafka) failure(polling context.Context, got kgo.Fetches) error {
	var failed error
	got.EachError(func(_ string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case polling.Err() != nil && errors.Is(err, polling.Err()):
		case errors.As(err, &loss):
			k.options.Log.Error("Kafka has lost records", "error", err)
		case got.NumRecords() > 0:
			k.options.Log.Warn("a Kafka partition can't be read", "partition", partition, "error", err)
		default:
			failed = errors.Join(failed, err)
		}
	})
	return failed
}

func messageOf(r *kgo.Record) Message {
	return Message{
		Payload:  r.Value,
		Position: "kafka " + r.Topic + "/" + strconv.Itoa(int(r.Partition)) + "/" + strconv.FormatInt(r.Offset, 10),
		At:       r.Timestamp,
	}
}

// Acknowledge is part of Queue. It marks how far the deliveries go in the
// partitions that the consumer has, and commits that. Partitions that have moved
// to another consumer are skipped, which is no error. After a group error the
// consumer soon either is a member again or has lost its partitions, so that the
// next attempt succeeds. A topic that no longer exists has no offsets. One
// request.
func (k *Kafka) Acknowledge(ctx context.Context, received []Delivery) error {
	k.mu.Lock()
	consumer := k.consumer
	k.mu.Unlock()
	if consumer == nil {
		return nil // closed
	}
	for _, d := range received {
		if receipt, ok := d.receipt.(kafkaReceipt); ok {
			consumer.MarkCommitOffsets(receipt)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
	defer cancel()
	err := consumer.CommitMarkedOffsets(ctx)
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		k.options.Log.Error("a Kafka partition no longer exists", "topic", k.options.Topic, "error", err)
		return nil
	}
	return models.Wrap("commit offsets", err)
}
