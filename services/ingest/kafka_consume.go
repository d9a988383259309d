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
	// receiveWait is how long Receive waits for something to come.
	receiveWait = time.Second
	// acknowledgeTimeout bounds one attempt to acknowledge.
	acknowledgeTimeout = 10 * time.Second
	// leaveTimeout bounds how long a consumer says goodbye.
	leaveTimeout = 3 * time.Second

	// groupSession is how long the group waits for a consumer that has gone
	// without a word, and groupHeartbeat how often one gives word; with it, it
	// hears that the partitions are shared out anew.
	groupSession   = 10 * time.Second
	groupHeartbeat = time.Second
	// groupRebalance is how long the group waits for all to come along when
	// that happens. Nothing here keeps a consumer from it.
	groupRebalance = 15 * time.Second
	// dataLossRewind is how far a consumer goes back where brokers have lost
	// what it has read.
	dataLossRewind = 10 * time.Minute

	// fetchBytes, fetchPartitionBytes and fetches bound what waits to be
	// received: two answers of 2 MB as they come, 30 MB once they are unpacked
	// (measured).
	fetchBytes          = 2 << 20
	fetchPartitionBytes = 256 << 10
	fetches             = 2
)

// kafkaReceipt is the receipt of a delivery: how far it goes in each partition.
type kafkaReceipt map[int32]partitionOffset

type partitionOffset struct {
	// assignment is the time that the consumer had the partition, one of several
	// perhaps.
	assignment int64
	next       kgo.EpochOffset
}

// Receive is part of Queue. The first call joins the group; the group may take
// some seconds to hand out partitions.
//
// A consumer keeps its place in the group whatever its caller does between two
// calls: the client tells the group on its own that it is alive. Nor does it
// hold the others up when partitions are shared out anew: that may happen at
// any time but within this call, which only keeps records and tenures in step.
// What was received of a partition that then goes to another consumer is
// received there again.
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

// join makes the consumer, at the first call.
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
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.MaxConcurrentFetches(fetches),
	)
	k.consumer = consumer
	return consumer, err
}

// assigned begins a tenure for each partition.
func (k *Kafka) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range partitions[k.options.Topic] {
		k.assignment++
		k.assignments[p] = k.assignment
	}
}

// revoked ends tenures. It commits nothing: what was received and not
// acknowledged is for whoever has the partition next.
func (k *Kafka) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range partitions[k.options.Topic] {
		delete(k.assignments, p)
	}
}

// failure is what went wrong in a poll, apart from its end. A loss that the
// client has got over is only logged.
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

// delivery packs what was polled.
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

// Acknowledge is part of Queue. Deliveries are to be acknowledged in the order
// in which they were received: one takes those before it along. Of partitions
// that have gone to another consumer nothing is acknowledged, and that is no
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
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			failed = k.committed(answer, err)
		})
	if failed != nil {
		return fmt.Errorf("commit offsets: %w", failed)
	}
	return nil
}

// committable is how far deliveries go in the partitions that the consumer has had
// ever since.
func (k *Kafka) committable(received []Delivery) (*kgo.Client, map[int32]kgo.EpochOffset) {
	k.mu.Lock()
	defer k.mu.Unlock()
	offsets := make(map[int32]kgo.EpochOffset)
	for _, d := range received {
		receipt, _ := d.receipt.(kafkaReceipt)
		for p, m := range receipt {
			if tenure, ok := k.assignments[p]; ok && tenure == m.assignment && m.next.Offset > offsets[p].Offset {
				offsets[p] = m.next
			}
		}
	}
	if k.consumer == nil {
		return nil, nil // closed
	}
	return k.consumer, offsets
}

// committed is why offsets could not be committed. After an error of the group
// the consumer either is a member again soon or has lost its partitions, so
// that the next attempt ends well. A topic that is gone has no offsets.
func (k *Kafka) committed(answer *kmsg.OffsetCommitResponse, err error) error {
	if err != nil {
		return err
	}
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			switch err := kerr.ErrorForCode(p.ErrorCode); {
			case err == nil:
			case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
				k.options.Log.Error("a Kafka partition is gone", "partition", p.Partition, "error", err)
			default:
				return fmt.Errorf("partition %d: %w", p.Partition, err)
			}
		}
	}
	return nil
}

// leave takes the consumer out of the group and ends it.
func (k *Kafka) leave(consumer *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if err := consumer.LeaveGroupContext(ctx); err != nil {
		k.options.Log.Warn("the Kafka group does not know that a consumer leaves; its partitions wait", "for", groupSession, "error", err)
	}
	consumer.CloseAllowingRebalance()
}
