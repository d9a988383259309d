package archive

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/board"
	"stepboard/services/score"
)

// Complete reports whether the archive has the bucket, whole. Once it has, the
// answer comes from memory; until then each call is one query.
func (s *Service) Complete(ctx context.Context, bucket *models.Bucket) (bool, error) {
	key := bucketKey{bucket.Board, bucket.Name}
	if _, ok := s.complete.Load(key); ok {
		return true, nil
	}
	done, err := s.store.complete(ctx, bucket.Board, bucket.Name)
	if err != nil {
		return false, models.Unavailable("ask whether a bucket is archived", err)
	}
	if done {
		s.complete.Store(key, true)
	}
	return done, nil
}

// Composites looks up the users' composites in an archived bucket, 0 for a
// user without one, in the order of the users. One query.
func (s *Service) Composites(ctx context.Context, bucket *models.Bucket, users []models.UserID) ([]models.Composite, error) {
	composites, err := s.store.storage.composites(ctx, bucket, users)
	if err != nil {
		return nil, models.Unavailable("read archived scores", err)
	}
	return composites, nil
}

// Window reads the stretch of an archived bucket around a place, as
// board.Store.Window does for one in Redis. One query, with log N steps to
// find the place by rank.
func (s *Service) Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error) {
	w, err := s.store.window(ctx, bucket, at, back, forward)
	if err != nil {
		return board.Window{}, models.Unavailable("read archived ranks", err)
	}
	return w, nil
}

// Day is one day of a user's history.
type Day struct {
	Bucket *models.Bucket
	// Archived says that the archive has the bucket; the rest is empty
	// otherwise, and where the user has no score.
	Archived  bool
	Score     int64
	ReachedAt models.Timestamp
	Rank      int64 // 0 without a score
	Total     int64
}

// Days lists a board's buckets from one day to another, newest first, with the
// user's place in those that are archived. One query.
func (s *Service) Days(ctx context.Context, boardName string, user models.UserID, from, to models.Date) ([]Day, error) {
	days, err := s.store.days(ctx, boardName, user, from, to)
	if err != nil {
		return nil, models.Unavailable("read history", err)
	}
	return days, nil
}

// composite packs what a row says of a user, as it was before it was archived.
func composite(codec score.Codec, points int64, reachedAt time.Time) (models.Composite, error) {
	return codec.Encode(points, models.TimestampOf(reachedAt))
}
