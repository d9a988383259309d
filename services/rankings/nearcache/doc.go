// Package nearcache keeps copies of current buckets in the process's memory
// (rankings.max_staleness), so that rankings need not ask Redis. cache.Circles keeps copies of
// cached sets in a similar way.
//
// A copy is a table indexed by row id, in pages of atomic numbers (pageUsers). A raise is a
// compare-and-swap of the larger composite, as ZADD GT, so pages, changes and own writes may be
// applied in any order and repeated.
//
// # Proof of freshness
//
// The process follows the change stream of each shard (packages board and changes). A read that
// finds the stream's end proves that the copy has everything that any process had acknowledged
// when the read was sent. The age of an answer counts from there, by the monotonic clock. It is
// checked after the scores were read and once more when the answer is complete; if it is too old
// by then, Redis is asked. Readers take no lock. A counter of removals, read before and after,
// makes a reader ask Redis if anything was removed from a copy meanwhile.
//
// # Copying
//
// The process notes the newest entry, follows the stream from there, and reads the shard page by
// page. Somebody who is raised meanwhile may be on no page, but is in the stream. So the copy
// counts only once the stream was read up to what was its newest entry at the last page.
//
// # Losses
//
// If Redis has lost entries that were followed, the entry that was read last is gone. But pages
// and own writes show entries that were not read yet, and a failover may lose just these. So
// each page and each own write comes with the id of the stream's newest entry at that moment. If
// the stream goes on without it, or a later page comes with an older one, the shard's copy is
// emptied and made again. A reset has the same effect for one bucket. Users who were lowered are
// removed and read again, in the same way. Until the first read of the stream after the loss, and
// after the reply to the process's own write, a copy may have acknowledged scores that Redis has
// lost. An isolated master that a process still reaches proves nothing about writes to its
// successor; reading it directly has the same limit.
//
// Streams of one server are read in one pipeline, apart from those of other servers, so a server
// that hangs holds up only its own.
//
// # Order
//
// Ranks and windows come from an order list of each shard (services/boards/orderlist), which is
// made when a board is first asked for one. All changes of a shard's composites hold the lock of
// its stream; if there is an order list, they hold its lock, too, for orderBatch entries at a time,
// so for its readers table and list change together. While a list is made, changes go on: they
// insert into the list what they raise, and whoever makes it inserts the others, as many at a time.
// Sorting a copy of the table would be faster, and would need memory for the copy and a log of
// what is raised meanwhile.
//
// The list has the board's order, as Redis: corrections reach it when they reach the board.
//
// TestSoakModel lets several processes take steps in the order of a seed, with other steps
// between each command and its reply, and compares every answer with what Redis has had since
// its proof.
package nearcache
