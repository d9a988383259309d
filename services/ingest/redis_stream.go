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

	"stepboard/internal/keys"

	"github.com/redis/go-redis/v9"
)

const (
	// streamGroup is the consumer group of a stream.
	streamGroup = "boards"
	// streamEntries is how many entries one command reads. An entry has up to
	// one flush of updates.
	streamEntries = 100
	// streamBlock is how long Receive waits for something to come.
	streamBlock = time.Second
	// housekeepEvery is how often a consumer takes over what others have died
	// with, and trims.
	housekeepEvery = 5 * time.Second
	// idleConsumerLimit is how long a consumer may be gone that has left nothing
	// behind.
	idleConsumerLimit = 24 * time.Hour
)

// Stream is a Queue in Redis. What was appended is as durable as that Redis:
// see its appendfsync.
type Stream struct {
	rdb      redis.UniversalClient
	keys     keys.Builder
	options  StreamOptions
	consumer string

	lastHousekeeping time.Time // of the goroutine that receives
	claimFrom        string    // where the next look for abandoned entries begins
}

// StreamOptions bounds a stream.
type StreamOptions struct {
	// MaxUpdates is how many updates the stream holds at most: about 40 bytes
	// each. More are refused.
	MaxUpdates int64
	// Keep is how long entries are kept after they were acknowledged, to be
	// applied again.
	Keep time.Duration
	// ClaimAfter is how long a consumer may hold an entry before another one
	// takes it over.
	ClaimAfter time.Duration
}

// NewStream makes a queue over the client, which it closes.
func NewStream(rdb redis.UniversalClient, keys keys.Builder, o StreamOptions) *Stream {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &Stream{
		rdb: rdb, keys: keys, options: o, claimFrom: "0-0",
		consumer: host + "." + strconv.Itoa(os.Getpid()) + "." + rand.Text()[:6],
	}
}

// appendScript adds one entry, unless the stream is full.
//
//	KEYS    the stream; its counts
//	ARGV    most updates of the stream; number of updates; their encodings
//	result  the entry's id
//
// Each entry says how many updates were appended up to it, so that the number
// from an entry on is a difference.
const appendScript = `
local counts = redis.call('HMGET', KEYS[2], 'appended', 'trimmed')
local kept = tonumber(counts[1] or '0') - tonumber(counts[2] or '0')
if kept + tonumber(ARGV[2]) > tonumber(ARGV[1]) then
  return redis.error_reply('FULL the stream holds as many updates as it may')
end
local appended = redis.call('HINCRBY', KEYS[2], 'appended', ARGV[2])
return redis.call('XADD', KEYS[1], '*', 'n', ARGV[2], 'c', string.format('%.0f', appended), 'u', ARGV[3])
`

var appendToStream = redis.NewScript(appendScript)

// Append adds the updates as one entry: all of them or none. One round trip.
func (s *Stream) Append(ctx context.Context, updates []Update) []error {
	payload := make([]byte, 0, 48*len(updates))
	var one [maxUpdate]byte
	for _, u := range updates {
		encoded := u.AppendTo(one[:0])
		payload = binary.AppendUvarint(payload, uint64(len(encoded)))
		payload = append(payload, encoded...)
	}
	keys := []string{s.keys.IngestStream(), s.keys.IngestCounts()}
	err := appendToStream.Run(ctx, s.rdb, keys, s.options.MaxUpdates, len(updates), payload).Err()
	if err == nil {
		return nil
	}
	return slices.Repeat([]error{err}, len(updates))
}

// Receive is part of Queue. The entries of consumers that have died come
// first.
func (s *Stream) Receive(ctx context.Context, _ int) (Delivery, error) {
	if time.Since(s.lastHousekeeping) >= housekeepEvery {
		entries, err := s.claim(ctx)
		if err != nil || len(entries) > 0 {
			return s.delivery(entries), err
		}
		s.lastHousekeeping = time.Now()
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
		return Delivery{}, s.makeGroup(ctx)
	case err != nil:
		return Delivery{}, fmt.Errorf("read the stream: %w", err)
	}
	return s.delivery(streams[0].Messages), nil
}

// makeGroup makes the group, to begin with everything that is there.
func (s *Stream) makeGroup(ctx context.Context) error {
	err := s.rdb.XGroupCreateMkStream(ctx, s.keys.IngestStream(), streamGroup, "0").Err()
	if redis.HasErrorPrefix(err, "BUSYGROUP") {
		return nil
	}
	return err
}

// claim takes over entries that a consumer has held for too long.
func (s *Stream) claim(ctx context.Context) ([]redis.XMessage, error) {
	entries, next, err := s.rdb.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: s.keys.IngestStream(), Group: streamGroup, Consumer: s.consumer,
		MinIdle: s.options.ClaimAfter, Start: s.claimFrom, Count: streamEntries,
	}).Result()
	if redis.HasErrorPrefix(err, "NOGROUP") {
		return nil, s.makeGroup(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("take over entries: %w", err)
	}
	s.claimFrom = next
	return entries, nil
}

// delivery unpacks entries. One that can't be unpacked is a message as it is.
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

// idTime is when an entry was added.
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

// unacknowledged is the id of the oldest entry that is not acknowledged, and
// the updates from it on; "" where there is none.
func (s *Stream) unacknowledged(ctx context.Context) (id string, updates int64, err error) {
	key := s.keys.IngestStream()
	pipe := s.rdb.Pipeline()
	// In this order: an entry that is received in between is behind the last one
	// that was delivered, or pending, or both, but never neither.
	groups := pipe.XInfoGroups(ctx, key)
	pending := pipe.XPending(ctx, key, streamGroup)
	appended := pipe.HGet(ctx, s.keys.IngestCounts(), "appended")
	if _, err := pipe.Exec(ctx); err != nil && !isMissing(err) {
		return "", 0, err
	}
	from := "-" // without a group nothing was ever received
	at := slices.IndexFunc(groups.Val(), func(g redis.XInfoGroup) bool { return g.Name == streamGroup })
	switch {
	case pending.Err() == nil && pending.Val().Count > 0:
		from = pending.Val().Lower
	case at >= 0:
		from = "(" + groups.Val()[at].LastDeliveredID
	}
	first, err := s.rdb.XRangeN(ctx, key, from, "+", 1).Result()
	if err != nil || len(first) == 0 {
		return "", 0, err
	}
	all, err := appended.Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", 0, err
	}
	return first[0].ID, max(all-appendedBefore(first[0]), 1), nil
}

// appendedBefore is how many updates were appended before an entry; 0 for one that
// Append has not made.
func appendedBefore(e redis.XMessage) int64 {
	upto, err1 := strconv.ParseInt(fmt.Sprint(e.Values["c"]), 10, 64)
	n, err2 := strconv.ParseInt(fmt.Sprint(e.Values["n"]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return upto - n
}

// isMissing tells that the stream, its group or its counter is not there.
func isMissing(err error) bool {
	return errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "NOGROUP") || redis.HasErrorPrefix(err, "no such key")
}

// horizonScript writes down which entry is the oldest that is not acknowledged,
// and tells which one was as long ago as entries are kept.
//
//	KEYS    the horizons
//	ARGV    the time and how long entries are kept, in milliseconds; the oldest
//	        entry's id
//	result  an id before which all entries have been kept for long enough, or ''
//
// A hundred horizons are enough, however often this is asked. One that does not
// move stays with its first moment.
const horizonScript = `
local now, keep = tonumber(ARGV[1]), tonumber(ARGV[2])
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if not last[2] or now - tonumber(last[2]) >= keep / 100 then
  redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[3])
end
local upto = string.format('%.0f', now - keep)
local due = redis.call('ZREVRANGEBYSCORE', KEYS[1], upto, '-inf', 'LIMIT', 0, 1)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', upto)
return due[1] or ''
`

var moveHorizon = redis.NewScript(horizonScript)

// trim removes entries that were acknowledged as long ago as they are kept, and
// consumers that are long gone.
func (s *Stream) trim(ctx context.Context) error {
	// In this order: what comes in between is behind the horizon.
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return fmt.Errorf("ask the stream's time: %w", err)
	}
	oldest, _, err := s.unacknowledged(ctx)
	if err != nil {
		return fmt.Errorf("look at the stream: %w", err)
	}
	if oldest == "" {
		oldest = strconv.FormatInt(now.UnixMilli(), 10)
	}
	// What is acknowledged is kept from then on, however long it had waited: what
	// was the oldest of the others so long ago is the first that stays.
	minID, err := moveHorizon.Run(ctx, s.rdb, []string{s.keys.IngestHorizons()}, now.UnixMilli(), s.options.Keep.Milliseconds(), oldest).Text()
	if err != nil {
		return fmt.Errorf("look how far the stream was acknowledged: %w", err)
	}
	if minID == "" {
		return nil
	}
	pipe := s.rdb.Pipeline()
	pipe.XTrimMinIDApprox(ctx, s.keys.IngestStream(), minID, 0)
	first := pipe.XRangeN(ctx, s.keys.IngestStream(), "-", "+", 1)
	appended := pipe.HGet(ctx, s.keys.IngestCounts(), "appended")
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("trim the stream: %w", err)
	}
	trimmed := appended.Val()
	if len(first.Val()) > 0 {
		trimmed = strconv.FormatInt(appendedBefore(first.Val()[0]), 10)
	}
	if trimmed != "" {
		if err := s.rdb.HSet(ctx, s.keys.IngestCounts(), "trimmed", trimmed).Err(); err != nil {
			return fmt.Errorf("count what was trimmed: %w", err)
		}
	}
	consumers, err := s.rdb.XInfoConsumers(ctx, s.keys.IngestStream(), streamGroup).Result()
	if err != nil && !isMissing(err) {
		return fmt.Errorf("list consumers: %w", err)
	}
	for _, c := range consumers {
		if c.Pending == 0 && c.Idle > idleConsumerLimit {
			if err := s.rdb.XGroupDelConsumer(ctx, s.keys.IngestStream(), streamGroup, c.Name).Err(); err != nil {
				return fmt.Errorf("forget a consumer: %w", err)
			}
		}
	}
	return nil
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

// Lag is part of Queue. Its messages are those from the oldest one on that is
// not acknowledged. Three round trips.
func (s *Stream) Lag(ctx context.Context) (Lag, error) {
	oldest, updates, err := s.unacknowledged(ctx)
	if err != nil {
		return Lag{}, err
	}
	now, err := s.rdb.Time(ctx).Result()
	if err != nil || oldest == "" {
		return Lag{}, err
	}
	return Lag{Messages: updates, Oldest: max(0, now.Sub(idTime(oldest)))}, nil
}

// Close is part of Queue. A consumer that holds nothing is forgotten at once;
// what it holds is taken over.
func (s *Stream) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), streamBlock)
	defer cancel()
	pending, err := s.rdb.XPendingExt(ctx, &redis.XPendingExtArgs{
		Stream: s.keys.IngestStream(), Group: streamGroup, Start: "-", End: "+", Count: 1, Consumer: s.consumer,
	}).Result()
	if err == nil && len(pending) == 0 {
		s.rdb.XGroupDelConsumer(ctx, s.keys.IngestStream(), streamGroup, s.consumer)
	}
	_ = s.rdb.Close() // there is nobody to tell
}
