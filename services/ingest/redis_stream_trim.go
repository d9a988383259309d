package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// idleConsumerLimit is how long a consumer that holds no entries may be silent
// before it is removed from the group.
const idleConsumerLimit = 24 * time.Hour

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
