package competitions

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"stepboard/models"
)

const (
	// lookAgain is how long a process shows a standing without asking whether it is the present one.
	lookAgain = time.Second
	// lineBytes is about what a line takes in memory, ranked.
	lineBytes = 200
)

// errFirst means that a standing was not computed yet.
var errFirst = errors.New("the standing is computed for the first time within a minute")

// present is the present standing of a competition.
type present struct {
	*standing
	row stored // without Body
	// hidden are those who count, or did, and hide from everybody.
	hidden map[models.RowID]bool
}

// shown is a standing in memory. Its lock is held while it is read.
type shown struct {
	mu       sync.Mutex
	lookedAt time.Time
	present
}

// memory has the standings that were shown lately. Safe for concurrent use.
type memory = otter.Cache[models.CompetitionRow, *shown]

func newMemory(bytes int64) *memory {
	return otter.Must(&otter.Options[models.CompetitionRow, *shown]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ models.CompetitionRow, s *shown) uint32 { return s.weight() },
	})
}

func (s *shown) weight() uint32 {
	if s.standing == nil {
		return lineBytes
	}
	return uint32(lineBytes * (1 + len(s.teams) + len(s.people)))
}

// standing returns the present standing of a competition, or a final one that was made since that was read.
// CodeUnavailable before the first one. Two queries once a second, and one more if it was replaced.
func (s *Service) standing(ctx context.Context, c *models.Competition) (present, error) {
	entry, _ := s.memory.ComputeIfAbsent(c.Row, func() (*shown, bool) { return new(shown), false })
	entry.mu.Lock()
	defer entry.mu.Unlock()
	now := s.o.Clock()
	if entry.standing != nil && now.Sub(entry.lookedAt).Abs() < lookAgain && entry.row.Revision >= c.Revision {
		return entry.present, nil
	}
	found, err := s.look(ctx, c, entry.present)
	if err != nil {
		return present{}, models.Public("read a standing", err)
	}
	if found.standing != entry.standing {
		entry.present = found
		s.memory.Set(c.Row, entry) // with its weight
	}
	entry.lookedAt = now
	return found, nil
}

// look returns the standing that is stored, or the one before if it has not changed.
func (s *Service) look(ctx context.Context, c *models.Competition, had present) (present, error) {
	row, err := s.o.Calls.latest(ctx, c.Row)
	if err != nil {
		return had, err
	}
	hidden, err := s.o.Calls.hidden(ctx, c.Row)
	if err != nil || had.standing != nil && row.Revision == had.row.Revision && row.AsOf.Equal(had.row.AsOf) && maps.Equal(hidden, had.hidden) {
		return had, err
	}
	row, b, err := s.o.Calls.load(ctx, c.Row, row.Revision)
	if err != nil {
		return had, err
	}
	if row.Revision == 0 { // a final one stays
		b.hide(hidden)
		b.leave(s.o.Rules.Erased)
	}
	row.Body = nil
	return present{rank(c.Team, b), row, hidden}, nil
}
