package ledger

import (
	"context"
	"time"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/boards/score"
)

const (
	// raisePatience is how long a call waits for the buckets to be raised, so that
	// a Redis that hangs does not hold up increments that are counted. It is as long
	// as Redis has to answer a command and its repetition.
	raisePatience = 2 * time.Second
	// raiseItems is how many raises of several calls one write takes.
	raiseItems = 1000
	// raiseWorkers is how many writes to one server may run at a time. It is one:
	// the next write gets larger by waiting.
	raiseWorkers = 1
)

// raise raises the buckets of the increments that are counted, and waits for it
// as long as a call may wait. After that the raises continue. Totals that don't
// reach Redis are left to the reconciler.
func (s *Service) raise(ctx context.Context, items []*pending) {
	raises := make([]models.Raise, 0, len(items))
	for _, p := range items {
		if raise, ok := s.raiseOf(ctx, p); ok {
			raises = append(raises, raise)
		}
	}
	if len(raises) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := s.raises.Submit(ctx, raises); err != nil {
		s.stats.Unraised.Add(int64(len(raises)))
		for _, p := range items {
			p.result.Unraised = true
		}
		s.log.WarnContext(ctx, "increments are counted and do not reach Redis; they will be brought there later", "error", err)
	}
	failpoint.Hit("ledger.raised")
}

// raiseOf returns the raise that a counted increment leads to; false if it leads
// to none. The raise has the whole total, so it may be applied in any order and
// again. It has none if the board was closed: its bucket is final, or will be once
// the reconciler has raised what it lacks.
func (s *Service) raiseOf(ctx context.Context, p *pending) (models.Raise, bool) {
	if !p.total.stored || p.closed != nil {
		return models.Raise{}, false
	}
	bucket := p.totals.Bucket
	composite, err := score.Of(bucket).Encode(models.Points(p.total.score), p.total.reachedAt)
	if err != nil {
		s.log.ErrorContext(ctx, "a total can't be in its bucket", "board", p.board, "event_id", p.EventID, "error", err)
		return models.Raise{}, false
	}
	return models.Raise{Bucket: bucket, Entry: models.Entry{User: p.row, Composite: composite}}, true
}
