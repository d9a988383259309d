// Package keys builds the name of every key that Stepboard keeps in Redis.
package keys

import (
	"strconv"

	"stepboard/models"
)

// Builder names every key that Stepboard keeps in Redis. Prefix stands before
// each of them; it is empty in production, and lets tests and other tenants
// share a server. Keys that one command or script touches together share a
// hash tag, the part in braces, so that a cluster keeps them in one slot.
type Builder struct {
	Prefix string
}

// Board is one shard of a bucket.
//
//	example   board:{steps.07}:20261120
//	type      sorted set: member = user id, score = composite
//	writer    services/board, with ZADD GT only
//	lifetime  until the bucket is archived; never expires, must not be evicted
//	truth     this key itself, where no ingest log is configured
//
// The tag names the shard and not the bucket, so that one shard's buckets
// share a slot.
func (k Builder) Board(bucket *models.Bucket, shard int) string {
	return string(k.board(bucket, shard))
}

func (k Builder) board(bucket *models.Bucket, shard int) []byte {
	buf := make([]byte, 0, 64)
	buf = append(buf, k.Prefix...)
	buf = append(buf, "board:{"...)
	buf = append(buf, bucket.Board...)
	buf = append(buf, '.')
	if shard < 10 {
		buf = append(buf, '0')
	}
	buf = strconv.AppendInt(buf, int64(shard), 10)
	buf = append(buf, "}:"...)
	return append(buf, bucket.Name...)
}

// BoardHour is what the users of one shard of a rolling board have reached in
// one hour of UTC. A user's composite in Board is, at every moment, that of the
// sum of these and of the last moment in any of them.
//
//	example   board:{active-24h.00}:live:2026112013
//	type      sorted set: member = user id, score = composite, as Board
//	writer    services/board, with its scripts for rolling boards
//	lifetime  until the hour has left the window and was drained
//	truth     table score_totals
func (k Builder) BoardHour(bucket *models.Bucket, shard int, hour models.Hour) string {
	buf := append(k.board(bucket, shard), ':')
	return string(append(buf, hour.String()...))
}

// BoardHours lists the hours of which one shard of a rolling board has a
// BoardHour, so that what is left to drain is found whenever that may be.
//
//	example   board:{active-24h.00}:live:hours
//	type      sorted set: member = hour, such as 2026112013, score = hours since
//	          the Unix epoch
//	writer    services/board, with its scripts for rolling boards
//	lifetime  never expires
//	truth     table score_totals
func (k Builder) BoardHours(bucket *models.Bucket, shard int) string {
	return string(append(k.board(bucket, shard), ":hours"...))
}

// BoardNow is the latest hour that one shard of a rolling board was told of. It
// never goes back: an hour that was drained once is not raised again.
//
//	example   board:{active-24h.00}:live:now
//	type      string: hours since the Unix epoch
//	writer    services/board, with its scripts for rolling boards
//	lifetime  never expires
//	truth     none needed: without it the next caller's hour counts
func (k Builder) BoardNow(bucket *models.Bucket, shard int) string {
	return string(append(k.board(bucket, shard), ":now"...))
}

// Late is what was applied to one shard of a bucket after it had turned cold.
// No reader sees it; the next archival merges it.
//
//	example   board:{steps.07}:20261120:late
//	type      sorted set, as Board
//	writer    services/board, with ZADD GT only
//	lifetime  until the next archival
//	truth     this key itself, where no ingest log is configured
func (k Builder) Late(bucket *models.Bucket, shard int) string {
	return string(append(k.board(bucket, shard), ":late"...))
}

// Frozen is a Board, or where late is set a Late, that a run of the archival
// has taken over; nobody writes to it any more.
//
//	example   board:{steps.07}:20261120:aside:1, board:{steps.07}:20261120:late:aside:1
//	type      sorted set, as Board
//	writer    services/board, with RENAMENX only
//	lifetime  until the run has committed
//	truth     this key itself, until the run has committed; then archived_scores
func (k Builder) Frozen(bucket *models.Bucket, shard, run int, late bool) string {
	buf := k.board(bucket, shard)
	if late {
		buf = append(buf, ":late"...)
	}
	buf = append(buf, ":aside:"...)
	return string(strconv.AppendInt(buf, int64(run), 10))
}

// LossCheckpoint says that the boards' Redis had everything at a moment: all that
// the queue or the ledger has, or every change of friends, whichever the watcher
// is.
//
//	example   boards-noted:queue:{0}, boards-noted:ledger:{0},
//	          boards-noted:friends:{0}; in a cluster {0} to {127}, so that every
//	          master has some
//	type      hash: server = run id of the server, at = Unix milliseconds, mark =
//	          while what another server than this one may have forgotten is made
//	          good, its run id and a token
//	writer    services/recovery, every few seconds
//	lifetime  never expires
//	truth     none needed: where it is missing everything is applied or loaded again
func (k Builder) LossCheckpoint(watcher string, note int) string {
	return k.Prefix + "boards-noted:" + watcher + ":{" + strconv.Itoa(note) + "}"
}

// Friends is the set of a user's friends.
//
//	example   friends:{1001}
//	type      set of user ids; the single member 0 means "loaded, no friends"
//	writer    services/friends, loading on a miss
//	lifetime  an hour or so; removed by every change
//	truth     table friendships
func (k Builder) Friends(user models.UserID) string { return k.user(friendsBegin, user) }

const friendsBegin = "friends:{"

// FriendsBegin is what every key of Friends begins with, and no other key.
func (k Builder) FriendsBegin() string { return k.Prefix + friendsBegin }

// FriendsChanging marks that a change of the user's friends is under way, so
// that nobody stores a set read before it was committed.
//
//	example   friends-changing:{1001}
//	type      set of the writers' tokens
//	writer    services/friends, around every change
//	lifetime  removed after the commit; a minute where the writer died
//	truth     none needed: while it stands, reads go to Postgres
func (k Builder) FriendsChanging(user models.UserID) string {
	return k.user("friends-changing:{", user)
}

// FriendsLoading holds the token of the one reader that may store the user's
// set. A change removes it, so that what was read before is not stored.
//
//	example   friends-loading:{1001}
//	type      string: the reader's token
//	writer    services/friends, on a miss
//	lifetime  until the set is stored; ten seconds where the reader died
//	truth     none needed: without it a set is read but not stored
func (k Builder) FriendsLoading(user models.UserID) string { return k.user("friends-loading:{", user) }

func (k Builder) user(head string, user models.UserID) string {
	buf := make([]byte, 0, 64)
	buf = append(buf, k.Prefix...)
	buf = append(buf, head...)
	buf = strconv.AppendInt(buf, int64(user), 10)
	buf = append(buf, '}')
	return string(buf)
}

// UserCalls is when the next call of a user would be in step with the limit: the
// theoretical arrival time of the GCRA.
//
//	example   calls:{1001}
//	type      string: seconds since 2017, with a fraction
//	writer    services/limit, with the script of redis_rate
//	lifetime  a minute at most
//	truth     none needed: without it counting begins anew
func (k Builder) UserCalls(user models.UserID) string { return k.user("calls:{", user) }

// AddressCalls is the same of an address; of IPv6 it is the /64 network.
//
//	example   calls-from:{203.0.113.7}, calls-from:{2001:db8::/64}
//	type      string, as UserCalls
//	writer    services/limit, with the script of redis_rate
//	lifetime  a minute at most
//	truth     none needed: without it counting begins anew
func (k Builder) AddressCalls(address string) string {
	return k.Prefix + "calls-from:{" + address + "}"
}

// IngestStream holds accepted updates until they are applied, and for a while
// after.
//
//	example   ingest:{stream}
//	type      stream: n = number of updates in the entry, c = number of updates
//	          appended so far, these included, u = their encodings, each behind
//	          its length
//	writer    services/ingest, with its append script; trimmed by consumers
//	lifetime  never expires; entries as long as ingest.redis.keep says, and
//	          until they are acknowledged
//	truth     this key itself; it may be on another server than the boards
func (k Builder) IngestStream() string { return k.Prefix + "ingest:{stream}" }

// IngestCounts counts the updates of IngestStream.
//
//	example   ingest:{stream}:counts
//	type      hash: appended = updates that were ever appended, trimmed = those
//	          of them that are gone
//	writer    services/ingest: its append script, and consumers that trim
//	lifetime  never expires
//	truth     this key itself; where it is lost, counting begins anew
func (k Builder) IngestCounts() string { return k.Prefix + "ingest:{stream}:counts" }

// IngestHorizons is how far IngestStream was acknowledged at some moments of the
// time for which its entries are kept.
//
//	example   ingest:{stream}:horizons
//	type      sorted set: member = id of the oldest entry that was not
//	          acknowledged, score = the moment, Unix milliseconds
//	writer    services/ingest, its consumers before they trim
//	lifetime  never expires; about a hundred members
//	truth     none needed: without it entries are kept for as long once more
func (k Builder) IngestHorizons() string { return k.Prefix + "ingest:{stream}:horizons" }
