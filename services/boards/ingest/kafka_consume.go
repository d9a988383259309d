package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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
// partition.
type kafkaReceipt map[int32]partitionOffset

type partitionOffset struct {
	// assignment is the number of the assignment under which the consumer had the
	// partition. It may lose a partition and get it back.
	assignment int64
	// next is the offset of the first record behind the delivery.
	next kgo.EpochOffset
}

// Receive is part of Queue. The first call joins the group, which may take some
// seconds to assign partitions.
//
// A consumer stays in the group however long its caller takes between two
// calls: the client sends heartbeats on its own. Nor does it delay a rebalance.
// A rebalance may happen at any time except during this call, which only keeps
// records and assignments consistent. If a partition then moves to another
// consumer, that one receives its unacknowledged records again.
func (k *Kafka) Receive(ctx context.Context, limit int) (Delivery, error) {
	consumer, err := k.join()
	if err != nil {
		return Delivery{}, fmt.Errorf("join the group: %w", err)
	}
	defer consumer.AllowRebalance()
	polling, cancel := context.WithTimeout(ctx, receiveWait)
	defer cancel()
	got := consumer.PollRecords(polling, max(1, limit))
	if err := k.failure(polling, got); err != nil && got.NumRecords() == 0 {
		return Delivery{}, fmt.Errorf("receive: %w", err)
	}
	if got.NumRecords() == 0 {
		return Delivery{}, ctx.Err()
	}
	return k.delivery(got), nil
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
		kgo.DisableAutoCommit(),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.RewindOffset(dataLossRewind)),
		kgo.SessionTimeout(groupSession),
		kgo.HeartbeatInterval(groupHeartbeat),
		kgo.RebalanceTimeout(groupRebalance),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(k.assigned),
		kgo.OnPartitionsRevoked(k.revoked),
		kgo.OnPartitionsLost(k.revoked),
		kgo.FetchMaxWait(receiveWait),
	)
	k.consumer = consumer
	return consumer, err
}

// assigned numbers the assignment of each partition.
func (k *Kafka) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range partitions[k.options.Topic] {
		k.assignment++
		k.assignments[p] = k.assignment
	}
}

// revoked ends the assignments of partitions. It commits nothing: records that
// were received and not acknowledged are received again by the next consumer of
// the partition.
func (k *Kafka) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range partitions[k.options.Topic] {
		delete(k.assignments, p)
	}
}

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

// delivery packs the records of a poll.
func (k *Kafka) delivery(got kgo.Fetches) Delivery {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := Delivery{Messages: make([]Message, 0, got.NumRecords())}
	receipt := make(kafkaReceipt)
	for r := range got.RecordsAll() {
		d.Messages = append(d.Messages, messageOf(r))
		receipt[r.Partition] = partitionOffset{k.assignments[r.Partition], kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}}
	}
	d.receipt = receipt
	return d
}

func messageOf(r *kgo.Record) Message {
	return Message{
		Payload:  r.Value,
		Position: "kafka " + r.Topic + "/" + strconv.Itoa(int(r.Partition)) + "/" + strconv.FormatInt(r.Offset, 10),
		At:       r.Timestamp,
	}
}

// Acknowledge is part of Queue. Deliveries must be acknowledged in the order in
// which they were received: an acknowledgement includes all earlier ones.
// Partitions that have moved to another consumer are skipped, which is no
// error. One request.
func (k *Kafka) Acknowledge(ctx context.Context, received []Delivery) error {
	consumer, offsets := k.committable(received)
	if len(offsets) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
	defer cancel()
	var failed error
	consumer.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{k.options.Topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error) {
			failed = k.committed(response, err)
		})
	if failed != nil {
		return fmt.Errorf("commit offsets: %w", failed)
	}
	return nil
}

// committable returns how far deliveries go in the partitions that the consumer
// has had without interruption since.
func (k *Kafka) committable(received []Delivery) (*kgo.Client, map[int32]kgo.EpochOffset) {
	k.mu.Lock()
	defer k.mu.Unlock()
	offsets := make(map[int32]kgo.EpochOffset)
	for _, d := range received {
		receipt, _ := d.receipt.(kafkaReceipt)
		for p, m := range receipt {
			if current, ok := k.assignments[p]; ok && current == m.assignment && m.next.Offset > offsets[p].Offset {
				offsets[p] = m.next
			}
		}
	}
	if k.consumer == nil {
		return nil, nil // closed
	}
	return k.consumer, offsets
}

// committed returns why offsets could not be committed. After a group error the
// consumer soon either is a member again or has lost its partitions, so that
// the next attempt succeeds. A topic that no longer exists has no offsets.
func (k *Kafka) committed(response *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			switch err := kerr.ErrorForCode(p.ErrorCode); {
			case err == nil:
			case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
				k.options.Log.Error("a Kafka partition no longer exists", "partition", p.Partition, "error", err)
			default:
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
		}
	}
	return nil
}

// leave makes the consumer leave the group, and closes it.
func (k *Kafka) leave(consumer *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := consumer.LeaveGroupContext(ctx); err != nil {
		k.options.Log.Warn("the Kafka group could not be told that a consumer leaves; its partitions wait", "for", groupSession, "error", err)
	}
	consumer.CloseAllowingRebalance()
}
