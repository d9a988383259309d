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

	"stepboard/internal/column"
	"stepboard/internal/pause"
)

const (
	// appendTimeout is how long Append tries. It is less than flushTimeout, so
	// that updates that it gives up have left the client's buffer before the
	// next flush. appendGrace is how long Append then waits to hear which
	// records were stored.
	appendTimeout = 2 * time.Second
	appendGrace   = 500 * time.Millisecond
	// appendRecords is how many records may wait for a broker, of all calls
	// together, about 5 MB. A call with more waits until others are done.
	appendRecords = 50_000
	// recordSize is about how many bytes a record's key and value have.
	recordSize = 56

	// kafkaDial bounds a connection attempt, TLS included. kafkaAnswer bounds
	// the wait for a response, beyond the time that the request itself asks the
	// broker to wait.
	kafkaDial   = 2 * time.Second
	kafkaAnswer = 5 * time.Second
	// kafkaRetryFirst and kafkaRetryMost bound the pauses between two attempts
	// of the client. Each pause is twice the one before.
	kafkaRetryFirst = 50 * time.Millisecond
	kafkaRetryMost  = 500 * time.Millisecond
)

// Kafka is a Queue in a Kafka topic. An update is appended once all in-sync
// replicas have it. Times are those of the records: by default the clocks of
// the processes that append, and the broker's with
// message.timestamp.type=LogAppendTime.
//
// A user's updates are in one partition, in the order of the calls that
// appended them. A call that failed may have appended some of its updates; if
// it is repeated it appends these again.
type Kafka struct {
	options KafkaOptions
	base    []kgo.Opt // options of every client
	client  *kgo.Client
	admin   *kadm.Client // over client

	appends sync.WaitGroup // calls whose records are not all answered for

	mu       sync.Mutex
	closed   bool
	consumer *kgo.Client // a member of the group; nil before the first Receive
}

// KafkaOptions names a topic and what it must provide.
type KafkaOptions struct {
	// Brokers are the addresses to connect to first, as host:port. They report the
	// other brokers.
	Brokers []string
	Topic   string
	// Group is the consumer group. Its members share the partitions.
	Group string
	// TLS connects with TLS, checked against the system's certificates.
	TLS bool
	// SASL is the login mechanism: plain, scram-sha-256 or scram-sha-512. Empty
	// means no login.
	SASL               string
	Username, Password string
	// Retention is the shortest time that the topic must keep records.
	Retention time.Duration
	Log       *slog.Logger
}

// NewKafka connects to the topic and checks that it is reliable; see check. It
// does not join the group: the first Receive does.
func NewKafka(ctx context.Context, o KafkaOptions) (*Kafka, error) {
	base, err := o.common()
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	k := &Kafka{options: o, base: base}
	k.client, err = k.connect(
		kgo.DefaultProduceTopic(o.Topic),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProduceRequestTimeout(appendTimeout),
		kgo.MaxBufferedRecords(appendRecords),
		// Cancelling a call drops its records in flight, too. By default the
		// client keeps a record that a broker may have received until the broker
		// responds, and all later records wait behind it. A dropped record may be
		// stored twice, which changes nothing.
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

// common returns the options of every client.
func (o KafkaOptions) common() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID("stepboard"), // in the brokers' logs and quotas
		kgo.WithLogger(kafkaLog{o.Log}),
		kgo.WithHooks(reachability{o.Log}),
		kgo.DisableClientMetrics(),
		kgo.DialTimeout(kafkaDial),
		kgo.RequestTimeoutOverhead(kafkaAnswer),
		kgo.MetadataMinAge(kafkaRetryMost),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.MaxConcurrentFetches(fetches),
		kgo.RetryBackoffFn(func(attempt int) time.Duration { return pause.Doubled(kafkaRetryFirst, kafkaRetryMost, attempt) }),
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

// connect returns a client. It opens connections on first use.
func (k *Kafka) connect(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(slices.Concat(k.base, more)...)
}

// Append is part of Queue. It sends one request to each broker that leads a
// partition of the updates. Safe for concurrent use. It returns when ctx ends,
// or after appendTimeout and appendGrace; updates that no broker has answered
// for by then may be stored or not.
func (k *Kafka) Append(ctx context.Context, updates []Update) []error {
	waiting, cancel := context.WithTimeout(ctx, appendTimeout+appendGrace)
	defer cancel()
	records, results := recordsOf(updates), make(chan []error, 1)
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return slices.Repeat([]error{ErrClosed}, len(updates))
	}
	k.appends.Go(func() {
		sending, cancel := context.WithTimeout(waiting, appendTimeout)
		defer cancel()
		results <- errorsOf(records, k.client.ProduceSync(sending, records...))
	})
	k.mu.Unlock()
	select {
	case errs := <-results:
		return errs
	case <-waiting.Done():
		return slices.Repeat([]error{waiting.Err()}, len(updates))
	}
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
		// If append moves the buffer, slices of the old one stay valid.
		all[i].Key, all[i].Value = buf[start:value:value], buf[value:len(buf):len(buf)]
		records[i] = &all[i]
	}
	return records
}

// errorsOf returns nil if all records were produced, otherwise one error for
// each record, nil for those that were. The results are in the order in which
// partitions answered.
func errorsOf(records []*kgo.Record, results kgo.ProduceResults) []error {
	if results.FirstErr() == nil {
		return nil
	}
	byRecord := make(map[*kgo.Record]error, len(results))
	for _, r := range results {
		byRecord[r.Record] = r.Err
	}
	return column.Of(records, func(r *kgo.Record) error { return byRecord[r] })
}

// Close is part of Queue. The consumer leaves the group, so that others take
// over its partitions at once. If the group's broker does not respond, Close
// gives up after leaveTimeout.
func (k *Kafka) Close() {
	k.mu.Lock()
	closed, consumer := k.closed, k.consumer
	k.closed, k.consumer = true, nil
	k.mu.Unlock()
	if closed {
		return
	}
	if consumer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		if err := consumer.LeaveGroupContext(ctx); err != nil {
			k.options.Log.Warn("the Kafka group could not be told that a consumer leaves; its partitions wait", "for", groupSession, "error", err)
		}
		consumer.Close()
	}
	k.client.Close() // ends the calls in progress
	k.appends.Wait()
}

// kafkaLog passes on the log lines of clients. A client's warnings mostly say
// that it tries again: these are logged for debugging only. Operators learn of
// trouble from reachability and from the calls that fail.
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

// reachability logs that a broker can't be reached.
type reachability struct{ log *slog.Logger }

// OnBrokerConnect is part of kgo.HookBrokerConnect.
func (r reachability) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil || errors.Is(err, context.Canceled) { // or the call has ended
		return
	}
	r.log.Warn("a Kafka broker can't be reached",
		"broker", net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))), "error", err)
}
