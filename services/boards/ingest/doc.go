// Package ingest accepts score updates: it checks them against the board and its open days,
// stamps them with the server's time, and hands them on, straight to the boards or to a queue.
// An update that was accepted is applied even if its client disconnects.
//
// # Queues
//
// With ingest.mode redis or kafka the batcher writes to a queue, and an upload is answered 202
// once the queue has it. One Consumer serves both queues. It receives for flush_interval or up
// to batch_size updates, keeps the best composite of each user and bucket, raises the boards,
// and only then acknowledges. A repeated delivery changes nothing, so it keeps no memory of what
// it has applied. It waits for stores that do not answer. Only updates that can never be applied
// become dead letters. An Update has no composite, which would mean nothing without its bucket.
//
// Redis (redis_stream.go): one stream, in which each flush is one entry. A consumer takes over
// entries that another has held for longer than ingest.redis.claim_after. Consumers trim what
// was acknowledged ingest.redis.keep ago; they store that position beside the stream, so that it
// survives them. Each entry says how many updates were appended up to it: the number in the
// stream and the lag are differences, and the append script refuses a full stream.
//
// Kafka (kafka*.go): one record for each update, keyed by user, so that a user's updates stay in
// one partition. All in-sync replicas acknowledge, and the producer is idempotent. An append
// gives up in time to be answered; a record in flight may then occur twice, which changes
// nothing. Consumers share the partitions as a cooperative group. They commit offsets only after
// the raise, and only of partitions that they have. Members stay in the group by
// heartbeats alone, so gathering for minutes excludes nobody.
package ingest
