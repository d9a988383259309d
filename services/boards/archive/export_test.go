package archive

import (
	"time"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// SetLimits sets how many rows lie between two reports of progress, and how long
// a run may take.
func (s *Service) SetLimits(progressEvery int64, deadline time.Duration) {
	s.progressEvery, s.deadline = progressEvery, deadline
}

// SetSizes sets how many rows the archive reads and writes at a time on SQLite.
func (s *Store) SetSizes(chunk, remove, page, window int) {
	s.storage.(*sqlite).sizes = sizes{chunk: chunk, delete: remove, page: page, window: window}
}

// HashOf returns the hash of the rows of a bucket, which are given in the order of ranks.
func HashOf(bucket *models.Bucket, rows []models.Entry) (hash int64) {
	for i, e := range rows {
		hash ^= rowOf(score.Of(bucket), e, int64(i+1)).hash()
	}
	return hash
}

// Hash64 is the hash of totals.
var Hash64 = hash64
