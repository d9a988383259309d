package models

// BoardPart is the part of a bucket of the ledger that holds one running total of
// each user of a shard.
type BoardPart struct {
	Bucket *Bucket
	Shard  int
	// Hour is the hour of the totals in a rolling bucket, otherwise 0.
	Hour Hour
}

// Total returns the name of the running totals.
func (p BoardPart) Total() string {
	if p.Bucket.WindowHours > 0 {
		return p.Hour.String()
	}
	return p.Bucket.Name
}
