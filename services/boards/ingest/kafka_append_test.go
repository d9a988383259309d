package ingest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"stepboard/internal/testenv"
	"stepboard/services/boards/ingest"
)

// Without brokers an append fails soon. It succeeds once they are back.
func TestKafkaAppendWithoutBrokers(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 2)
	q := p.open()
	appendAll(t, q, updatesOf(10, 1))
	p.Stop()
	for _, timeout := range []time.Duration{100 * time.Millisecond, time.Minute} {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		errs := q.Append(ctx, updatesOf(10, 2))
		cancel()
		if len(errs) != 10 || slices.Contains(errs, nil) {
			t.Errorf("in %v: %v", timeout, errs)
		}
	}
	if _, err := q.Lag(t.Context()); err == nil {
		t.Error("the queue responds")
	}
	p.Start()
	testenv.Eventually(t, "the queue takes updates again", func() bool { return q.Append(t.Context(), updatesOf(10, 3)) == nil })
	got := newCollector(t)
	testenv.Eventually(t, "the updates are received", func() bool {
		got.take(q)
		return slices.ContainsFunc(got.updates(), func(u ingest.Update) bool { return u.Score == 3 })
	})
}

// A broker that hangs delays a call no longer than its timeout, and the next
// call not at all.
func TestKafkaAppendToABrokerThatHangs(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 2)
	q := p.open()
	appendAll(t, q, updatesOf(10, 1))
	p.Cluster().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, nil, true //nolint:nilnil // no answer, once
	})
	errs := q.Append(t.Context(), updatesOf(1, 2))
	if len(errs) != 1 || !errors.Is(errs[0], context.DeadlineExceeded) {
		t.Errorf("the broker hangs: %v", errs)
	}
	appendAll(t, q, updatesOf(10, 3))
	got := newCollector(t)
	got.fill(q, 20)
}

// Close returns even if no broker hears that the consumer leaves.
func TestKafkaClosesWithoutBrokers(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 2)
	q := p.open()
	appendAll(t, q, updatesOf(10, 1))
	got := newCollector(t)
	got.fill(q, 10)
	p.Stop()
	q.Close()
}

// Only the updates of a failing partition are refused.
func TestKafkaAppendReturnsAnErrorForEachUpdate(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 2)
	q := p.open()
	p.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: kafkaTopic, Partitions: []int32{1}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	updates := updatesOf(100, 1)
	errs := q.Append(t.Context(), updates)
	if len(errs) != len(updates) {
		t.Fatal(errs)
	}
	var want []ingest.Update
	for i, err := range errs {
		switch {
		case err == nil:
			want = append(want, updates[i])
		case !errors.Is(err, kerr.TopicAuthorizationFailed):
			t.Fatal(err)
		}
	}
	got := newCollector(t)
	got.fill(q, len(want))
	if diff := cmp.Diff(want, got.updates()); diff != "" {
		t.Error(diff)
	}
}

// A process that only appends is no member of the group, and a closed queue
// does nothing.
func TestKafkaJoinsNoGroupToAppend(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 2)
	q := p.open()
	appendAll(t, q, updatesOf(10, 1))
	if _, err := q.Lag(t.Context()); err != nil {
		t.Error(err)
	}
	if group := p.Cluster().GroupInfo(kafkaGroup); group != nil {
		t.Errorf("a group %+v", group)
	}
	q.Close()
	if errs := q.Append(t.Context(), updatesOf(2, 2)); len(errs) != 2 || !errors.Is(errs[1], ingest.ErrClosed) {
		t.Errorf("after Close: %v", errs)
	}
	if _, err := q.Receive(t.Context(), 1); !errors.Is(err, ingest.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	q.Close() // again changes nothing
}
