// Package erasure erases users, and exports what is stored about them.
//
// An erasure deletes the row in users and inserts one in erasures, in one transaction: from then
// on the row id is nobody's, and the user id is free. Every process hears of it within two
// seconds; it finds the user no more and drops what names the row id
// (services/people/directory).
//
// # Sweeps
//
// A job sweeps what names the row id, subject by subject (models.Subject), until a sweep that begins a
// minute after the beginning finds nothing: a process may have accepted something before it
// heard. A sweep remembers nothing; one that is cut off begins again. An archive run that has
// begun to store rows may not have seen the erasure, so a sweep counts as having found something
// while one is storing. Sweeps use small transactions, and pause after each for as long as it
// took.
//
// Archived rows get random row ids from 2^52 on, which no user ever has, another one for each
// bucket: consecutive ones would show that days were one person's. The row id decides between entries of equal score and time, so these are ranked anew,
// and the hash of the run is updated. Totals of an archived event and corrections of the bucket
// get the same row id.
//
// The user id stays in erasures until the last sweep, which needs it for keys in Redis. After
// that a keyed hash of user id and row id is left, and one for each former id, because an older
// backup may have the user under that. A hash of the user id alone would hit a newcomer of the same id. Its key is in
// Postgres, because settings may be lost. Another job removes from Redis what an upload or an older
// state of Redis brings back.
//
// # Returns
//
// When an erased user id is created again, what others have decided about it must hold again
// (docs/privacy.md). It was kept under the former row id: exclusions in corrections, declined
// requests in friend_requests, choices of others in kept_choices, and the limits in erasures.
// erasures.id_hash, a keyed hash of the user id alone, finds that row. The statement that
// creates a user looks for it, takes over the limits and sets returned_row. Then the process
// moves the rest before the call goes on (Return), through the services that own it. The job
// erase does this again for all erasures with a returned_row that are not moved, because a
// process may have died. A row may be erased again before everything was moved to it; then
// everything moves to the row of the next return, because all of these erasures have the same
// hash. The job purge forgets what has become too old.
package erasure
