package archive

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
)

// Complete reports whether the archive has the whole bucket. Each call is one
// query until it does; then the answer comes from memory.
func (s *Service) Complete(ctx context.Context, bucket *models.Bucket) (bool, error) {
	key := bucketKey{bucket.Board, bucket.Name}
	if _, ok := s.complete.Load(key); ok {
		return true, nil
	}
	done, err := s.store.complete(ctx, bucket.Board, bucket.Name)
	if err != nil {
		return false, models.Unavailable("read archive runs", err)
	}
	if done {
		s.complete.Store(key, true)
	}
	return done, nil
}

// Composites returns the users' composites in an archived bucket, in the order
// of users; 0 for a user without one. One query.
func (s *Service) Composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	composites, err := s.store.storage.composites(ctx, bucket, users)
	return composites, models.Public("read archived scores", err)
}

// CompositesBefore returns the composites that the raises' users have in the archive, each in
// the bucket of its raise, by position; 0 for a user without one. One query, which probes a key
// for each.
func (s *Service) CompositesBefore(ctx context.Context, raises []models.Raise) ([]models.Composite, error) {
	composites, err := s.store.storage.stored(ctx, raises)
	return composites, models.Public("read archived scores", err)
}

// Window reads the entries of an archived bucket around a position, as
// board.Store.Window does for a bucket in Redis. One query, which finds the
// position among N entries in log N steps.
func (s *Service) Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (w board.Window, err error) {
	rows, err := s.store.storage.window(s.store.reads.WithContext(ctx), bucket, at, back, forward)
	for _, r := range rows {
		w.Total, w.Before = r.Total, r.Before
		entry := models.Entry{User: r.UserID, Composite: r.Composite}
		switch {
		case r.Composite == 0:
		case r.Rank <= r.Before:
			w.Ahead = append(w.Ahead, entry)
		default:
			w.Behind = append(w.Behind, entry)
		}
	}
	return w, models.Public("read archived ranks", err)
}

// Day is one day of a user's history.
type Day struct {
	Bucket *models.Bucket
	// Archived reports whether the archive has the bucket. The fields below are
	// zero if it does not, or if the user has no score.
	Archived  bool
	Points    models.Points
	ReachedAt models.Timestamp
	Rank      int64 // 0 without a score
	Total     int64
}

// composite encodes the points and time of a row, as they were before archiving.
func composite(codec score.Codec, points models.Points, reachedAt time.Time) (models.Composite, error) {
	return codec.Encode(points, models.TimestampOf(reachedAt))
}
