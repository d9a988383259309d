// Package cache keeps read-through caches of sets: copies of sets of row ids whose truth is in
// SQL, such as friend sets. They are in Redis (Store) or, if one process has the stores to itself,
// in its memory (Local). A copy is loaded on a miss and lasts cache.sets_ttl.
//
// # Changes
//
// A reader could read a list, be overtaken by a change, and then store the old list. Two keys
// for each set prevent that:
//
//   - The mark. Before a change commits, its writer adds a token of its own to the mark of each
//     set that changes, and deletes these sets. While a mark exists nothing is stored, and
//     readers get the list from SQL. After the commit the writer deletes the sets once more and
//     removes its token. The mark is a set of tokens, so that the first of two writers to finish
//     does not remove the other's.
//   - The loading token. A reader that misses claims it before it asks SQL, and may store the
//     set only if the token still exists. Every change deletes it. So a list that was read
//     before a change is not stored after it, even if the mark came and went in between. The
//     token also lets only one reader load; others wait for its set up to 0.1 s and then ask SQL
//     themselves.
//
// A writer that dies leaves its mark, which expires after a minute; ChangeTimeout cancels a
// change long before that. If Redis can't be marked, the change is rolled back. If the outcome
// of a commit is unknown, the mark is kept as long as a set lasts. A process that dies before it
// can do so leaves a mark of a minute. So a change that is sent again deletes the sets of
// everyone whom it names, even if it finds nothing to change.
//
// A change of thousands of sets, as an import makes, marks their stripes instead of each set. An
// erasure removes one member from thousands of sets. It marks them, but removes only the member
// (Sets.NewRemoval), so the sets stay in use: they are right before the commit and after it,
// because an erased user is shown to nobody.
//
// # Losses
//
// A Redis that went back in time may bring back a deleted set or a loading token. So each set
// has a stamp, as a negative member: the generation of its stripe when the reader began. A set
// with another stamp counts as missing. After a loss (package recovery) the stripes of that
// server get new generations, which drops all of their sets with one command each. That takes no lease, which would need
// Postgres: without it outdated sets would be read on. A generation
// is in the slot of its sets and moves with them. Generations are random, because a Redis that
// went back in time would count the same numbers again.
//
// Sets hold only numbers, so Redis stores them as arrays of integers up to
// set-max-intset-entries. An empty list is the stamp alone.
//
// # In memory
//
// Local has the marks, and needs nothing else. A reader first announces that it reads, and then
// looks for a mark: with one it keeps nothing. A writer first sets the mark, and then drops the
// copies and all that was announced; both before the commit. So a reader is dropped, or sees the
// mark, or begins after the commit. Marks and copies are lost together, with the process, so there
// are no generations and no streams. The mark of a change of unknown outcome is kept here, too. A
// change of thousands of sets marks each of them.
//
// # Copies in processes
//
// Circles keeps copies of sets in the process (rankings.max_staleness). For it each change names
// its sets in a stream, sets-changes, once before the commit and once after it. An entry always
// follows what it reports: the mark and the deletion, or the new generation. So what is read from
// Redis after an entry was read is not from before the change. The entry before the commit is
// needed if the one after it can't be written, and the one after it if Redis has forgotten the mark
// meanwhile. Streams are written only while somebody follows them (package changes). In a cluster each
// stripe has one, in the slot of its sets, and its entries take a round trip of their own,
// because redirected commands of a pipeline are executed last.
//
// A copy is dropped when the stream names its set, and is not kept if the entry arrives while the
// set is being read. Only a set that Redis has, or has just stored, is kept. While a change is
// under way Redis stores nothing, so a list from SQL that a later commit changes is never kept, even
// if the writer has died or the process began to follow the stream after the first entry. Each
// reply also has the server's replication id; on another server all copies are dropped, because it
// may lack entries that were not read yet. After a failover a copy may be as outdated as the set in
// Redis, until the loss is detected.
//
// The copies are in a Memory, and take what copies of boards leave of rankings.memory. A copy is
// used for copyLifetime at most.
//
// The tests walk through the orders of events one by one and at random, with writers that die
// and a Redis that goes back in time.
package cache
