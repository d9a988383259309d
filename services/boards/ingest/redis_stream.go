package ingest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
)

const (
	// streamGroup is the consumer group of a stream.
	streamGroup = "boards"
	// streamEntries is how many entries one command reads. An entry has up to
	// one flush of updates.
	streamEntries = 100
	// streamBlock is how long Receive waits for an entry.
	streamBlock = time.Second
	// housekeepEvery is how often a consumer claims the entries of dead
	// consumers and trims the stream.
	housekeepEvery = 5 * time.Second
)

// Stream is a Queue in a Redis stream. Updates are as durable as that Redis:
// see its appendfsync.
type Stream struct {
	rdb      redis.UniversalClient
	keys     keys.Builder
	options  StreamOptions
	consumer string
	room     roomCheck

	// Both are used by the goroutine that receives only.
	lastHousekeeping time.Time
	claimFrom        string // the id from which the next claim begins
}

// StreamOptions holds the limits of a stream.
type StreamOptions struct {
	// MaxUpdates is how many updates the stream holds at most, about 40 bytes
	// each. Further ones are refused.
	MaxUpdates int64
	// Keep is how long entries are kept after they were acknowledged, so that
	// they can be replayed.
	Keep time.Duration
	// ClaimAfter is how long a consumer may hold an entry before another one
	// claims it.
	ClaimAfter time.Duration
	// Room returns an error if the boards lack the memory to apply further
	// updates, which Append then refuses. It is asked once a second at most, in
	// the background, and must bound itself. May be nil.
	Room func(context.Context) error
	// Clock is the machine's.
	Clock models.Clock
}

// NewStream returns a queue over the client. Close closes the client.
func NewStream(rdb redis.UniversalClient, keys keys.Builder, o StreamOptions) *Stream {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &Stream{
		rdb: rdb, keys: keys, options: o, claimFrom: "0-0", room: roomCheck{ask: o.Room},
		consumer: host + "." + strconv.Itoa(os.Getpid()) + "." + rand.Text()[:6],
	}
}

// appendScript adds one entry, unless the stream is full.
//
//	KEYS    the stream; its counts
//	ARGV    the largest number of updates in the stream; the number of updates of
//	        the entry; their encodings
//	result  the entry's id
//
// Each entry stores how many updates were appended up to and including it, so
// that the number of updates from an entry on is a difference.
const appendScript = `
local counts = redis.call('HMGET', KEYS[2], 'appended', 'trimmed')
local kept = tonumber(counts[1] or '0') - tonumber(counts[2] or '0')
if kept + tonumber(ARGV[2]) > tonumber(ARGV[1]) then
  return redis.error_reply('FULL the stream holds as many updates as it may')
end
local appended = redis.call('HINCRBY', KEYS[2], 'appended', ARGV[2])
return redis.call('XADD', KEYS[1], '*', 'n', ARGV[2], 'c', string.format('%.0f', appended), 'u', ARGV[3])
`

// Append adds the updates as one entry: all of them or none. One round trip.
func (s *Stream) Append(ctx context.Context, updates []Update) []error {
	if err := s.room.last(ctx); err != nil {
		return slices.Repeat([]error{err}, len(updates))
	}
	payload := make([]byte, 0, 48*len(updates))
	var one [maxUpdate]byte
	for _, u := range updates {
		encoded := u.AppendTo(one[:0])
		payload = binary.AppendUvarint(payload, uint64(len(encoded)))
		payload = append(payload, encoded...)
	}
	keys := []string{s.keys.IngestStream(), s.keys.IngestCounts()}
	err := s.rdb.Eval(ctx, appendScript, keys, s.options.MaxUpdates, len(updates), payload).Err()
	if err == nil {
		return nil
	}
	return slices.Repeat([]error{err}, len(updates))
}

// Receive is part of Queue. The entries of dead consumers come first.
func (s *Stream) Receive(ctx context.Context, _ int) (Delivery, error) {
	if now := s.options.Clock(); now.Sub(s.lastHousekeeping) >= housekeepEvery {
		entries, err := s.claim(ctx)
		if err != nil || len(entries) > 0 {
			return s.delivery(entries), err
		}
		s.lastHousekeeping = now
		if err := s.trim(ctx); err != nil {
			return Delivery{}, err
		}
	}
	streams, err := s.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: streamGroup, Consumer: s.consumer, Streams: []string{s.keys.IngestStream(), ">"},
		Count: streamEntries, Block: streamBlock,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return Delivery{}, nil
	case redis.HasErrorPrefix(err, "NOGROUP"):
		return Delivery{}, s.createGroup(ctx)
	case err != nil:
		return Delivery{}, fmt.Errorf("read the stream: %w", err)
	}
	return s.delivery(streams[0].Messages), nil
}

// createGroup creates the consumer group. It begins with the first entry of the
// stream.
func (s *Stream) createGroup(ctx context.Context) error {
	err := s.rdb.XGroupCreateMkStream(ctx, s.keys.IngestStream(), streamGroup, "0").Err()
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return err
}

// claim takes over entries that a consumer has held for longer than ClaimAfter.
func (s *Stream) claim(ctx context.Context) ([]redis.XMessage, error) {
	entries, next, err := s.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: s.keys.IngestStream(), Group: streamGroup, Consumer: s.consumer,
		MinIdle: s.options.ClaimAfter, Start: s.claimFrom, Count: streamEntries,
	}).Result()
	if redis.HasErrorPrefix(err, "NOGROUP") {
		return nil, s.createGroup(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("claim entries: %w", err)
	}
	s.claimFrom = next
	return entries, nil
}

// delivery unpacks entries. An entry that can't be unpacked becomes one message
// with the entry's bytes.
func (s *Stream) delivery(entries []redis.XMessage) Delivery {
	if len(entries) == 0 {
		return Delivery{}
	}
	ids := make([]string, len(entries))
	var messages []Message
	for i, e := range entries {
		ids[i] = e.ID
		messages = append(messages, unpack(e)...)
	}
	return Delivery{Messages: messages, receipt: ids}
}

// unpack returns the messages of an entry: each is preceded by its length.
func unpack(e redis.XMessage) []Message {
	at := idTime(e.ID)
	text, _ := e.Values["u"].(string)
	rest := []byte(text)
	var messages []Message
	for i := 0; len(rest) > 0; i++ {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			messages = nil
			break
		}
		messages = append(messages, Message{Payload: rest[size : size+int(n)], Position: "stream " + e.ID + "/" + strconv.Itoa(i), At: at})
		rest = rest[size+int(n):]
	}
	if messages == nil {
		return []Message{{Payload: []byte(text), Position: "stream " + e.ID, At: at}}
	}
	return messages
}

// idTime returns the time when an entry was added, the zero time if its id is
// not one of Redis's own.
func idTime(id string) time.Time {
	text, _, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Acknowledge is part of Queue. One command for every few thousand entries,
// all in one round trip.
func (s *Stream) Acknowledge(ctx context.Context, received []Delivery) error {
	var ids []string
	for _, d := range received {
		ids = append(ids, d.receipt.([]string)...)
	}
	pipe := s.rdb.Pipeline()
	for chunk := range slices.Chunk(ids, 5000) {
		pipe.XAck(ctx, s.keys.IngestStream(), streamGroup, chunk...)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// Replay is part of Queue.
func (s *Stream) Replay(ctx context.Context, since time.Time, apply func(context.Context, []Message) error) error {
	last, err := s.rdb.XRevRangeN(ctx, s.keys.IngestStream(), "+", "-", 1).Result()
	if err != nil {
		return fmt.Errorf("find the stream's end: %w", err)
	}
	if len(last) == 0 {
		return nil
	}
	from := "-"
	if !since.IsZero() {
		from = strconv.FormatInt(since.UnixMilli(), 10)
	}
	for {
		entries, err := s.rdb.XRangeN(ctx, s.keys.IngestStream(), from, last[0].ID, streamEntries).Result()
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		if len(entries) == 0 {
			return nil
		}
		if err := apply(ctx, s.delivery(entries).Messages); err != nil {
			return err
		}
		from = "(" + entries[len(entries)-1].ID
	}
}

// Close is part of Queue. A consumer that holds no entries is removed from the
// group at once. Entries that it holds are claimed by another one later.
func (s *Stream) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), streamBlock)
	defer cancel()
	pending, err := s.rdb.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: s.keys.IngestStream(), Group: streamGroup, Start: "-", End: "+", Count: 1, Consumer: s.consumer,
	}).Result()
	if err == nil && len(pending) == 0 {
		s.rdb.XGroupDelConsumer(ctx, s.keys.IngestStream(), streamGroup, s.consumer)
	}
	_ = s.rdb.Close() // nobody could act on an error
}
