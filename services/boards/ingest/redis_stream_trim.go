package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// idleConsumerLimit is how long a consumer that holds no entries may be silent
// before it is removed from the group.
const idleConsumerLimit = 24 * time.Hour

// unacknowledged returns the id of the oldest entry that is not acknowledged,
// "" if there is none, and the number of updates from it on.
func (s *Stream) unacknowledged(ctx context.Context) (id string, updates int64, err error) {
	key := s.keys.IngestStream()
	pipe := s.rdb.Pipeline()
	// The order matters: an entry that is received in between is then after the
	// last delivered one, or pending, or both, but never neither.
	groups := pipe.XInfoGroups(ctx, key)
	pending := pipe.XPending(ctx, key, streamGroup)
	appended := pipe.HGet(ctx, s.keys.IngestCounts(), "appended")
	if _, err := pipe.Exec(ctx); err != nil && !isMissing(err) {
		return "", 0, err
	}
	from := "-" // without a group nothing was ever delivered
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

// appendedBefore returns how many updates were appended before an entry, 0 for
// an entry that Append has not made.
func appendedBefore(e redis.XMessage) int64 {
	upto, err1 := strconv.ParseInt(fmt.Sprint(e.Values["c"]), 10, 64)
	n, err2 := strconv.ParseInt(fmt.Sprint(e.Values["n"]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return upto - n
}

// isMissing reports whether the error means that the stream, its group or its
// counts do not exist.
func isMissing(err error) bool {
	return errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "NOGROUP") || redis.HasErrorPrefix(err, "no such key")
}

// horizonScript records the oldest entry that is not acknowledged now, and
// returns the one that was the oldest when the retention time began.
//
//	KEYS    the horizons
//	ARGV    the time, and how long entries are kept, in milliseconds; the id of
//	        the oldest entry
//	result  an id before which all entries have been kept for long enough, or ''
//
// It records at most a hundred horizons for each retention time, however often
// it is called. An id that stays the oldest keeps the time when it became that.
//
// A Redis that is full refuses a script whose first write needs memory, and
// permits all writes of one that begins by removing something. Trimming must
// succeed then, because it frees memory.
const horizonScript = `
local now, keep = tonumber(ARGV[1]), tonumber(ARGV[2])
local upto = string.format('%.0f', now - keep)
local due = redis.call('ZREVRANGEBYSCORE', KEYS[1], upto, '-inf', 'LIMIT', 0, 1)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', upto)
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if not last[2] or now - tonumber(last[2]) >= keep / 100 then
  redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[3])
end
return due[1] or ''
`

// trim removes entries that were acknowledged longer ago than Keep, and consumers
// that are long gone.
func (s *Stream) trim(ctx context.Context) error {
	minID, err := s.horizon(ctx)
	if err != nil || minID == "" {
		return err
	}
	if err := s.trimBefore(ctx, minID); err != nil {
		return err
	}
	return s.removeIdleConsumers(ctx)
}

// horizon returns an id: all entries before it were acknowledged longer ago than
// Keep. "" if no such entries are known. Four round trips.
func (s *Stream) horizon(ctx context.Context) (minID string, err error) {
	// The time is read first, so that entries that are appended in between are
	// behind the horizon.
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("read the stream's time: %w", err)
	}
	oldest, _, err := s.unacknowledged(ctx)
	if err != nil {
		return "", fmt.Errorf("find the oldest entry that is not acknowledged: %w", err)
	}
	if oldest == "" {
		oldest = strconv.FormatInt(now.UnixMilli(), 10)
	}
	// Keep counts from the acknowledgement, however long an entry had waited for
	// it: the entry that was the oldest unacknowledged one at that time is the
	// first that stays.
	minID, err = s.rdb.Eval(ctx, horizonScript, []string{s.keys.IngestHorizons()}, now.UnixMilli(), s.options.Keep.Milliseconds(), oldest).Text()
	return minID, models.Wrap("move the stream's horizon", err)
}

// trimScript removes entries from the beginning of the stream, and stores how
// many updates were removed so far.
//
//	KEYS  the stream; its counts
//	ARGV  an id; about all entries before it are removed
//
// Like horizonScript it begins by removing, so that a full Redis permits it.
const trimScript = `
redis.call('XTRIM', KEYS[1], 'MINID', '~', ARGV[1])
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local trimmed = redis.call('HGET', KEYS[2], 'appended')
if first then
  local fields = {}
  for i = 1, #first[2], 2 do
    fields[first[2][i]] = tonumber(first[2][i + 1])
  end
  trimmed = '0' -- an entry that Append has not made
  if fields['c'] and fields['n'] then
    trimmed = string.format('%.0f', fields['c'] - fields['n'])
  end
end
if trimmed then
  redis.call('HSET', KEYS[2], 'trimmed', trimmed)
end
`

// trimBefore removes about all entries before the id, and stores how many updates
// were removed so far. One round trip.
func (s *Stream) trimBefore(ctx context.Context, minID string) error {
	keys := []string{s.keys.IngestStream(), s.keys.IngestCounts()}
	if err := s.rdb.Eval(ctx, trimScript, keys, minID).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("trim the stream: %w", err)
	}
	return nil
}

// removeIdleConsumers removes the consumers of processes that ended long ago.
func (s *Stream) removeIdleConsumers(ctx context.Context) error {
	consumers, err := s.rdb.XInfoConsumers(ctx, s.keys.IngestStream(), streamGroup).Result()
	if err != nil && !isMissing(err) {
		return fmt.Errorf("list consumers: %w", err)
	}
	for _, c := range consumers {
		if c.Pending == 0 && c.Idle > idleConsumerLimit {
			if err := s.rdb.XGroupDelConsumer(ctx, s.keys.IngestStream(), streamGroup, c.Name).Err(); err != nil {
				return fmt.Errorf("remove an idle consumer: %w", err)
			}
		}
	}
	return nil
}

// Lag is part of Queue. It counts the messages from the oldest one that is not
// acknowledged on. Three round trips.
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
