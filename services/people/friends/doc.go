// Package friends keeps the friend graph. Its truth is in SQL. The friend sets that rankings
// read are cached by services/people/cache.
//
// A friendship has two rows, one for each side, and so has a pending request: either user's list
// is one range of the primary key. users.friend_count changes under the lock of the row, which
// enforces the limit of friends without counting. Rows of users are always locked in ascending
// order of row ids, which prevents deadlocks.
//
// # Requests
//
// A request of A to B has an outgoing row, whose user is A, and an incoming one, whose user is
// B. When B declines, only B's row changes: declined_at is set, and B is no longer shown the
// request. All that A sees and that counts for A is read from A's rows and from users, so A
// can't tell. For declineTime after a decline, requests of A do not reach B. The states of a
// pair:
//
//	state                   A's row   B's row             A is shown      B is shown
//	none                                                  nothing         nothing
//	asked                   outgoing  incoming            a request to B  a request of A
//	declined                outgoing  incoming, declined  a request to B  nothing
//	declined and withdrawn            incoming, declined  nothing         nothing
//	friends                                               a friend        a friend
//
// What a call answers, and the state that it leads to; a status without a state changes nothing:
//
//	state                   A asks                     B asks                B declines     B accepts
//	none                    201 pending: asked         201 pending: B asked  204            404
//	asked                   200 pending                201 friends: friends  204: declined  200: friends
//	declined                200 pending (*)            201 friends: friends  204            404
//	declined and withdrawn  201 pending: declined (*)  201 pending: B asked  204            404
//	friends                 200 friends                200 friends           204            200
//
// (*) After declineTime a decline has no effect any more: the state is asked then. The job purge
// deletes such rows.
//
// A withdraws with 204 in every state: asked becomes none, and declined becomes declined and
// withdrawn. A call by which A accepts is 404, unless the two are friends or B has asked.
// Imports, and backends that replace a list, make friends from any state; the end of a
// friendship leads to none. So at most one of the two has asked or was declined.
//
// By an invite code A and B become friends from any state in which nobody blocks the other.
//
// While B blocks A, no request of A reaches B, and B can't ask A (422). Blocking ends the
// friendship, withdraws B's request and declines A's. A request that A sends meanwhile has an
// outgoing row and no incoming one. It is not delivered when B unblocks, unless A asks again.
//
// New requests are counted under the lock of the sender's row: users.requests_sent is their
// number since the first one, and begins anew at requests_until, requestsPeriod after that.
//
// TestRequestsAgreeWithAModel compares random calls with a model of these tables, and
// TestTheSenderCannotTellDeclinedOrBlockedFromPending compares all answers to two senders, one
// of whom is declined and blocked.
package friends
