package ingest_test

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ingest"
)

const (
	kafkaTopic = "updates"
	kafkaGroup = "boards"
)

// topic is a Kafka with one topic.
type topic struct {
	*testenv.KafkaServer
	t       *testing.T
	options ingest.KafkaOptions
}

func newTopic(t *testing.T, partitions int) *topic {
	t.Helper()
	server := testenv.StartKafka(t)
	server.CreateTopic(kafkaTopic, partitions, nil)
	return &topic{KafkaServer: server, t: t, options: ingest.KafkaOptions{
		Brokers: server.Addrs(), Topic: kafkaTopic, Group: kafkaGroup, Retention: 24 * time.Hour, Log: testenv.Log(),
	}}
}

// open opens the queue; the test closes it at its end.
func (p *topic) open() *ingest.Kafka {
	p.t.Helper()
	q, err := ingest.NewKafka(p.t.Context(), p.options)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(q.Close)
	return q
}

// client returns a client that is not the queue's.
func (p *topic) client(opts ...kgo.Opt) *kgo.Client {
	p.t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(p.Addrs()...), kgo.DefaultProduceTopic(kafkaTopic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableClientMetrics())...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(client.Close)
	return client
}

// write appends records to the topic as they are.
func (p *topic) write(records ...*kgo.Record) {
	p.t.Helper()
	client := p.client()
	defer client.Close()
	if err := client.ProduceSync(p.t.Context(), records...).FirstErr(); err != nil {
		p.t.Fatal(err)
	}
}

// committed returns the offsets that the group has acknowledged, by partition.
func (p *topic) committed() map[int32]int64 {
	offsets := make(map[int32]int64)
	if group := p.Cluster().GroupInfo(kafkaGroup); group != nil {
		for partition, c := range group.Commits[kafkaTopic] {
			offsets[partition] = c.Offset
		}
	}
	return offsets
}

// shared reports whether the given number of consumers share all partitions,
// each with some.
func (p *topic) shared(consumers, partitions int) bool {
	g := p.Cluster().GroupInfo(kafkaGroup)
	return g != nil && g.State == "Stable" && len(g.Members) == consumers && g.NumAssigned() == partitions &&
		!slices.ContainsFunc(g.Members, func(m kfake.GroupMember) bool { return m.NumAssigned() == 0 })
}

// acknowledged reports whether the group's offset is behind a message.
func (p *topic) acknowledged(position string) bool {
	var partition int32
	var offset int64
	if _, err := fmt.Sscanf(position, "kafka "+kafkaTopic+"/%d/%d", &partition, &offset); err != nil {
		p.t.Fatal(err)
	}
	return offset < p.committed()[partition]
}

// countAcknowledged returns how many of the collector's messages are
// acknowledged.
func (p *topic) countAcknowledged(b *collector) int {
	n := 0
	for position := range b.messages {
		if p.acknowledged(position) {
			n++
		}
	}
	return n
}

// updatesOf returns updates of n users, of the given score.
func updatesOf(n int, score int64) []ingest.Update {
	updates := make([]ingest.Update, n)
	for i := range updates {
		updates[i] = ingest.Update{
			Board: "steps", Bucket: "20261120", User: models.RowID(1 + i*i), Score: score, ReachedAt: models.TimestampOf(testenv.Noon),
		}
	}
	return updates
}

func appendAll(t *testing.T, q ingest.Queue, updates []ingest.Update) {
	t.Helper()
	if errs := q.Append(t.Context(), updates); errs != nil {
		t.Fatal(errs)
	}
}

// collector collects the messages that queues deliver.
type collector struct {
	t          *testing.T
	messages   map[string]ingest.Message // by position
	deliveries []ingest.Delivery
}

func newCollector(t *testing.T) *collector {
	return &collector{t: t, messages: make(map[string]ingest.Message)}
}

func (c *collector) take(q ingest.Queue) {
	c.t.Helper()
	d, err := q.Receive(c.t.Context(), 100)
	if err != nil {
		c.t.Fatal(err)
	}
	c.add(d)
}

func (c *collector) add(d ingest.Delivery) {
	if len(d.Messages) == 0 {
		return
	}
	c.deliveries = append(c.deliveries, d)
	for _, m := range d.Messages {
		c.messages[m.Position] = m
	}
}

// fill receives until n messages are collected.
func (c *collector) fill(q ingest.Queue, n int) {
	c.t.Helper()
	testenv.Eventually(c.t, fmt.Sprintf("%d messages are received", n), func() bool {
		if len(c.messages) < n {
			c.take(q)
		}
		return len(c.messages) >= n
	})
	if len(c.messages) > n {
		c.t.Errorf("%d messages were received, want %d", len(c.messages), n)
	}
}

func (c *collector) acknowledge(q ingest.Queue) {
	c.t.Helper()
	if err := q.Acknowledge(c.t.Context(), c.deliveries); err != nil {
		c.t.Fatal(err)
	}
	c.deliveries = nil
}

// updates decodes the collected messages, ordered by user and score.
func (c *collector) updates() []ingest.Update {
	c.t.Helper()
	return decode(c.t, slices.Collect(maps.Values(c.messages)))
}

func decode(t *testing.T, messages []ingest.Message) []ingest.Update {
	t.Helper()
	updates := make([]ingest.Update, len(messages))
	for i, m := range messages {
		u, err := ingest.DecodeUpdate(m.Payload)
		if err != nil {
			t.Fatal(err)
		}
		updates[i] = u
	}
	slices.SortFunc(updates, func(a, b ingest.Update) int { return stdcmp.Or(byUser(a, b), int(a.Score-b.Score)) })
	return updates
}

func byUser(a, b ingest.Update) int { return int(a.User - b.User) }

// Updates are received as they were appended, and a user's updates are in one
// partition, in their order.
func TestKafkaRoundTrip(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 4)
	q := p.open()
	var want []ingest.Update
	for score := range int64(3) {
		appendAll(t, q, updatesOf(500, score))
		want = append(want, updatesOf(500, score)...)
	}
	got := newCollector(t)
	got.fill(q, len(want))
	slices.SortStableFunc(want, byUser)
	if diff := cmp.Diff(want, got.updates()); diff != "" {
		t.Error(diff)
	}
	for position, m := range got.messages {
		if !strings.HasPrefix(position, "kafka updates/") || m.At.IsZero() {
			t.Fatalf("a message at %q, of %v", position, m.At)
		}
	}

	raw := p.client(kgo.ConsumeTopics(kafkaTopic))
	home := make(map[string]int32)
	score := make(map[string]int64)
	for n := 0; n < len(want); {
		fetched := raw.PollRecords(t.Context(), 100)
		for r := range fetched.RecordsAll() {
			n++
			u, err := ingest.DecodeUpdate(r.Value)
			key := string(r.Key)
			if err != nil || key != fmt.Sprint(int64(u.User)) {
				t.Fatalf("key %q of %+v, %v", key, u, err)
			}
			if at, ok := home[key]; ok && (at != r.Partition || u.Score <= score[key]) {
				t.Fatalf("user %s: score %d in partition %d after %d in %d", key, u.Score, r.Partition, score[key], at)
			}
			home[key], score[key] = r.Partition, u.Score
		}
	}
}

// A record that is not an update is delivered like any other. The consumer
// handles it.
func TestKafkaDeliversGarbage(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 1)
	q := p.open()
	p.write(
		&kgo.Record{Value: []byte("garbage")},
		&kgo.Record{Key: []byte("17")},
		&kgo.Record{Value: []byte{}},
	)
	got := newCollector(t)
	got.fill(q, 3)
	for position, want := range map[string]string{"kafka updates/0/0": "garbage", "kafka updates/0/1": "", "kafka updates/0/2": ""} {
		if m, ok := got.messages[position]; !ok || string(m.Payload) != want {
			t.Errorf("%s: %q", position, m.Payload)
		}
	}
	got.acknowledge(q)
}

// Unacknowledged messages are received again, by another process and after the
// brokers have restarted. Acknowledged ones are not.
func TestKafkaRedeliversUnacknowledgedMessages(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 3)
	q := p.open()
	appendAll(t, q, updatesOf(100, 1))
	first := newCollector(t)
	first.fill(q, 100)
	first.acknowledge(q)
	appendAll(t, q, updatesOf(100, 2))
	unacknowledged := newCollector(t)
	unacknowledged.fill(q, 100)
	q.Close()

	again := newCollector(t)
	q = p.open()
	again.fill(q, 100)
	if diff := cmp.Diff(updatesOf(100, 2), again.updates()); diff != "" {
		t.Error(diff)
	}
	q.Close()

	p.Stop()
	p.Start()
	again = newCollector(t)
	q = p.open()
	again.fill(q, 100)
	again.acknowledge(q)
	appendAll(t, q, updatesOf(10, 3))
	last := newCollector(t)
	last.fill(q, 10)
	if diff := cmp.Diff(updatesOf(10, 3), last.updates()); diff != "" {
		t.Error(diff)
	}
}

// Two consumers share the partitions. When one leaves, the other receives its
// unacknowledged messages at once, and nothing is lost.
func TestKafkaConsumersShareAndTakeOver(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 6)
	a, b := p.open(), p.open()
	ofA, ofB := newCollector(t), newCollector(t)
	appendAll(t, a, updatesOf(300, 1))
	testenv.Eventually(t, "both consumers share the partitions", func() bool {
		ofA.take(a)
		ofB.take(b)
		return p.shared(2, 6)
	})
	ofA.acknowledge(a)
	ofB.acknowledge(b)
	appendAll(t, a, updatesOf(300, 2))
	testenv.Eventually(t, "both consumers receive", func() bool {
		ofA.take(a)
		ofB.take(b)
		return len(ofA.deliveries) > 0 && len(ofB.deliveries) > 0
	})
	a.Close()
	appendAll(t, b, updatesOf(300, 3))
	testenv.Eventually(t, "everything is acknowledged", func() bool {
		ofB.take(b)
		ofB.acknowledge(b)
		return sum(p.committed()) >= 900
	})
	for _, d := range ofA.deliveries {
		for _, m := range d.Messages {
			if _, ok := ofB.messages[m.Position]; !ok {
				t.Errorf("%s was left behind", m.Position)
			}
		}
	}
	maps.Copy(ofB.messages, ofA.messages)
	want := slices.Concat(updatesOf(300, 1), updatesOf(300, 2), updatesOf(300, 3))
	slices.SortStableFunc(want, byUser)
	if diff := cmp.Diff(want, ofB.updates()); diff != "" {
		t.Error(diff)
	}
}

func sum(offsets map[int32]int64) (n int64) {
	for _, offset := range offsets {
		n += offset
	}
	return n
}

// A consumer that collects for long loses partitions to a new one. It
// acknowledges its messages of the partitions that it still has, without an
// error. Those of the others are received again.
func TestKafkaAcknowledgesOnlyItsPartitions(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 4)
	a := p.open()
	appendAll(t, a, updatesOf(200, 1))
	ofA := newCollector(t)
	ofA.fill(a, 200)

	b := p.open()
	ofB := newCollector(t)
	testenv.Eventually(t, "the second consumer receives", func() bool { // a does nothing meanwhile, and delays no rebalance
		ofB.take(b)
		return p.shared(2, 4) && len(ofB.messages) > 0
	})
	if got := p.committed(); len(got) != 0 {
		t.Errorf("committed when partitions changed hands: %v", got)
	}
	ofA.acknowledge(a)
	if n := p.countAcknowledged(ofB); n != 0 {
		t.Errorf("%d messages were acknowledged by a consumer that has lost their partitions", n)
	}
	theirs := 200 - p.countAcknowledged(ofA)
	if theirs == 0 || theirs == 200 {
		t.Fatalf("%d of 200 messages are with the second consumer", theirs)
	}
	ofB.fill(b, theirs)
	ofB.acknowledge(b)
	if n := p.countAcknowledged(ofA); n != 200 {
		t.Errorf("%d of 200 messages are acknowledged in the end", n)
	}
}

// A consumer that the group has removed joins again soon. Its errors end, and
// messages that it can't acknowledge any more are received again.
func TestKafkaConsumerRemovedFromItsGroup(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 2)
	q := p.open()
	appendAll(t, q, updatesOf(50, 1))
	got := newCollector(t)
	got.fill(q, 50)
	p.removeConsumers()
	testenv.Eventually(t, "the acknowledgement ends", func() bool { return q.Acknowledge(t.Context(), got.deliveries) == nil })
	appendAll(t, q, updatesOf(50, 2))
	testenv.Eventually(t, "all are received and acknowledged", func() bool {
		d, err := q.Receive(t.Context(), 100)
		if err != nil { // perhaps because the group has removed the consumer
			return false
		}
		got.add(d)
		return q.Acknowledge(t.Context(), got.deliveries) == nil && p.countAcknowledged(got) == 100
	})
}

// removeConsumers removes all consumers from the group.
func (p *topic) removeConsumers() {
	p.t.Helper()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = kafkaGroup
	for _, m := range p.Cluster().GroupInfo(kafkaGroup).Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		leave.Members = append(leave.Members, member)
	}
	if _, err := leave.RequestWith(p.t.Context(), p.client()); err != nil {
		p.t.Fatal(err)
	}
}

// If the group refuses a consumer, Receive returns an error, and continues once
// the consumer is admitted.
func TestKafkaReceivesOnceItMay(t *testing.T) {
	t.Parallel()
	p := newTopic(t, 2)
	q := p.open()
	appendAll(t, q, updatesOf(10, 1))
	refusal := p.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	testenv.Eventually(t, "the refusal is heard", func() bool {
		_, err := q.Receive(t.Context(), 100)
		return errors.Is(err, kerr.GroupAuthorizationFailed)
	})
	refusal.Remove()
	got := newCollector(t)
	testenv.Eventually(t, "the messages come", func() bool {
		d, _ := q.Receive(t.Context(), 100) // an earlier refusal may be heard late
		got.add(d)
		return len(got.messages) == 10
	})
}
