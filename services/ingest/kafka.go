package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	// appendTimeout is how long Append tries, less than flushTimeout: what it
	// gives up is out of the client's buffer before the next flush comes.
	// appendGrace is how long it then waits to hear which records made it.
	appendTimeout = 2 * time.Second
	appendGrace   = 500 * time.Millisecond
	// appendRecords is how many records wait for a broker at most, of all calls
	// together; a call that brings more waits for room. About 5 MB.
	appendRecords = 50_000
	// recordSize is about how many bytes a record's key and value have.
	recordSize = 56

	// kafkaDial bounds a connection attempt, TLS included, and kafkaAnswer the
	// wait for an answer, beyond what the request itself asks the broker to
	// wait.
	kafkaDial   = 2 * time.Second
	kafkaAnswer = 5 * time.Second
	// kafkaRetryFirst and kafkaRetryMost bound the waits between two attempts
	// of the client. They double.
	kafkaRetryFirst = 50 * time.Millisecond
	kafkaRetryMost  = 500 * time.Millisecond
)

// Kafka is a Queue in a topic of Kafka. What was appended is on all replicas
// that are in sync. Times are those of the records: by default the clocks of
// the processes that append, and the broker's with
// message.timestamp.type=LogAppendTime.
//
// A user's updates are in one partition, in the order of the calls that
// appended them. A call that failed may have appended some of its updates, and
// appends them again where it is repeated.
type Kafka struct {
	options KafkaOptions
	base    []kgo.Opt // of every client
	client  *kgo.Client
	admin   *kadm.Client // over client

	appends sync.WaitGroup // calls that have not heard of all their records

	mu          sync.Mutex
	closed      bool
	consumer    *kgo.Client     // a member of the group; nil until something is received
	assignments map[int32]int64 // partitions that the consumer has, and which time that is
	assignment  int64           // the latest
}

// KafkaOptions says where a topic is and what it must do.
type KafkaOptions struct {
	// Brokers are asked first, as host:port; they name the others.
	Brokers []string
	Topic   string
	// Group is the consumer group. Its members share the partitions.
	Group string
	// TLS connects with TLS, checked against the system's certificates.
	TLS bool
	// SASL is how to log in: plain, scram-sha-256, scram-sha-512, or empty for
	// not at all.
	SASL               string
	Username, Password string
	// ClientID names this program in the broker's logs and quotas.
	ClientID string
	// Retention is how long the topic must keep records, at least.
	Retention time.Duration
	Log       *slog.Logger
}

// NewKafka connects to the topic and checks that it can be relied on; see
// check. It joins no group: the first call of Receive does.
func NewKafka(ctx context.Context, o KafkaOptions) (*Kafka, error) {
	base, err := o.common()
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	k := &Kafka{options: o, base: base, assignments: make(map[int32]int64)}
	k.client, err = k.connect(
		kgo.DefaultProduceTopic(o.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProduceRequestTimeout(appendTimeout),
		kgo.MaxBufferedRecords(appendRecords),
		// Records in flight go with their call as well. By default a record
		// that a broker has perhaps got is kept until the broker answers, and
		// keeps all that come after it waiting. It may then be there twice,
		// which changes nothing.
		kgo.AllowIdempotentProduceCancellation(),
	)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	k.admin = kadm.NewClient(k.client)
	if err := k.check(ctx); err != nil {
		k.Close() //nolint:contextcheck // it bounds itself, and ctx may have ended
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return k, nil
}

// common is what all clients have in common.
func (o KafkaOptions) common() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.WithLogger(kafkaLog{o.Log}),
		kgo.WithHooks(&reachability{log: o.Log, unreachable: make(map[string]bool)}),
		kgo.DisableClientMetrics(),
		kgo.DialTimeout(kafkaDial),
		kgo.RequestTimeoutOverhead(kafkaAnswer),
		kgo.MetadataMinAge(kafkaRetryMost),
		kgo.RetryBackoffFn(func(attempt int) time.Duration {
			return min(kafkaRetryFirst<<min(attempt-1, 8), kafkaRetryMost)
		}),
	}
	if o.ClientID != "" {
		opts = append(opts, kgo.ClientID(o.ClientID))
	}
	if o.TLS {
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	switch o.SASL {
	case "":
	case "plain":
		opts = append(opts, kgo.SASL(plain.Auth{User: o.Username, Pass: o.Password}.AsMechanism()))
	case "scram-sha-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: o.Username, Pass: o.Password}.AsSha256Mechanism()))
	case "scram-sha-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: o.Username, Pass: o.Password}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("there is no SASL mechanism %q", o.SASL)
	}
	return opts, nil
}

// connect makes a client. It connects when it is used.
func (k *Kafka) connect(more ...kgo.Opt) (*kgo.Client, error) {
	opts := make([]kgo.Opt, 0, len(k.base)+len(more))
	return kgo.NewClient(append(append(opts, k.base...), more...)...)
}

// Append is part of Queue: one request to each broker that leads a partition
// of the updates. Safe for concurrent use. It answers when ctx ends, or after
// appendTimeout and appendGrace; the updates that it has no word of by then
// may be there or not.
func (k *Kafka) Append(ctx context.Context, updates []Update) []error {
	waiting, cancel := context.WithTimeout(ctx, appendTimeout+appendGrace)
	defer cancel()
	select {
	case errs := <-k.produce(waiting, recordsOf(updates)):
		return errs
	case <-waiting.Done():
		return slices.Repeat([]error{waiting.Err()}, len(updates))
	}
}

// produce hands records to the client. What becomes of them comes through the
// channel, as Append answers it.
func (k *Kafka) produce(ctx context.Context, records []*kgo.Record) <-chan []error {
	results := make(chan []error, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		results <- slices.Repeat([]error{ErrClosed}, len(records))
		return results
	}
	k.appends.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, appendTimeout)
		defer cancel()
		results <- errorsOf(records, k.client.ProduceSync(ctx, records...))
	})
	return results
}

// recordsOf encodes updates. Keys and values are parts of one buffer.
func recordsOf(updates []Update) []*kgo.Record {
	buf := make([]byte, 0, recordSize*len(updates))
	all := make([]kgo.Record, len(updates))
	records := make([]*kgo.Record, len(updates))
	for i, u := range updates {
		start := len(buf)
		buf = strconv.AppendInt(buf, int64(u.User), 10)
		value := len(buf)
		buf = u.AppendTo(buf)
		// Should the buffer move, what was cut from the old one stays good.
		all[i].Key, all[i].Value = buf[start:value:value], buf[value:len(buf):len(buf)]
		records[i] = &all[i]
	}
	return records
}

// errorsOf is nil if all records were produced, else one error for each. The
// results come in the order in which partitions answered.
func errorsOf(records []*kgo.Record, results kgo.ProduceResults) []error {
	if results.FirstErr() == nil {
		return nil
	}
	byRecord := make(map[*kgo.Record]error, len(results))
	for _, r := range results {
		byRecord[r.Record] = r.Err
	}
	errs := make([]error, len(records))
	for i, r := range records {
		errs[i] = byRecord[r]
	}
	return errs
}

// Close is part of Queue. The group hears of it at once, so that others take
// over; where its broker does not answer, after leaveTimeout.
func (k *Kafka) Close() {
	k.mu.Lock()
	closed, consumer := k.closed, k.consumer
	k.closed, k.consumer = true, nil
	k.mu.Unlock()
	if closed {
		return
	}
	if consumer != nil {
		k.leave(consumer)
	}
	k.client.Close() // ends the calls that are under way
	k.appends.Wait()
}

// kafkaLog passes on what clients log. What they call a warning is mostly that
// they try again; an operator hears of that from reachability and from the
// calls that fail.
type kafkaLog struct{ log *slog.Logger }

// Level is part of kgo.Logger.
func (kafkaLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log is part of kgo.Logger.
func (l kafkaLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	if level == kgo.LogLevelError {
		to = slog.LevelWarn
	}
	l.log.Log(context.Background(), to, "kafka: "+msg, keyvals...)
}

// reachability logs when a broker can't be reached any more and when it can
// again, once each.
type reachability struct {
	log         *slog.Logger
	mu          sync.Mutex
	unreachable map[string]bool
}

// OnBrokerConnect is part of kgo.HookBrokerConnect.
func (r *reachability) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if errors.Is(err, context.Canceled) {
		return // nobody waits for it any more
	}
	addr := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
	r.mu.Lock()
	was := r.unreachable[addr]
	r.unreachable[addr] = err != nil
	r.mu.Unlock()
	switch {
	case err != nil && !was:
		r.log.Warn("a Kafka broker can't be reached", "broker", addr, "error", err)
	case err == nil && was:
		r.log.Info("the Kafka broker is reached again", "broker", addr)
	}
}
