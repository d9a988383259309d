package friends

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

const (
	// markTTL is how long a writer that died keeps its users' sets from being
	// stored. No transaction lasts that long: changeTimeout cancels it first.
	markTTL = time.Minute
	// loadingTTL is how long a reader that died keeps others from storing.
	loadingTTL = 10 * time.Second
	// setTTL is how long a set lives at the most; each one gets up to a tenth
	// less, so that sets stored together do not expire together.
	setTTL = time.Hour
	// noFriends is the member that stands for an empty list. It is a number,
	// as are ids, so that Redis keeps the set in its compact encoding.
	noFriends = "0"
)

// cache keeps friend sets in Redis. Safe for concurrent use.
type cache struct {
	rdb  redis.UniversalClient
	keys models.Keys
}

// newToken names one writer or one reader.
func newToken() string { return rand.Text() }

// get reads a user's set; ok is false if there is none. One round trip.
func (c *cache) get(ctx context.Context, user models.UserID) (ids []models.UserID, ok bool, err error) {
	members, err := c.rdb.SMembers(ctx, c.keys.Friends(user)).Result()
	if err != nil {
		return nil, false, fmt.Errorf("read friend set: %w", err)
	}
	if len(members) == 0 {
		return nil, false, nil
	}
	ids = make([]models.UserID, 0, len(members))
	for _, m := range members {
		if m == noFriends {
			continue
		}
		id, err := models.ParseUserID(m)
		if err != nil {
			return nil, false, fmt.Errorf("friend set of %v has member %q: %w", user, m, err)
		}
		ids = append(ids, id)
	}
	return ids, true, nil
}

// begin asks to be the one reader that may store the user's set. It must come
// before the list is read from SQL. One round trip.
func (c *cache) begin(ctx context.Context, user models.UserID) (token string, granted bool) {
	token = newToken()
	err := c.rdb.SetArgs(ctx, c.keys.FriendsLoading(user), token, redis.SetArgs{Mode: "NX", TTL: loadingTTL}).Err()
	return token, err == nil
}

// userKeys are the keys of the scripts below, in this order.
func (c *cache) userKeys(user models.UserID) []string {
	return []string{c.keys.FriendsChanging(user), c.keys.Friends(user), c.keys.FriendsLoading(user)}
}

// storeScript stores a set that was read from SQL, unless a change is under
// way or came about since the reader began.
//
//	KEYS    changing, friends, loading
//	ARGV    the reader's token, the set's lifetime in ms, members…
//	result  1 if stored, 0 if not
const storeScript = `
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('GET', KEYS[3]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[2], KEYS[3])
for i = 3, #ARGV, 1000 do
  redis.call('SADD', KEYS[2], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
`

// store keeps the list that the reader with the token has read, if it may. A
// set that was not stored is read again next time. One round trip.
func (c *cache) store(ctx context.Context, user models.UserID, token string, ids []models.UserID) (stored bool, err error) {
	ttl := setTTL - mathrand.N(setTTL/10)
	args := make([]any, 0, 3+len(ids))
	args = append(args, token, ttl.Milliseconds())
	for _, id := range ids {
		args = append(args, int64(id))
	}
	if len(ids) == 0 {
		args = append(args, noFriends)
	}
	n, err := c.rdb.Eval(ctx, storeScript, c.userKeys(user), args...).Int()
	if err != nil {
		return false, fmt.Errorf("store friend set: %w", err)
	}
	return n == 1, nil
}

// markScript announces a change: nobody stores the set from here on, and what
// stands there is removed.
//
//	KEYS  changing, friends, loading
//	ARGV  the writer's token, the mark's lifetime in ms
//
// Each writer's token is a member of its own, so that one that is done does
// not clear the mark of another that is not.
const markScript = `
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('DEL', KEYS[2], KEYS[3])
return 1
`

// mark must succeed before a change of the users' lists commits. One round
// trip for all users.
func (c *cache) mark(ctx context.Context, token string, users []models.UserID) error {
	return c.each(ctx, users, markScript, token, strconv.FormatInt(markTTL.Milliseconds(), 10))
}

// clearScript ends a change: the set is removed once more, in case the mark
// was lost with a Redis that restarted, and the writer's mark is lifted.
//
//	KEYS  changing, friends, loading
//	ARGV  the writer's token
const clearScript = `
redis.call('DEL', KEYS[2], KEYS[3])
redis.call('SREM', KEYS[1], ARGV[1])
return 1
`

// clear comes after the commit. Where it fails, the marks expire by
// themselves. One round trip for all users.
func (c *cache) clear(ctx context.Context, token string, users []models.UserID) error {
	return c.each(ctx, users, clearScript, token)
}

// eachBatch bounds the commands of one pipeline.
const eachBatch = 1000

func (c *cache) each(ctx context.Context, users []models.UserID, script string, args ...any) error {
	for len(users) > 0 {
		n := min(len(users), eachBatch)
		pipe := c.rdb.Pipeline()
		for _, user := range users[:n] {
			pipe.Eval(ctx, script, c.userKeys(user), args...)
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("announce friend change: %w", err)
		}
		users = users[n:]
	}
	return nil
}
