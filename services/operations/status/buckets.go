package status

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// BucketState says where a bucket is on its way into the archive.
type BucketState string

// The states of a bucket, in their order.
const (
	// BucketUpcoming has not begun.
	BucketUpcoming BucketState = "upcoming"
	// BucketOpen takes updates.
	BucketOpen BucketState = "open"
	// BucketClosed takes no more updates, and stays in Redis until it is cold.
	BucketClosed BucketState = "closed"
	// BucketCold waits for its first archive run.
	BucketCold BucketState = "cold"
	// BucketMoving has an archive run that has begun and not ended.
	BucketMoving BucketState = "moving"
	// BucketArchived is in the archive, and its last run is complete.
	BucketArchived BucketState = "archived"
	// BucketFailed is a bucket whose last archive run has failed.
	BucketFailed BucketState = "failed"
)

// Bucket is a bucket as operators see it.
type Bucket struct {
	models.Bucket
	State BucketState
	// Date is the bucket's day; nil if the board's buckets are not days.
	Date *models.Date
	// Total is the number of users with a score; nil while Redis has the bucket and does
	// not answer.
	Total *int64
	// ScoreSum is the sum of the scores; nil until the bucket is archived.
	ScoreSum *int64
	// Corrections is the number of corrections that hold.
	Corrections int64
	// Revision is that of the last result that was written for webhooks; 0 for none.
	Revision int
	// LastRun is the last archive run; nil for none.
	LastRun *models.ArchiveRun
}

// Cursor returns the position in a list that is ordered by day.
func (b Bucket) Cursor() models.Cursor { return models.Cursor{Key: int64(b.Day)} }

// BucketQuery selects a page of a board's buckets, newest first.
type BucketQuery struct {
	Board string
	// From and To bound the days, both included; nil for no bound.
	From, To *models.Date
	Limit    int
}

// Counter counts entries in Redis. Implemented by board.Store.
type Counter interface {
	// Counts returns the number of entries of each of the buckets, by position.
	Counts(ctx context.Context, buckets []*models.Bucket) ([]int64, error)
}

// Buckets returns a page of a board's buckets. Days on which nothing was ever reported have
// none. Four queries, and a round trip to Redis with a command for each shard of a bucket
// that is not archived. CodeBoardNotFound, CodeUnavailable if Postgres is away.
func (s *Service) Buckets(ctx context.Context, q BucketQuery) ([]Bucket, error) {
	b, err := s.boards.Board(q.Board)
	if err != nil {
		return nil, err
	}
	first := catalog.FirstDay // not every database can represent all earlier dates
	if q.From == nil || *q.From < first {
		q.From = &first
	}
	if q.To != nil && *q.To < first {
		return nil, nil
	}
	facts, err := s.store.buckets(ctx, q)
	if err != nil {
		return nil, models.Unavailable("list buckets", err)
	}
	now := s.clock()
	page := make([]Bucket, len(facts.buckets))
	var hot []*models.Bucket // those that are counted in Redis
	var counted []*Bucket    // the same
	for i, bucket := range facts.buckets {
		page[i] = facts.describe(bucket, now)
		page[i].Date = b.Date(bucket)
		if page[i].ScoreSum == nil && page[i].State != BucketUpcoming {
			hot, counted = append(hot, bucket), append(counted, &page[i])
		}
	}
	counts, err := s.counter.Counts(ctx, hot)
	if models.CodeOf(err) == models.CodeUnavailable {
		return page, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range counts {
		counted[i].Total = &counts[i]
	}
	return page, nil
}

// bucketFacts holds what the tables say about the buckets of a page.
type bucketFacts struct {
	buckets []*models.Bucket
	// runs, by bucket, are in the order of their numbers.
	runs map[string][]models.ArchiveRun
	// corrected counts the corrections that hold, by bucket. excluded counts those without
	// a bucket, by their first day.
	corrected map[string]int64
	excluded  map[models.Date]int64
	// revisions are those of the results, by bucket.
	revisions map[string]int
}

// describe returns a bucket without what Redis knows about it.
func (f *bucketFacts) describe(bucket *models.Bucket, now time.Time) Bucket {
	shown := Bucket{Bucket: *bucket, Corrections: f.corrected[bucket.Name], Revision: f.revisions[bucket.Name]}
	for day, n := range f.excluded {
		if day <= bucket.Day {
			shown.Corrections += n
		}
	}
	for i := range f.runs[bucket.Name] {
		run := &f.runs[bucket.Name][i]
		shown.LastRun = run
		if run.State == models.ArchiveComplete {
			shown.Total, shown.ScoreSum = &run.Entries, new(bucket.ScoreSum(run.Entries, run.PointsSum))
		}
	}
	shown.State = stateOf(bucket, shown.LastRun, now)
	return shown
}

// stateOf returns the state of a bucket with a last archive run, which is nil for none.
func stateOf(bucket *models.Bucket, last *models.ArchiveRun, now time.Time) BucketState {
	switch {
	case last != nil && last.State == models.ArchiveRunning:
		return BucketMoving
	case last != nil && last.State == models.ArchiveFailed:
		return BucketFailed
	case last != nil:
		return BucketArchived
	case bucket.Cold(now):
		return BucketCold
	case bucket.Final(now):
		return BucketClosed
	case now.Before(bucket.StartsAt):
		return BucketUpcoming
	default:
		return BucketOpen
	}
}
