// Package reviews lists scores that operators should look at: those above their board's
// review_above. Writers of scores have nothing to do with it. A job reads the top of each
// hot bucket.
package reviews

import (
	"context"
	"errors"
	"time"

	"stepboard/internal/column"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// pageEntries is how many entries of a shard are read at a time: less than a millisecond
// of Redis.
const pageEntries = 500

// Service finds, lists and dismisses reviews. Safe for concurrent use.
type Service struct {
	store     *Store
	catalog   *catalog.Catalog
	entries   board.Reader
	directory models.Describer
	clock     models.Clock
}

// New returns the service over a store.
func New(store *Store, c *catalog.Catalog, entries board.Reader, directory models.Describer, clock models.Clock) *Service {
	return &Service{store: store, catalog: c, entries: entries, directory: directory, clock: clock}
}

// Find makes reviews of the scores above the ReviewAbove of their boards in all hot
// buckets, and raises open reviews of scores that have risen. It returns how many of both.
// It may be repeated. If a bucket fails, the others are still searched.
//
// For each board with a ReviewAbove it makes one query, for each of its hot buckets one
// round trip to Redis, and for each pageEntries scores above ReviewAbove another one of
// both. It reads no other scores.
func (s *Service) Find(ctx context.Context) (found int64, err error) {
	now := s.clock()
	for _, b := range s.catalog.Definitions.Boards() {
		if b.ReviewAbove == 0 {
			continue
		}
		buckets, failed := s.catalog.Buckets.Hot(ctx, b, now)
		err = errors.Join(err, failed)
		for _, bucket := range buckets {
			n, failed := s.findIn(ctx, b, bucket, now)
			found, err = found+n, errors.Join(err, failed)
		}
	}
	return found, err
}

// findIn is Find for one bucket. It begins at the lowest of the scores. Those that rise
// meanwhile are read later, so none is left out.
func (s *Service) findIn(ctx context.Context, b *catalog.Board, bucket *models.Bucket, now time.Time) (found int64, err error) {
	at := models.Entry{Composite: score.Of(bucket).Above(bucket.Points(b.ReviewAbove))}
	for {
		w, err := s.entries.Window(ctx, bucket, at, pageEntries, 0)
		if err != nil {
			return found, err
		}
		if len(w.Ahead) == 0 {
			return found, nil
		}
		n, err := s.review(ctx, b.Date(bucket), bucket, w.Ahead, now)
		found += n
		if err != nil || len(w.Ahead) < pageEntries {
			return found, err
		}
		at = w.Ahead[0]
	}
}

// review makes or raises the reviews of some entries of a bucket, whose day is given.
func (s *Service) review(
	ctx context.Context, day *models.Date, bucket *models.Bucket, entries []models.Entry, now time.Time,
) (int64, error) {
	users := column.Of(entries, func(e models.Entry) models.RowID { return e.User })
	seen, err := s.store.seen(ctx, bucket, users, dismissalsCountSince(bucket, now))
	if err != nil {
		return 0, err
	}
	higher := unseen(bucket, entries, seen)
	for i := range higher {
		higher[i].Date, higher[i].FirstSeenAt = day, now.UTC()
	}
	return int64(len(higher)), s.store.raise(ctx, higher)
}

// dismissalsCountSince returns since when dismissals in a bucket count: for ever, or in a
// bucket with a window as long as the increments count whose sum was dismissed.
func dismissalsCountSince(bucket *models.Bucket, now time.Time) time.Time {
	if bucket.WindowHours == 0 {
		return time.Time{}
	}
	return now.Add(-time.Duration(bucket.WindowHours) * time.Hour)
}

// unseen returns open reviews of the entries whose scores are higher than those that were
// seen of their users.
func unseen(bucket *models.Bucket, entries []models.Entry, seen map[models.RowID]int64) []models.Review {
	codec := score.Of(bucket)
	var higher []models.Review
	for _, e := range entries {
		points, reachedAt := codec.Decode(e.Composite)
		value := bucket.Score(points)
		if highest, ok := seen[e.User]; ok && highest >= value {
			continue
		}
		higher = append(higher, models.Review{
			Board: bucket.Board, Bucket: bucket.Name, Row: e.User, Score: value, ReachedAt: reachedAt.Time(),
		})
	}
	return higher
}

// Query selects a page of reviews, newest first.
type Query struct {
	// Board and User filter the list; empty selects all.
	Board string
	User  models.UserID
	// Before is the id of the last review of the page before; 0 begins at the newest.
	Before int64
	Limit  int
}

// setUsers sets the user and the nickname of each review.
func (s *Service) setUsers(ctx context.Context, list []models.Review) error {
	rows := column.Of(list, func(r models.Review) models.RowID { return r.Row })
	records, err := s.directory.Records(ctx, rows)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].User, list[i].Nickname = records[i].User, records[i].Nickname
	}
	return nil
}

// Dismissal says who has looked at a review.
type Dismissal struct {
	ID     int64
	By     models.UserID
	Reason string
	// Score is the score that was looked at: a higher one that was found meanwhile makes
	// another review. If it is nil, the score of the review was.
	Score *int64
	// DryRun changes nothing.
	DryRun bool
}

// Dismiss closes a review and returns it. One that was dismissed before stays as it is.
// Errors: CodeNotFound, CodeValidationFailed if the reason is not plain text,
// CodeUnavailable.
func (s *Service) Dismiss(ctx context.Context, d Dismissal) (models.Review, error) {
	if !models.IsPlainText(d.Reason) {
		return models.Review{}, models.Invalid("body.reason", "is UTF-8 without control characters and line breaks")
	}
	review, err := s.store.find(ctx, d.ID)
	if err != nil {
		return review, err
	}
	if review.DismissedAt == nil {
		now := s.clock().UTC()
		review.DismissedAt, review.DismissedBy, review.DismissReason = &now, d.By, d.Reason
		if d.Score != nil {
			review.Score = min(review.Score, *d.Score)
		}
		if !d.DryRun {
			if err := s.store.dismiss(ctx, review); err != nil {
				return review, err
			}
			if review, err = s.store.find(ctx, d.ID); err != nil {
				return review, err
			}
		}
	}
	list := []models.Review{review}
	err = s.setUsers(ctx, list)
	return list[0], err
}

// Open returns the number of reviews to look at of each board that has any or a
// ReviewAbove. One query.
func (s *Service) Open(ctx context.Context) (map[string]int64, error) {
	open, err := s.store.open(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range s.catalog.Definitions.Boards() {
		if b.ReviewAbove > 0 {
			open[b.Name] += 0
		}
	}
	return open, nil
}
