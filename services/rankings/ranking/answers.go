package ranking

import (
	"sync/atomic"

	"stepboard/models"
)

// Answers counts answers of one list by where they came from. A span that has hot days counts as
// one from Redis.
type Answers struct{ Memory, Redis, Archive atomic.Int64 }

// Lists are the lists that are counted.
var Lists = []string{"friends", "group", "top", "around", "me"}

// Answers returns the counts of a list, one of Lists, which go on counting.
func (s *Service) Answers(list string) *Answers { return s.answers[list] }

// count counts an answer, if those of its list are counted.
func (s *Service) count(r *request, a *attempt) {
	answers := s.answers[r.list]
	switch {
	case answers == nil:
	case !a.asOf.IsZero():
		answers.Memory.Add(1)
	case a.source() == models.SourceArchive:
		answers.Archive.Add(1)
	default:
		answers.Redis.Add(1)
	}
}
