// Package keys names every key that Stepboard stores in Redis.
package keys

import (
	"strconv"
	"strings"

	"stepboard/models"
)

// Builder builds key names. Each name begins with Prefix, which is empty in
// production and lets tests and other tenants share a server. Keys that one
// command or script uses together share a hash tag, the part in braces, so that a
// cluster stores them in one slot.
type Builder struct {
	Prefix string
}

// Pattern returns the pattern for SCAN of all keys with a beginning.
func Pattern(begin string) string { return globSpecial.Replace(begin) + "*" }

// globSpecial escapes the characters that have a meaning in a pattern.
var globSpecial = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Board names one shard of a bucket.
//
//	example   board:{steps.07}:20261120
//	type      sorted set: member = row id, score = composite
//	writer    services/boards/board, with ZADD GT only
//	lifetime  until the bucket is archived; never expires, must not be evicted
//	truth     this key itself, or the ingest queue if one is configured
//
// The hash tag names the board and the shard but not the bucket, so that the
// buckets of one shard share a slot.
func (k Builder) Board(bucket *models.Bucket, shard int) string {
	return string(k.board(bucket, shard))
}

func (k Builder) board(bucket *models.Bucket, shard int) []byte {
	return append(k.shard(bucket.Board, shard), bucket.Name...)
}

// shard returns the beginning of the keys of one shard of a board.
func (k Builder) shard(board string, shard int) []byte {
	buf := make([]byte, 0, 64)
	buf = append(buf, k.Prefix...)
	buf = append(buf, "board:{"...)
	buf = append(buf, board...)
	buf = append(buf, '.')
	if shard < 10 {
		buf = append(buf, '0')
	}
	buf = strconv.AppendInt(buf, int64(shard), 10)
	return append(buf, "}:"...)
}

// BoardHour names the increments of one shard of a rolling board in one hour of
// UTC. A user's composite in Board encodes the sum of the user's scores in these
// keys, and the latest time in any of them.
//
//	example   board:{active-24h.00}:live:2026112013
//	type      sorted set: member = row id, score = composite, as Board
//	writer    services/boards/board, with its scripts for rolling boards
//	lifetime  until the hour has left the window and was drained
//	truth     table score_totals
func (k Builder) BoardHour(bucket *models.Bucket, shard int, hour models.Hour) string {
	buf := append(k.board(bucket, shard), ':')
	return string(append(buf, hour.String()...))
}

// BoardHours names the list of hours for which one shard of a rolling board has a
// BoardHour. From it the hours that are still to be drained are found.
//
//	example   board:{active-24h.00}:live:hours
//	type      sorted set: member = hour, such as 2026112013, score = hours since
//	          the Unix epoch
//	writer    services/boards/board, with its scripts for rolling boards
//	lifetime  never expires
//	truth     table score_totals
func (k Builder) BoardHours(bucket *models.Bucket, shard int) string {
	return string(append(k.board(bucket, shard), ":hours"...))
}

// BoardNow names the latest hour that a script has passed to one shard of a rolling
// board. It never decreases, so that an hour is not raised again after it was
// drained.
//
//	example   board:{active-24h.00}:live:now
//	type      string: hours since the Unix epoch
//	writer    services/boards/board, with its scripts for rolling boards
//	lifetime  never expires
//	truth     none needed: without it the next caller's hour is taken
func (k Builder) BoardNow(bucket *models.Bucket, shard int) string {
	return string(append(k.board(bucket, shard), ":now"...))
}

// Late names the updates applied to one shard of a bucket after it had turned cold.
// Readers don't see them; the next archival merges them. Buckets of the ledger have
// none.
//
//	example   board:{steps.07}:20261120:late
//	type      sorted set, as Board
//	writer    services/boards/board, with ZADD GT only
//	lifetime  until the next archival
//	truth     this key itself, or the ingest queue if one is configured
func (k Builder) Late(bucket *models.Bucket, shard int) string {
	return string(append(k.board(bucket, shard), ":late"...))
}

// Reported names what users of one shard of a bucket have reported while a correction of
// their scores holds. Readers don't see it. When the correction is lifted, it is joined
// into the Board; the archival joins what is left.
//
//	example   board:{steps.07}:20261120:reported
//	type      sorted set, as Board
//	writer    services/boards/board, with ZADD GT only
//	lifetime  until the bucket is archived
//	truth     this key itself, or the ingest queue if one is configured
func (k Builder) Reported(bucket *models.Bucket, shard int) string {
	return string(append(k.board(bucket, shard), ":reported"...))
}

// Frozen names a Board, or another key of the shard's entries, that an archive run has
// frozen by renaming it. No process writes to it any more.
//
//	example   board:{steps.07}:20261120:aside:1, board:{steps.07}:20261120:late:aside:1
//	type      sorted set, as Board
//	writer    services/boards/board, with RENAMENX only
//	lifetime  until the run has committed
//	truth     this key itself, until the run has committed; then archived_scores
func (k Builder) Frozen(bucket *models.Bucket, shard, run int, of models.EntryKey) string {
	buf := k.board(bucket, shard)
	if of != models.KeyBoard {
		buf = append(buf, ':')
		buf = append(buf, of...)
	}
	buf = append(buf, ":aside:"...)
	return string(strconv.AppendInt(buf, int64(run), 10))
}

// Changes names the change stream of one shard of a board: the changes of its
// buckets, in order. Processes follow it to keep a copy of the buckets. It exists only
// while they do.
//
//	example   board:{steps.07}:changes
//	type      stream: c = a change, encoded by services/boards/board
//	writer    services/boards/board: begun by followers, then written by the scripts that
//	          change a bucket
//	lifetime  entries for a minute or more; the stream until ten minutes after a
//	          follower has last trimmed it
//	truth     none needed: without it followers copy the buckets again
func (k Builder) Changes(board string, shard int) string {
	return string(append(k.shard(board, shard), "changes"...))
}

// LossCheckpoint records when the boards' Redis was last known to be complete. For
// the watcher "queue" or "ledger" that means that it had every update of the queue
// or the ledger, for "sets" that no outdated cached set was left.
//
//	example   boards-noted:queue:{14}, boards-noted:ledger:{14},
//	          boards-noted:sets:{14}; in a cluster one in each stripe
//	type      hash: server = replication id of the server, at = Unix milliseconds,
//	          mark = while data lost by another server is being restored, this
//	          server's id and a token, left:<id> = the moment, as at, from which
//	          writes to the earlier server of this id may be missing
//	writer    services/platform/recovery, every few seconds
//	lifetime  never expires
//	truth     none needed: without it everything is applied or loaded again
func (k Builder) LossCheckpoint(watcher string, stripe int) string {
	return k.Prefix + "boards-noted:" + watcher + ":{" + stripeTag(stripe) + "}"
}

// Sets is a kind of sets that services/people/cache keeps. The names of its keys begin with
// it.
type Sets string

// Friends are the sets of users' friends.
//
//	type      set of row ids, and one negative number: the generation, as -g
//	writer    services/people/cache for services/people/friends, loading on a miss
//	lifetime  about an hour; removed by every change
//	truth     table friendships
const Friends Sets = "friends"

// NotShown are the sets of the people whose scores a user is not shown, because of a choice of
// either of the two. Those who hide from everybody are not in them.
//
//	type      set of row ids, and one negative number: the generation, as -g
//	writer    services/people/cache for services/people/privacy, loading on a miss
//	lifetime  about an hour; removed by every change
//	truth     table privacy_choices
const NotShown Sets = "not-shown"

// Groups are the sets of those members of groups who do not hide from everybody. The owner is the number of the group.
//
//	type      set of row ids, and one negative number: the generation, as -g
//	writer    services/people/cache for services/people/groups, loading on a miss
//	lifetime  about an hour; removed by every change
//	truth     tables group_members and users
const Groups Sets = "groups"

// Set names a cached set. Owner is the number of what the set belongs to: the row
// id of a user, for example.
//
//	example   friends:{43}:1001
//	type, writer, lifetime, truth: those of the kind
func (k Builder) Set(kind Sets, owner int64) string { return k.set(kind, ":{", owner) }

// SetChanging names the mark that a change of a cached set is under way. While it
// exists, no reader stores the set, which might be older than the change.
//
//	example   friends-changing:{43}:1001
//	type      set of the writers' tokens
//	writer    services/people/cache, around every change
//	lifetime  removed after the commit; a minute if the writer died, and about an hour if
//	          it does not know whether its change was committed
//	truth     none needed: while it exists, the set is read from its truth
func (k Builder) SetChanging(kind Sets, owner int64) string { return k.set(kind, "-changing:{", owner) }

// SetLoading names the token of the only reader that may store a set. A change
// removes it, so that a set read before the change is not stored.
//
//	example   friends-loading:{43}:1001
//	type      string: the reader's token
//	writer    services/people/cache, on a miss
//	lifetime  until the set is stored; ten seconds if the reader died
//	truth     none needed: without it a set is read but not stored
func (k Builder) SetLoading(kind Sets, owner int64) string { return k.set(kind, "-loading:{", owner) }

func (k Builder) set(kind Sets, rest string, owner int64) string {
	buf := make([]byte, 0, 64)
	buf = append(buf, k.Prefix...)
	buf = append(buf, kind...)
	buf = append(buf, rest...)
	buf = append(buf, stripeTag(StripeOf(owner))...)
	buf = append(buf, "}:"...)
	return string(strconv.AppendInt(buf, owner, 10))
}

// SetsGeneration names the generation of the cached sets of one stripe, of all
// kinds. A set that has another generation counts as missing.
//
//	example   sets-generation:{43}
//	type      string: a number from 1 to 2^31 - 1
//	writer    services/people/cache, on the first miss, and after Redis may have brought
//	          back sets from before a change
//	lifetime  never expires
//	truth     none needed: without it all sets of the stripe count as missing
func (k Builder) SetsGeneration(stripe int) string {
	return k.Prefix + "sets-generation:{" + stripeTag(stripe) + "}"
}

// SetsChanging names the mark that many cached sets of one stripe are changing. While it
// exists, no reader stores a set of the stripe, of any kind.
//
//	example   sets-changing:{43}
//	type      set of the writers' tokens
//	writer    services/people/cache, around changes of many sets
//	lifetime  removed after the commit; a minute if the writer died
//	truth     none needed: while it exists, sets that are missing are read from their truth
func (k Builder) SetsChanging(stripe int) string {
	return k.Prefix + "sets-changing:{" + stripeTag(stripe) + "}"
}

// SetsChanges names the stream of changes of the cached sets of one stripe, of all
// kinds. In a cluster each stripe has one; elsewhere there is only that of stripe 0.
// Near caches follow it.
//
//	example   sets-changes:{14}
//	type      stream: c = a change, encoded by services/people/cache
//	writer    services/people/cache, before and after every change, if the stream exists; a
//	          process that begins to follow it creates it
//	lifetime  entries for about a minute; ten minutes after the last follower has gone
//	truth     none needed: without it followers start over with empty near caches
func (k Builder) SetsChanges(stripe int) string {
	return k.Prefix + "sets-changes:{" + stripeTag(stripe) + "}"
}

// Passed names what was seen of the rankings of a user who wants to be told of being passed, and when
// the user was told.
//
//	example   passed:1001, where 1001 is the row id
//	type      string: JSON, with the row ids of up to 200 people for each board
//	writer    services/rankings/passed, with its swap script
//	lifetime  52 hours from the last change
//	truth     none needed: without it one notice is not given
func (k Builder) Passed(row models.RowID) string {
	return string(strconv.AppendInt([]byte(k.Prefix+"passed:"), int64(row), 10))
}

// PassedChanges names the stream of notices of being passed, for the open streams of all processes.
//
//	example   passed-changes
//	type      stream: c = a notice as JSON
//	writer    services/rankings/passed: begun by followers
//	lifetime  as Changes
//	truth     none needed: without it open streams are not told
func (k Builder) PassedChanges() string { return k.Prefix + "passed-changes" }

// User names the copy of a user's record: user id, nickname, avatar.
//
//	example   user:1001, where 1001 is the row id
//	type      string: the version of the record, its format, and its fields; see
//	          services/people/directory
//	writer    services/people/directory; a copy is replaced only by a newer one
//	lifetime  about a week from writing
//	truth     table users
func (k Builder) User(row models.RowID) string {
	return string(strconv.AppendInt([]byte(k.UserBegin()), int64(row), 10))
}

// UserBegin returns the prefix of all User keys, which no other key has.
func (k Builder) UserBegin() string { return k.Prefix + "user:" }

// UserRow names the row id of a user.
//
//	example   user-id:auth0|5f7c8ec7, where auth0|5f7c8ec7 is the user id
//	type      string: the row id, decimal
//	writer    services/people/directory
//	lifetime  about a week from writing
//	truth     table users
func (k Builder) UserRow(user models.UserID) string { return k.UserRowBegin() + string(user) }

// UserRowBegin returns the prefix of all UserRow keys, which no other key has.
func (k Builder) UserRowBegin() string { return k.Prefix + "user-id:" }

// UserCounters names the highest row id and the highest version of a record that SQL
// has handed out. By it a database is recognized that was restored from a backup.
//
//	example   users:counters
//	type      hash: row, version
//	writer    services/people/directory
//	lifetime  never expires
//	truth     table users; without it an older database is not recognized
func (k Builder) UserCounters() string { return k.Prefix + "users:counters" }

// Tried names a sorted set and a stream that a server is tried with before it is used.
//
//	example   tried:{5K7X}:set, tried:{5K7X}:stream
//	type      sorted set, stream
//	writer    internal/stores
//	lifetime  a second; they expire after a minute
//	truth     none
func (k Builder) Tried(token string) (set, stream string) {
	begin := k.Prefix + "tried:{" + token + "}:"
	return begin + "set", begin + "stream"
}

// UserCalls names the state of a user's rate limit: the theoretical arrival time
// of the GCRA.
//
//	example   calls:{auth0|5f7c8ec7}
//	type      string: seconds since 2017, with a fraction
//	writer    services/platform/limit, with the script of redis_rate
//	lifetime  a minute at most
//	truth     none needed: without it counting starts again
func (k Builder) UserCalls(user models.UserID) string {
	return k.Prefix + "calls:{" + string(user) + "}"
}

// KeyCalls names the state of the rate limit of an upload address, by its id.
//
//	example   calls-by:{7}
//	type      string, as UserCalls
//	writer    services/platform/limit, with the script of redis_rate
//	lifetime  a minute at most
//	truth     none needed: without it counting starts again
func (k Builder) KeyCalls(id string) string {
	return k.Prefix + "calls-by:{" + id + "}"
}

// AddressCalls names the state of the rate limit of a client address's calls with a good
// token. An IPv6 address counts as its /64 network.
//
//	example   calls-from:{203.0.113.7}, calls-from:{2001:db8::/64}
//	type      string, as UserCalls
//	writer    services/platform/limit, with the script of redis_rate
//	lifetime  a minute at most
//	truth     none needed: without it counting starts again
func (k Builder) AddressCalls(address string) string {
	return k.Prefix + "calls-from:{" + address + "}"
}

// AddressFailures names the state of the rate limit of a client address's calls without a
// good token. An IPv6 address counts as its /64 network.
//
//	example   failures-from:{203.0.113.7}
//	type      string, as UserCalls
//	writer    services/platform/limit, with the script of redis_rate
//	lifetime  a minute at most
//	truth     none needed: without it counting starts again
func (k Builder) AddressFailures(address string) string {
	return k.Prefix + "failures-from:{" + address + "}"
}

// GroupJoins names the state of the limit of a user's calls that join a group by its
// invite code.
//
//	example   joins:{auth0|5f7c8ec7}
//	type      string, as UserCalls
//	writer    services/platform/limit, with the script of redis_rate
//	lifetime  a minute at most
//	truth     none needed: without it counting starts again
func (k Builder) GroupJoins(user models.UserID) string {
	return k.Prefix + "joins:{" + string(user) + "}"
}

// AddressLogins names the state of the rate limit of logins from a client address. An IPv6 address counts as
// its /64 network.
//
//	example   logins-from:{203.0.113.7}
//	type      string, as UserCalls
//	writer    services/platform/limit, with the script of redis_rate
//	lifetime  a minute at most
//	truth     none needed: without it counting starts again
func (k Builder) AddressLogins(address string) string {
	return k.Prefix + "logins-from:{" + address + "}"
}

// IngestStream names the queue of accepted updates. It keeps them until they are
// applied, and for some time after that.
//
//	example   ingest:{stream}
//	type      stream: n = number of updates in the entry, c = number of updates
//	          appended so far, these included, u = their encodings, each after
//	          its length
//	writer    services/boards/ingest, with its append script; trimmed by consumers
//	lifetime  never expires; entries for ingest.redis.keep, and until they are
//	          acknowledged
//	truth     this key itself; it may be on another server than the boards
func (k Builder) IngestStream() string { return k.Prefix + "ingest:{stream}" }

// IngestCounts names the counters of the updates in IngestStream.
//
//	example   ingest:{stream}:counts
//	type      hash: appended = number of updates ever appended, trimmed = number
//	          of updates removed
//	writer    services/boards/ingest: its append script, and consumers that trim
//	lifetime  never expires
//	truth     this key itself; if it is lost, counting starts again
func (k Builder) IngestCounts() string { return k.Prefix + "ingest:{stream}:counts" }

// IngestHorizons names the history of acknowledgements of IngestStream: how far
// entries were acknowledged at various times within ingest.redis.keep.
//
//	example   ingest:{stream}:horizons
//	type      sorted set: member = id of the oldest entry not acknowledged, score =
//	          the time, Unix milliseconds
//	writer    services/boards/ingest, its consumers before they trim
//	lifetime  never expires; about a hundred members
//	truth     none needed: without it entries are kept for ingest.redis.keep again
func (k Builder) IngestHorizons() string { return k.Prefix + "ingest:{stream}:horizons" }

// Stripes is the number of parts that data is divided into which each server of a
// cluster recovers by itself. The keys of a stripe share a hash tag, so they are
// always on one server.
const Stripes = 128

// StripeOf returns the stripe of what the owner with this number has.
func StripeOf(owner int64) int { return int(owner % Stripes) }

// stripeTags are the hash tags of the stripes. Tag i lies in slots 128·i to
// 128·i + 127, so that servers have as many stripes as their share of the slots.
var stripeTags = [Stripes]int{
	14, 10, 100, 18, 113, 117, 346, 342, 131, 29, 25, 21, 3, 7, 122, 126,
	69, 171, 61, 65, 72, 76, 166, 162, 50, 54, 58, 140, 157, 153, 43, 47,
	15, 11, 101, 19, 112, 116, 347, 343, 130, 28, 24, 20, 2, 6, 123, 127,
	68, 170, 60, 64, 73, 77, 167, 163, 51, 55, 59, 141, 156, 152, 42, 46,
	16, 12, 102, 106, 111, 115, 119, 269, 133, 137, 27, 23, 1, 5, 9, 38,
	177, 173, 63, 67, 70, 74, 78, 160, 52, 56, 146, 142, 49, 151, 41, 45,
	17, 13, 103, 107, 110, 114, 118, 268, 132, 136, 26, 22, 0, 4, 8, 39,
	176, 172, 62, 66, 71, 75, 79, 161, 53, 57, 147, 143, 48, 150, 40, 44,
}

// stripeTag returns the hash tag of a stripe, without braces.
func stripeTag(stripe int) string { return strconv.Itoa(stripeTags[stripe]) }
