// Package board keeps buckets: in Redis (Store), or with local stores in the memory of the process
// (Local). In Redis a bucket is one sorted set for each shard, with the row id as member and the
// composite as score. Every write to a bucket is ZADD GT of an absolute composite, so
// updates may be repeated, reordered or replayed without changing the outcome. Buckets with a
// window hold sums over such sets, which scripts keep consistent with them: redis_rolling.go.
//
// On equal composites the row id decides, compared as decimal text, greater first: so ZREVRANGE
// orders equal scores, and models.RowID.CompareText does the same in Go.
//
// # Shards and clusters
//
// A user's shard is the row id modulo the bucket's number of shards. Looking up users groups
// them by shard. Lists merge the shards' windows, and ranks add up, because each shard counts
// its own users. Each script and each command with several keys stays in one slot, by the hash
// tag of the shard, which does not name the day. A fan-out over shards is one pipeline, which
// the client splits by node. Reads go to masters: a replica may be behind, and a ranking must
// not go back.
//
// # Windows
//
// One script serves top, around, the global rank and every page. Its input is a position, a
// composite and a row id, which need not be in the set: a cursor's entry may have moved, and in
// a sharded bucket it is in another shard. It returns the number of entries, how many of them
// rank before the position, and the entries next to it on both sides.
//
// # Change streams
//
// Processes can keep copies of buckets with a change stream (board_buckets.change_stream). Each
// change of such a bucket is written to the stream of its shard (package changes), in the
// transaction or script that makes the change. Every writer does so: uploads, consumers, the
// ledger, imports, replays and rebuild. An entry names the bucket, so those of today and
// tomorrow share a stream.
//
//   - Raised entries are all those of one command, changed or not, because ZADD GT does not say
//     which did.
//   - Lowered users are those of a script that has lowered or removed entries. The entry does not
//     say their composites: a follower that raises its copy by its own writes could not apply
//     "now it is less" in the right order. So it reads these entries again.
//   - A reset says that any entries of the bucket in this shard may be gone, as when an archive
//     run freezes it. Its copies are made again.
//   - The first entry of a stream belongs to no bucket and has a random number.
//
// A copy is read by the window script, page by page, while the stream is followed. Both are
// raises, which need no order, and a process that has read a change finds it in the bucket. A
// cursor of ZSCAN would not survive a failover. What a failover loses of a bucket it also loses
// of its stream, because scripts and transactions are replicated as a whole.
package board
