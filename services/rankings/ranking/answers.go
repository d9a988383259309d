package ranking

import (
	"sync/atomic"
	"time"

	"stepboard/models"
)

// Answers counts answers of one list by where they came from. A span that has hot days counts as
// one from Redis.
type Answers struct{ Memory, Redis, Archive atomic.Int64 }

// Lists are the lists that are counted.
var Lists = []string{"friends", "group", "top", "around", "me"}

// Answers returns the counts of a list, one of Lists, which go on counting.
func (s *Service) Answers(list string) *Answers { return s.answers[list] }

// count counts an answer that was read from a place, or from memory if asOf is not zero.
func (s *Service) count(r *request, at place, asOf time.Time) {
	answers := s.answers[r.list]
	switch {
	case !asOf.IsZero():
		answers.Memory.Add(1)
	case at.source() == models.SourceArchive:
		answers.Archive.Add(1)
	default:
		answers.Redis.Add(1)
	}
}
