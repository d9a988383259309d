// Package recovery restores what a store has lost, always in three steps: it detects that the
// store may have forgotten writes, has them replayed from their truth, and checkpoints that the
// store is complete again.
//
// A Redis that has restarted, or a replica that took its place, may have forgotten acknowledged
// writes. Checkpoints are stored in that same Redis: the time, and the server's replication id,
// which changes with each restart and each promotion. If the id is another one, the last writes
// may be lost. If the checkpoint is missing, everything is. In a cluster each stripe has a
// checkpoint, so the loss of one master is repaired on that one alone.
//
//	watcher  looks every          truth                replays
//	queue    2 s                  the queue            updates queued since ingest.rewind before the
//	                                                   checkpoint, or all that the queue has kept
//	ledger   15 s, reconciling    score_totals         totals raised since the checkpoint, or all
//	sets     5 s                  SQL                  records that changed since the checkpoint;
//	                                                   the cached sets of these servers are dropped
//
// A replay may be lost as well. So detecting a loss stores a token on the server, in the same
// script, and a checkpoint is written only on the same server and while the token exists. Until
// then every process detects the loss. One process replays the queue, under a lease; every
// process that changes friendships watches the sets, without a lease. The command rebuild
// replays by hand.
//
// # Two masters
//
// While two servers are masters at once, a process may go on writing to the old one after
// another process has checkpointed the new one. So a process that writes has a WriterDetector,
// which also remembers the servers that it found last. If it finds another one, it sets the
// shared checkpoint back to the moment from which writes to the old server may be missing;
// checkpoints keep that moment. The replay then covers what the process wrote to the old server,
// however long that took.
//
// A process that comes to the new server during a replay changes the replay's token. If the
// replay goes back far enough, only what was queued since it began is replayed once more. A server on which
// everything was replayed lacks nothing from before that, whichever server it was written to. For
// the same reason a checkpoint is as late as the beginning of its replay: another process may
// apply what is queued meanwhile to the old master. What a process records on the new server may
// not have reached its replica when that is promoted, so it records it again on each further
// server for replicationLag. The ledger needs none of this, because its reconciler reads all recent
// totals, whichever process wrote them.
//
// No detector notices that SQL was restored to an earlier moment: ledger.Reconciler.Rebuild and
// directory.Service.Rebuild repair that.
package recovery
