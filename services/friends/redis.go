package friends

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
)

const (
	// markTTL is how long the mark of a writer that died prevents its users'
	// sets from being stored. No transaction lasts that long: changeTimeout
	// cancels it first.
	markTTL = time.Minute
	// loadingTTL is how long the claim of a reader that died prevents others
	// from storing a set.
	loadingTTL = 10 * time.Second
	// setTTL is the longest lifetime of a set. Each set gets up to a tenth
	// less, so that sets that were stored together do not expire together.
	setTTL = time.Hour
	// noFriends is the member that represents an empty list. It is a number, as
	// ids are, so that Redis keeps the set in its compact encoding.
	noFriends = "0"
)

// Cache stores friend sets in Redis. Safe for concurrent use.
type Cache struct {
	rdb  redis.UniversalClient
	keys keys.Builder
}

// NewCache returns a cache over the client.
func NewCache(rdb redis.UniversalClient, keys keys.Builder) *Cache {
	return &Cache{rdb: rdb, keys: keys}
}

// newToken returns a random token, which identifies one writer or one reader.
func newToken() string { return rand.Text() }

// get returns a user's set; ok is false if none is stored. One round trip.
func (c *Cache) get(ctx context.Context, user models.RowID) (ids []models.RowID, ok bool, err error) {
	members, err := c.rdb.SMembers(ctx, c.keys.Friends(user)).Result()
	if err != nil {
		return nil, false, fmt.Errorf("read friend set: %w", err)
	}
	if len(members) == 0 {
		return nil, false, nil
	}
	ids = make([]models.RowID, 0, len(members)+1) // the caller may add the user
	for _, member := range members {
		if member == noFriends {
			continue
		}
		id, err := models.ParseRowID(member)
		if err != nil {
			return nil, false, fmt.Errorf("friend set of %v has member %q: %w", user, member, err)
		}
		ids = append(ids, id)
	}
	return ids, true, nil
}

const (
	// awaitPause and awaitTries bound how long a reader that may not load waits
	// for the set that another one is loading.
	awaitPause = 5 * time.Millisecond
	awaitTries = 20
)

// awaitLoad waits for the set that another reader is loading; ok is false if it
// is not stored in time.
func (c *Cache) awaitLoad(ctx context.Context, user models.RowID) (ids []models.RowID, ok bool, err error) {
	for range awaitTries {
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(awaitPause):
		}
		if ids, ok, err = c.get(ctx, user); ok || err != nil {
			break
		}
	}
	return ids, ok, err
}

// beginLoad claims the right to load the user's set; one reader at a time is
// granted it. It must precede the reading of the list from SQL. One round trip.
func (c *Cache) beginLoad(ctx context.Context, user models.RowID) (token string, granted bool, err error) {
	token = newToken()
	err = c.rdb.SetArgs(ctx, c.keys.FriendsLoading(user), token, redis.SetArgs{Mode: "NX", TTL: loadingTTL}).Err()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("ask to load friends: %w", err)
	}
	return token, true, nil
}

// storeScript stores a set that was read from SQL, unless a change is in progress
// or began after the reader. In both cases it ends the reader's claim, so that
// the next reader may load.
//
//	KEYS    changing, friends, loading
//	ARGV    the reader's token, the set's lifetime and a mark's in ms, members…
//	result  1 if stored, 0 if not
const storeScript = `
if redis.call('GET', KEYS[3]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[3])
local mark = redis.call('PTTL', KEYS[1])
if mark == -1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if mark ~= -2 then
  return 0
end
redis.call('DEL', KEYS[2])
for i = 4, #ARGV, 1000 do
  redis.call('SADD', KEYS[2], unpack(ARGV, i, math.min(i + 999, #ARGV)))
end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
`

// store stores the list that the reader with the token has read, if it is
// allowed. A set that was not stored is loaded again by the next reader. One
// round trip.
func (c *Cache) store(ctx context.Context, user models.RowID, token string, ids []models.RowID) (stored bool, err error) {
	ttl := setTTL - mathrand.N(setTTL/10) //nolint:gosec // it spreads the expiry and is no secret
	args := make([]any, 0, 4+len(ids))
	args = append(args, token, ttl.Milliseconds(), markTTL.Milliseconds())
	for _, id := range ids {
		args = append(args, int64(id))
	}
	if len(ids) == 0 {
		args = append(args, noFriends)
	}
	keys := []string{c.keys.FriendsChanging(user), c.keys.Friends(user), c.keys.FriendsLoading(user)}
	n, err := c.rdb.Eval(ctx, storeScript, keys, args...).Int()
	if err != nil {
		return false, fmt.Errorf("store friend set: %w", err)
	}
	return n == 1, nil
}

// mark announces a change: from now on nobody stores the users' sets, and
// stored sets are removed. It must succeed before the change commits.
//
// Each writer's token is a member of its own, so that a writer that is done
// does not remove the mark of another. If the connection breaks before a mark
// has its expiry, the next reader sets it (storeScript). One round trip for
// each thousand users.
func (c *Cache) mark(ctx context.Context, token string, users []models.RowID) error {
	return c.forEachUser(ctx, users, func(pipe redis.Pipeliner, user models.RowID) {
		changing := c.keys.FriendsChanging(user)
		pipe.SAdd(ctx, changing, token)
		pipe.PExpire(ctx, changing, markTTL)
		pipe.Del(ctx, c.keys.Friends(user), c.keys.FriendsLoading(user))
	})
}

// clear follows the commit. It removes the sets once more, in case a restart of
// Redis has lost the marks, and then the writer's marks. If it fails the marks
// expire. One round trip for each thousand users.
func (c *Cache) clear(ctx context.Context, token string, users []models.RowID) error {
	return c.forEachUser(ctx, users, func(pipe redis.Pipeliner, user models.RowID) {
		pipe.Del(ctx, c.keys.Friends(user), c.keys.FriendsLoading(user))
		pipe.SRem(ctx, c.keys.FriendsChanging(user), token)
	})
}

// cacheBatch is how many users one round trip changes.
const cacheBatch = 1000

// forEachUser runs the commands that queue adds for each user, cacheBatch users at
// a time.
func (c *Cache) forEachUser(ctx context.Context, users []models.RowID, queue func(redis.Pipeliner, models.RowID)) error {
	for chunk := range slices.Chunk(users, cacheBatch) {
		pipe := c.rdb.Pipeline()
		for _, user := range chunk {
			queue(pipe, user)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("announce friend change: %w", err)
		}
	}
	return nil
}

// globSpecial escapes the characters that have a meaning in a pattern of keys.
var globSpecial = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// dropAll removes every user's set and every reader's token, and returns how many
// sets there were. It scans all keys of every master twice, in steps of about a
// millisecond.
//
// The tokens go first. A Redis that went back in time has tokens again that a
// change had removed, and their readers may store lists from before that change.
// Once the tokens are gone, no such set appears behind the scan for sets.
func (c *Cache) dropAll(ctx context.Context) (dropped int64, err error) {
	if _, err := c.dropBegin(ctx, c.keys.FriendsLoadingBegin()); err != nil {
		return 0, err
	}
	return c.dropBegin(ctx, c.keys.FriendsBegin())
}

// dropBegin removes the keys with this beginning, and returns how many there were.
func (c *Cache) dropBegin(ctx context.Context, begin string) (dropped int64, err error) {
	cluster, ok := c.rdb.(*redis.ClusterClient)
	if !ok {
		return c.dropBeginOn(ctx, c.rdb, begin)
	}
	var total atomic.Int64
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		n, err := c.dropBeginOn(ctx, node, begin)
		total.Add(n)
		return err
	})
	return total.Load(), err
}

// dropBeginOn removes the keys with this beginning that are on one server.
func (c *Cache) dropBeginOn(ctx context.Context, node redis.Cmdable, begin string) (dropped int64, err error) {
	pattern := globSpecial.Replace(begin) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, cacheBatch).Result()
		if err != nil {
			return dropped, fmt.Errorf("look for friend sets: %w", err)
		}
		pipe := c.rdb.Pipeline() // not the node's: the slot of a key may be moving
		for _, key := range keys {
			pipe.Unlink(ctx, key)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return dropped, fmt.Errorf("drop friend sets: %w", err)
		}
		dropped += int64(len(keys))
		if cursor = next; cursor == 0 {
			return dropped, nil
		}
	}
}
