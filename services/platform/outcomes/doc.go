// Package outcomes sends webhooks and notices: it lets the app's backend hear of final results, friend
// requests and the like, and users in their browsers of what they want to be told of, at least once
// each.
//
// An outcome is written to an outbox, table webhook_deliveries, in the transaction of its cause:
// one row for each target that wants it, all with one message id. So it exists if and only if
// its cause was committed.
//
// What outcomes of a type look like is known to the package that writes them, which makes a Topic:
// friends, likes, digests and results. A payload names people by row ids and is rendered when it is
// sent. So it does not name a person who was erased meanwhile: an outcome about them is dropped, and
// in a result they are anonymous. The people are read from SQL: a digest of a million users would
// otherwise displace the records in the process and in Redis of those who call or are shown.
//
// # Sending
//
// Each process with the role jobs has a worker for each type of outcome and target. The worker
// takes up to sendAtOnce due rows in one statement, which moves next_attempt_at ahead (claimTime).
// Other processes leave them alone until then, and take them over if the process dies. It sends
// them at the same time, signed in the form of Standard Webhooks, and stores each result with
// the attempt.
//
// If sendAtOnce were sent and none was accepted, the worker pauses, up to awayPause: a target that refuses likes
// still gets results from another worker. It gives up what is overdue without sending it. Each process counts what
// waits, for at most a fiftieth of the time, and beyond a million for a target it gives up the oldest, except results.
//
// # Notices
//
// A notice is a delivery to the target "push", of one subscription of Web Push: table
// push_subscriptions, of services/rankings/notices, which implements Subscriptions. The transaction of
// the cause writes one for each subscription that wants it, by one statement. A payload whose type
// implements Receivers says who is told what, and the topic (WithNotices) what the browser gets.
//
// Notices are sent like webhooks, but for hours only (noticeLifetime). The address is looked up when
// one is sent, so a subscription that has ended drops what waits for it; a push service that answers
// 404 or 410 ends it. Addresses are secrets of strangers: no error, log line or metric has one.
//
// # Results
//
// board_results has the revision and the hash of each bucket's last result. The transaction of
// an archive run writes the next revision if the total, the sum or the first hundred have
// changed; every transaction that changes archived rows ends with this. The first result of an
// event is taken from the ledger by the job results, a minute after the end, with corrections
// applied. A correction of an event that is not archived yet marks the result as outdated, and
// the job writes the next revision. Both lock the bucket's row.
package outcomes
