// Package archive moves buckets that have turned cold from Redis to SQL, and reads them back.
// Without Redis, it moves them from one table of SQLite to others.
//
// A day turns cold once it is more than hot_days days old, or open_days + 1 if that is more, so
// it takes no more uploads by then. The moment is stored with the bucket (cold_at), so that all
// processes agree. From then on late updates go to the key Late. An hour later, when processes
// with late clocks have followed, the archive may move the day.
//
// # Runs
//
// A bucket is archived in runs. A run is recorded, its keys are frozen, that is, renamed under
// the run's number, and the entries are read in ranking order, stored, compared, and committed
// in one transaction. Then the frozen keys are dropped. Later entries are merged by a further
// run, which takes the larger composite of each user and assigns all ranks anew. These rules
// make it safe:
//
//   - Freeze, then read. RENAMENX takes a key away from writers at once and never overwrites the
//     frozen part of an earlier attempt.
//   - Look again before the commit. A server that fails over or is restored may forget that a
//     key was renamed. So the run freezes and lists the keys again until it finds nothing that
//     it has not read. What it has read stays read.
//   - The truth is archived. A bucket of the ledger (from_ledger) is ranked from score_totals
//     inside SQL once it is final (final_at), whatever Redis has; later runs only apply corrections, because the totals may
//     have been deleted by then. Other buckets are not archived while the queue's loss detector
//     reports a loss. It is asked before the first key is frozen and again before the commit.
//   - One number until it is complete. A failed attempt is resumed under its number. So a reader
//     needs one name: a script reads the shard's frozen key of run 1 if it exists, otherwise the
//     live one.
//   - A run works on the frozen parts of all runs up to its own. What a dead process left behind
//     is merged again, which changes nothing.
//   - One transaction holds the rows, the comparison and the completion of the run. A lock on
//     the bucket keeps out a process that has lost its lease; if such a process stands still
//     with the lock, its session is ended.
//   - Drop last, and only the keys that were read.
//
// Rows are counted on the way: a heap merges the frozen parts and holds two chunks of each,
// whatever the day's size. If a user may occur twice, SQL joins both sides, keeps the better
// entry of each user and ranks them anew. Both sides are compared by the number of rows, the sum
// of scores, and the exclusive or of a hash of each row with its rank. The hash is Postgres's
// hashint8extended, written again in Go (totals.go).
//
// # Runs on SQLite
//
// All writers share one connection, and an upload waits for whatever is before it. So nothing that
// grows with a bucket is one transaction. The rows of an archived bucket are a version of it. A run
// writes a new one in chunks of rows, ranks it, reads it again for comparison, and makes it the
// current one in a short transaction (sqlite_run.go). Readers find the current version by an index,
// and rows by (version, user) or (version, rank): 38 bytes for each row. A version that was replaced,
// or whose run was cut off, is deleted later, in larger chunks (sqlite_tidy.go). A run that was
// cut off begins again with a new version: one process may have deleted rows that another one would go on from.
// Changing rows in place would be worse: one transaction of a million rows stops uploads for 14 seconds, and with
// several transactions readers would see half of a run.
//
// Without Redis a day is read from hot_scores, once batches that waited were moved there. It is not
// frozen: each user's entry is read once, and uploads go on. Once the version is shown, entries that
// are not larger than what it has are deleted. An entry that is larger came later, and makes a further
// run. So at every moment each entry is in one of both, and what a dead process has not deleted is
// deleted by the next. If Redis has the day, what is read of it is first copied to a version of its own.
//
// Corrections do not wait for a run. If they have changed before it is shown, the version is written
// again. An erasure leaves a bucket alone while a run may have copied the user's row, and comes
// again. Measured beside uploads that are committed one by one, each on the disk: 100,000 users in
// four seconds, half of that waiting; transactions take 1 to 3 ms, and the write-ahead log stays at 4 MB.
//
// # Corrections
//
// A run copies all that it has read, locks the bucket's row, and joins what is known of each
// user: archived rows, the copied ones, reported_scores, and the entries from when corrections
// were made. Of users with a correction the result goes to reported_scores, and the corrected
// entry is ranked with the others. Whoever makes or lifts a correction holds the same lock.
//
// # Reading
//
// The archive has the same reads as services/boards/board, so ranking does not know where a day
// is, and cursors stay valid when it moves. Ranking asks whether the archive has the bucket,
// reads it in Redis if not, and asks again. That a bucket is archived is remembered for good.
//
// Friends see each other in an archived bucket if their friendship began before the bucket's end
// plus friends.history_days. Until that time has come, nothing has to be asked. Afterwards the
// friends are read from friendships, because the sets in Redis do not say when a friendship
// began.
//
// # Keys
//
// Primary keys of archived_scores, 30 days of 200,000 users in one partition of Postgres 15;
// bytes for each row, and the time of a read by one client:
//
//	primary key       heap  primary key  rank index  200 friends on a day  30 days of a user
//	board, day, user    68           41          45                1.4 ms             1.1 ms
//	user, day, board    68           45          45                2.1 ms             0.7 ms
//
// A key that begins with the user has every page touched by every day. With days of a million
// users (day, user, board) takes 0.86 of the time of (board, day, user) for 200 friends, because
// comparisons begin with numbers; it is in use. A covering index was no faster for a day and 28
// bytes larger. For a span of 28 days of 200 friends one that begins with the user would take 10
// to 12 ms instead of 48 to 69, at 58 bytes for each row; a month is asked for less often than a
// day, and every row is moved, so there is none. A history joins from board_buckets and probes
// each day by its key: given a plain range of days, Postgres chose to read the whole partition.
package archive
