// Package corrections keeps the decisions of operators about users' scores: to set a score
// lower, or to exclude a user. The truth is table corrections, from which nothing is deleted.
// Creating and lifting lock the user's row and then those of the buckets, so at most one
// correction holds for a user and bucket.
//
// # Daily boards
//
// What a user reports while a correction holds is kept: a writer that knows of the correction
// writes to the key Reported of the shard instead of the board, by the same ZADD GT. Processes
// read the corrections of buckets that are not archived every few seconds (RefreshEvery), and know their own
// at once.
//
// A process that does not know of one yet may still raise the board. So a job compares boards
// and corrections every few seconds, with one ZMSCORE for each shard. Where they differ, a
// script joins the board's value into Reported and puts the corrected entry on the board. Where
// a correction was lifted, another raises the board to what was reported. Any process may repeat
// both in any order. Both begin with the user's entry from when the correction was made, so a
// Redis that has lost everything gets it back.
//
// # Event and rolling boards
//
// The running totals in the ledger are what was reported, so there is no key Reported. While a
// correction holds, the board is not raised for the user; the job replaces the entry of an
// event, or removes the user's hours from a rolling board. Where a correction was lifted, it
// raises the board to the totals: until an event is archived, and on a rolling board until the
// hours that were counted meanwhile have left the window.
//
// # Reading
//
// Rankings apply corrections on top of what they read, so a process that knows of one never
// shows the score. Finding out that a board has none is one atomic load. Global lists show what
// the board has. The archive applies corrections in its runs (services/boards/archive): for a
// bucket that is archived, a row in pending_corrections makes job correct-archive begin a
// further run.
package corrections
