// Package ledger counts increments: gifts, points, minutes, and everything else that is added to
// a score instead of being reported as a total. An increment that was acknowledged is counted
// exactly once, however often it is sent and whatever crashes.
//
// The truth is in SQL. The boards in Redis are raised to the running totals afterwards, and can
// be made again from them at any time.
//
// # Counting
//
// One transaction inserts the increments (score_events, keyed by board and event id) and adds
// them to the running totals (score_totals). A batcher gathers concurrent calls into it. Its
// rules are two pure functions, in plan.go.
//
//  1. Look up the event ids. Known ones are duplicates, answered with their first result, or
//     conflicts if their content differs. This holds even after the event's end: a retry must
//     learn the result of the first attempt. The same round trip reads the rows of the
//     events and locks them against becoming final; opening.go says what an event takes.
//  2. Join each user's increments to the total. A sum is added, and the returned row shows what
//     each increment led to, by subtracting backwards. Where the best counts, the better score
//     stays, and all increments of the transaction have it as their result.
//  3. Insert the increments with these results.
//
// If a total would exceed max_score, or one of the ids was inserted since step 1, the
// transaction is repeated. It then locks the totals first and refuses only the increments that
// don't fit. Rows are always taken in the same order, totals before events and each by key,
// which prevents deadlocks. A sum has the time of its latest increment above 0, a best score that
// of the earliest increment with it: when an increment occurred if it says so, otherwise when it
// was accepted. The order in which increments arrive changes neither.
//
// No transaction waits longer than lockWait for a lock. After such a wait the next ones leave out
// the increments of users whose rows are locked; those are tried again for up to lockPatience
// and then refused (locks.go). A call with several users is refused as a whole, although the
// others' increments are counted; when it is sent again they are duplicates. Backends would have to read a
// result for each user, and they send again anyway.
//
// # Raising
//
// After the commit each call raises the board to the new totals, through batchers with a lane
// for each server of the boards, so that a server that hangs delays only its own users. A
// duplicate raises its total, too, because its first call may have failed after the commit. If a
// raise fails or takes longer than raisePatience, or the process dies first, the answer is right
// all the same. The Reconciler raises what is missing: often all totals that had an
// increment within quickRewind, and every half of Rewind those within Rewind. A transaction is
// cancelled after seconds, so one that commits late is among them.
//
// # Rolling boards
//
// The board's score is at every moment the sum of the user's hours. The scripts that raise and
// drain hours are in services/boards/board. A process whose clock is two seconds behind raises
// the hour in which it accepted the increment, as long as that is in the window; one whose clock
// is more than a minute from the database's neither raises nor drains. SQL checks max_score
// against the sum of the window. Two processes on either side of the turn of an hour could write
// a user's totals of different hours at the same time; so each increment is also added to one
// more row, the sum of all hours ever, whose lock makes them take turns. On every pass the
// reconciler recomputes twenty users of each rolling board and reports those that differ.
//
// # An older database
//
// Reconciler.Rebuild makes the boards equal to the ledger after SQL was restored to an earlier
// moment: it lowers or removes what the boards have more, and then raises all totals.
package ledger
