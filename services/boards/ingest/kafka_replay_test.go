package ingest_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"stepboard/internal/testenv"
	"stepboard/services/boards/ingest"
)

// replayed returns the positions of the messages that a replay passes on.
func replayed(t *testing.T, q ingest.Queue, since time.Time) []string {
	t.Helper()
	var got []string
	err := q.Replay(t.Context(), since, func(_ context.Context, messages []ingest.Message) error {
		for _, m := range messages {
			got = append(got, string(m.Payload))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	return got
}

// A replay passes on all messages that are kept, acknowledged or not, in
// batches.
func TestKafkaReplaysEverything(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 3)
	q := p.open()
	if got := replayed(t, q, time.Time{}); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
	want := updatesOf(12_000, 1)
	appendAll(t, q, want)
	received := newCollector(t)
	testenv.Eventually(t, "half of the messages are received", func() bool {
		received.take(q)
		return len(received.messages) >= 6000
	})
	received.acknowledge(q)

	var got []ingest.Message
	batches := 0
	err := q.Replay(t.Context(), time.Time{}, func(_ context.Context, messages []ingest.Message) error {
		if batches == 0 { // not part of it any more
			appendAll(t, q, updatesOf(100, 2))
		}
		batches++
		if len(messages) > 5000 {
			t.Errorf("a batch of %d", len(messages))
		}
		got = append(got, messages...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, decode(t, got)); diff != "" {
		t.Error(diff)
	}
	if batches < 3 {
		t.Errorf("in %d batches", batches)
	}
}

// A replay begins at a moment. Partitions may have no records since then, no
// records at all, or deleted ones only.
func TestKafkaReplaysFromAMoment(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 4)
	q := p.open()
	moment := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	var records []*kgo.Record
	for partition := range int32(3) { // the fourth stays empty
		for i := range 20 {
			at := moment.Add(time.Duration(i-10) * time.Minute)
			if partition == 2 {
				at = at.Add(-24 * time.Hour)
			}
			records = append(records, &kgo.Record{Partition: partition, Timestamp: at, Value: fmt.Appendf(nil, "%d/%02d", partition, i)})
		}
	}
	p.write(records...)
	if err := p.Cluster().DeleteRecords(kafkaTopic, 1, 18); err != nil {
		t.Fatal(err)
	}
	want := []string{"0/10", "0/11", "0/12", "0/13", "0/14", "0/15", "0/16", "0/17", "0/18", "0/19", "1/18", "1/19"}
	if diff := cmp.Diff(want, replayed(t, q, moment)); diff != "" {
		t.Error(diff)
	}
	if got := replayed(t, q, time.Time{}); len(got) != 42 {
		t.Errorf("of everything: %q", got)
	}
	if got := replayed(t, q, moment.Add(24*time.Hour)); len(got) != 0 {
		t.Errorf("of the future: %q", got)
	}
	if err := p.Cluster().DeleteRecords(kafkaTopic, 1, -1); err != nil {
		t.Fatal(err)
	}
	if got := replayed(t, q, moment); len(got) != 10 {
		t.Errorf("with a partition deleted: %q", got)
	}
}

// The last offset of a partition need not be a record: it may be the marker of
// a transaction.
func TestKafkaReplayEndsBehindATransaction(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 1)
	q := p.open()
	p.write(&kgo.Record{Value: []byte("plain")})
	writer := p.client(kgo.TransactionalID("somebody"))
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := writer.ProduceSync(t.Context(), &kgo.Record{Value: fmt.Appendf(nil, "in a transaction, %v", end)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := writer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"in a transaction, false", "in a transaction, true", "plain"}
	if diff := cmp.Diff(want, replayed(t, q, time.Time{})); diff != "" {
		t.Error(diff)
	}
}

// A replay ends if its callback fails, its context ends, its records are
// deleted or its brokers go away.
func TestKafkaReplayIsInterrupted(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 1)
	q := p.open()
	p.writeMuch()
	broken := errors.New("broken")
	if err := q.Replay(t.Context(), time.Time{}, func(context.Context, []ingest.Message) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a batch fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := q.Replay(ctx, time.Time{}, func(context.Context, []ingest.Message) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("its context has ended: %v", err)
	}
	err = q.Replay(t.Context(), time.Time{}, func(context.Context, []ingest.Message) error {
		return p.Cluster().DeleteRecords(kafkaTopic, 0, -1)
	})
	if err != nil {
		t.Errorf("the rest is deleted: %v", err)
	}
	p.writeMuch()
	err = q.Replay(t.Context(), time.Time{}, func(context.Context, []ingest.Message) error {
		p.Stop()
		return nil
	})
	if err == nil {
		t.Error("a replay without brokers succeeded")
	}
}

// writeMuch writes more than a reader buffers.
func (p *topic) writeMuch() {
	p.t.Helper()
	for range 10 {
		value := make([]byte, 900_000)
		testenv.Must(rand.Read(value))
		p.write(&kgo.Record{Value: value})
	}
}

// The lag counts the messages that are not acknowledged, with or without
// consumers, and includes the age of the oldest.
func TestKafkaLag(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 3)
	q := p.open()
	lag := func() ingest.Lag {
		t.Helper()
		lag, err := q.Lag(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return lag
	}
	if got := lag(); got != (ingest.Lag{}) {
		t.Errorf("of nothing: %+v", got)
	}
	for _, age := range []time.Duration{5 * 24 * time.Hour, 5 * time.Hour, 30 * time.Second} {
		at := time.Now().Add(-age)
		p.write(&kgo.Record{Partition: 1, Timestamp: at, Value: []byte("oldest")},
			&kgo.Record{Partition: 1, Timestamp: at.Add(age / 2), Value: []byte("old")}, &kgo.Record{Partition: 2, Timestamp: at.Add(age / 3), Value: []byte("old")})
		if got := lag(); got.Messages != 3 || got.Oldest < age || got.Oldest > time.Since(at)*8/7 {
			t.Errorf("of %v: %+v", age, got)
		}
		more := newCollector(t)
		more.fill(q, 3)
		more.acknowledge(q)
	}
	appendAll(t, q, updatesOf(100, 1))
	if got := lag(); got.Messages != 100 || got.Oldest <= 0 {
		t.Errorf("without a consumer: %+v", got)
	}
	received := newCollector(t)
	received.fill(q, 100)
	if got := lag(); got.Messages != 100 {
		t.Errorf("before it is acknowledged: %+v", got)
	}
	received.acknowledge(q)
	if got := lag(); got != (ingest.Lag{}) {
		t.Errorf("after that: %+v", got)
	}
	appendAll(t, q, updatesOf(100, 2))
	for partition := range int32(3) {
		if err := p.Cluster().DeleteRecords(kafkaTopic, partition, -1); err != nil {
			t.Fatal(err)
		}
	}
	if got := lag(); got != (ingest.Lag{}) {
		t.Errorf("of deleted records: %+v", got)
	}
}
