// Package directory maps the app's user ids to row ids and holds profiles.
//
// An app names users by user ids, texts of up to 128 bytes. Everything inside names them by row
// ids: numbers from 1, nearly without gaps, from the identity column of table users. So members
// of sorted sets stay short and friend sets stay arrays of integers. Row ids never leave the
// service.
//
// # Records
//
// A user's record exists at three levels: in the process, in Redis for about a week, and in SQL,
// which has the truth. It has a version, and a copy is replaced only by one with a larger
// version, at each level, by readers and writers alike. So copies converge without locks, and
// profiles can be read while Redis or SQL is away. A page's missing records are one pipeline to
// Redis, and what Redis lacks is one query; a batcher gathers the queries of concurrent calls.
//
// Every second each process reads from SQL which records have changed (follow.go), replaces its
// own copies and stores the records in Redis. So a writer that died before it had refreshed the
// copies is made up for within two seconds, also in processes that have no copy: they do not
// believe a copy in Redis that is older than a version they know. They look back a little each
// time (overlap) and further sometimes (farOverlap), because a change is dated when it begins and visible when
// it has committed. After a loss Redis gets the records again that have changed since its
// checkpoint (package recovery).
//
// A quarter of directory.memory holds row ids by user id (ids.go), the rest holds records by row
// id (records.go). Neither has pointers, so millions of records are no work for the garbage
// collector.
//
// # Users
//
// A user is created by the first write of their own, or when a service or an import names them.
// Missing users are looked up first and then inserted in the order of their ids: an insert that
// meets an existing row would use up a row id, and unordered inserts deadlock.
//
// A renaming changes the user id in users and stores the former one in renames, in one
// transaction. The row id stays. Copies may map the former id to the row id for days. So
// processes read renames together with erasures, every second, keep the present ids of these
// rows in memory, and look up again whoever a copy maps to such a row under another id.
//
// An erased row id is nobody's from the commit on. Processes keep the row ids of erasures in
// memory: such a user is not found, has no record and is left out of lists, and their updates
// are dropped. A process that was stopped for longer than erasedMaxAge reads both tables before it
// finds a user. A call that changes anything but scores is refused unless the process has read
// erasures within erasedSure (CheckErasures); what is stored for an erased user before that is
// removed by the sweeps of services/operations/erasure. Scores are excepted because they are
// taken while SQL is away; a job removes them from Redis.
//
// # An older database
//
// A database that was restored from a backup must not give a row id again to somebody else.
// Redis has the highest row id and version that were handed out. serve refuses a database that
// is behind them. Rebuild moves its counters a million past them, records the row ids between in
// row_id_gaps, and drops the copies. The command restore does this for a data folder (Skip).
package directory
