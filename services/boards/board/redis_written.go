package board

import "stepboard/models"

// Written is called when entries were written to a shard of a bucket with a change
// stream, before the call that has written them returns. What they have changed is in
// the stream up to the newest entry, whose id is "" if the stream has no entries.
type Written func(bucket *models.Bucket, shard int, newest string, entries []models.Entry)

// NotifyWritten makes the store call a function. It must be called before the store is
// used.
func (s *Store) NotifyWritten(written Written) { s.written = written }
