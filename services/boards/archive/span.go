package archive

import (
	"context"
	"time"

	"stepboard/internal/column"
	"stepboard/models"
)

// Viewed is a user whose archived days are added up.
type Viewed struct {
	User models.RowID
	// After leaves out the user's days that end at this time or earlier. The zero time
	// leaves out none.
	After time.Time
}

// SpanDay is an existing bucket of a span of days.
type SpanDay struct {
	Bucket string
	// Archived reports whether the archive has the bucket.
	Archived bool
	EndsAt   time.Time
}

// Sums returns the existing buckets of a board from one day to another, both included, in
// no order, and what each user's archived ones of them add up to, by position. One query,
// which sees every bucket at the same moment.
func (s *Service) Sums(
	ctx context.Context, boardName string, users []Viewed, from, to models.Date,
) (days []SpanDay, sums []models.Sum, err error) {
	days, byUser, err := s.store.storage.sums(ctx, boardName, users, from, to)
	sums = column.Of(users, func(u Viewed) models.Sum { return byUser[u.User] })
	return days, sums, models.Public("add up archived scores", err)
}
