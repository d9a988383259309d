package directory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/internal/spread"
	"stepboard/models"
)

const (
	// copyTTL is how long a copy is kept after it was written, give or take copySpread,
	// so that copies that were stored together do not expire together. Reading does not
	// renew it: that would make every read a write.
	copyTTL    = 7 * 24 * time.Hour
	copySpread = 24 * time.Hour
	// redisPause is how long Redis is not asked after it has failed, so that reads
	// do not wait for it one after the other.
	redisPause = time.Second
)

var errPaused = errors.New("redis has failed within the last second")

// Copies holds the copies of records in Redis. A nil *Copies has none and keeps none: the only
// process on its stores has its own memory. Safe for concurrent use.
type Copies struct {
	rdb    redis.UniversalClient
	keys   keys.Builder
	clock  models.Clock
	paused atomic.Int64 // Unix nanoseconds until which Redis is not asked
}

// NewCopies returns the copies on the client. clock is the machine's.
func NewCopies(rdb redis.UniversalClient, names keys.Builder, clock models.Clock) *Copies {
	return &Copies{rdb: rdb, keys: names, clock: clock}
}

// exec sends the commands that queue adds, in one round trip. A missing key is no
// error of it.
func (c *Copies) exec(ctx context.Context, queue func(redis.Pipeliner)) error {
	if c == nil {
		return nil
	}
	if c.clock().UnixNano() < c.paused.Load() {
		return errPaused
	}
	pipe := c.rdb.Pipeline()
	queue(pipe)
	_, err := pipe.Exec(ctx)
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	if ctx.Err() == nil {
		c.paused.Store(c.clock().Add(redisPause).UnixNano())
	}
	return fmt.Errorf("users in redis: %w", err)
}

// get returns the value of each of some keys, by position; "" for those that Redis lacks.
func (c *Copies) get(ctx context.Context, n int, key func(i int) string) ([]string, error) {
	found := make([]*redis.StringCmd, n)
	err := c.exec(ctx, func(pipe redis.Pipeliner) {
		for i := range found {
			found[i] = pipe.Get(ctx, key(i))
		}
	})
	values := make([]string, n)
	if c == nil || err != nil {
		return values, err
	}
	for i, cmd := range found {
		values[i] = cmd.Val()
	}
	return values, nil
}

// rows returns the row id of each user, by position; 0 for those that Redis lacks.
func (c *Copies) rows(ctx context.Context, users []string) ([]models.RowID, error) {
	found, err := c.get(ctx, len(users), func(i int) string { return c.keys.UserRow(models.UserID(users[i])) })
	rows := make([]models.RowID, len(users))
	for i, text := range found {
		if row, err := models.ParseRowID(text); err == nil {
			rows[i] = row
		}
	}
	return rows, err
}

// records returns the record of each user, by position; an empty one for those that
// Redis lacks.
func (c *Copies) records(ctx context.Context, rows []models.RowID) ([]models.Record, error) {
	found, err := c.get(ctx, len(rows), func(i int) string { return c.keys.User(rows[i]) })
	records := make([]models.Record, len(rows))
	for i, text := range found {
		if record, err := decode(text); err == nil && record.Row == rows[i] {
			records[i] = record
		}
	}
	return records, err
}

// storeScript stores a copy of a record, unless the stored one is as new.
//
//	KEYS    the record
//	ARGV    the encoded record, its lifetime in seconds
//	result  1 if stored, 0 if not
const storeScript = `
local stored = tonumber(redis.call('GETRANGE', KEYS[1], 0, 15)) or -1
if stored >= tonumber(string.sub(ARGV[1], 1, 16)) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
`

// store stores copies of records and of their users' row ids, unless those stored are
// as new. One round trip.
func (c *Copies) store(ctx context.Context, records []models.Record) error {
	if len(records) == 0 {
		return nil
	}
	return c.exec(ctx, func(pipe redis.Pipeliner) {
		for _, r := range records {
			ttl := copyTTL - copySpread + spread.Of(int64(r.Row), 2*copySpread)
			if r.Version == 0 { // older than any other copy, so no script has to compare
				pipe.SetNX(ctx, c.keys.User(r.Row), encode(r), ttl)
			} else {
				pipe.Eval(ctx, storeScript, []string{c.keys.User(r.Row)}, encode(r), int64(ttl.Seconds()))
			}
			pipe.Set(ctx, c.keys.UserRow(r.User), int64(r.Row), ttl)
		}
	})
}

// raiseHighestScript raises both counters in Redis.
//
//	KEYS  the counters
//	ARGV  row id, version
const raiseHighestScript = `
for i, field in ipairs({'row', 'version'}) do
  if (tonumber(redis.call('HGET', KEYS[1], field)) or 0) < tonumber(ARGV[i]) then
    redis.call('HSET', KEYS[1], field, ARGV[i])
  end
end
return 1
`

// raiseHighest stores counters, unless higher ones are stored.
func (c *Copies) raiseHighest(ctx context.Context, counters Counters) error {
	return c.exec(ctx, func(pipe redis.Pipeliner) {
		pipe.Eval(ctx, raiseHighestScript, []string{c.keys.UserCounters()}, int64(counters.Row), counters.Version)
	})
}

// highest returns the stored counters; 0 for those that Redis lacks.
func (c *Copies) highest(ctx context.Context) (Counters, error) {
	if c == nil {
		return Counters{}, nil
	}
	values, err := c.rdb.HMGet(ctx, c.keys.UserCounters(), "row", "version").Result()
	if err != nil {
		return Counters{}, fmt.Errorf("read the counters of users: %w", err)
	}
	var numbers [2]int64
	for i, value := range values {
		if text, ok := value.(string); ok {
			if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
				return Counters{}, fmt.Errorf("the counters of users: %w", err)
			}
		}
	}
	return Counters{Row: models.RowID(numbers[0]), Version: numbers[1]}, nil
}

// dropRowScript removes a user's row id if it is the given one.
//
//	KEYS    the row id of the user
//	ARGV    row id
//	result  1 if removed, 0 if not
const dropRowScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`

// dropErased removes the copies of users, and returns the number of keys. A copy of a
// record names the user id, also if the caller does not. So the row ids are removed first: if that
// fails, the next call still finds them. Three round trips at most.
func (c *Copies) dropErased(ctx context.Context, users []Erased) (dropped int64, err error) {
	if c == nil {
		return 0, nil
	}
	found, err := c.get(ctx, len(users), func(i int) string { return c.keys.User(users[i].Row) })
	if err != nil {
		return 0, err
	}
	rowIDs, records := c.rdb.Pipeline(), c.rdb.Pipeline()
	dropRow := func(user models.UserID, row models.RowID) {
		rowIDs.Eval(ctx, dropRowScript, []string{c.keys.UserRow(user)}, int64(row))
	}
	for i, user := range users {
		if user.User != nil {
			dropRow(*user.User, user.Row)
		}
		if found[i] == "" {
			continue
		}
		if record, err := decode(found[i]); err == nil {
			dropRow(record.User, user.Row)
		}
		records.Do(ctx, "unlink", c.keys.User(user.Row))
	}
	for _, pipe := range []redis.Pipeliner{rowIDs, records} {
		removed, err := pipe.Exec(ctx)
		if err != nil {
			return dropped, fmt.Errorf("users in redis: %w", err)
		}
		for _, cmd := range removed {
			n, _ := cmd.(*redis.Cmd).Int64()
			dropped += n
		}
	}
	return dropped, nil
}

// scanStep is how many keys a step of dropAll looks at.
const scanStep = 1000

// dropAll removes all copies. It walks over all keys of every master.
func (c *Copies) dropAll(ctx context.Context) error {
	if c == nil {
		return nil
	}
	for _, begin := range []string{c.keys.UserBegin(), c.keys.UserRowBegin()} {
		cluster, ok := c.rdb.(*redis.ClusterClient)
		var err error
		if ok {
			err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return c.drop(ctx, node, begin) })
		} else {
			err = c.drop(ctx, c.rdb, begin)
		}
		if err != nil {
			return fmt.Errorf("drop records of users: %w", err)
		}
	}
	return nil
}

// drop removes the keys with this beginning that are on one server.
func (c *Copies) drop(ctx context.Context, node redis.Cmdable, begin string) error {
	pattern := keys.Pattern(begin)
	for cursor := uint64(0); ; {
		found, next, err := node.Scan(ctx, cursor, pattern, scanStep).Result()
		if err != nil {
			return err
		}
		pipe := c.rdb.Pipeline() // not the node's: the slot of a key may be moving
		for _, key := range found {
			pipe.Unlink(ctx, key)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
