package catalog

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// Finish makes the events final that have closed, and returns how many. A transaction that counts
// increments keeps an event from it for as long as it lasts; then the next call does it. Two
// statements.
func (s *Buckets) Finish(ctx context.Context) (int64, error) {
	finished, err := s.store.finish(ctx, s.clock())
	if err != nil || finished == 0 {
		return finished, err
	}
	return finished, s.loadOpen(ctx)
}

// ExtendableUntil returns up to when the end of an event can be moved; nil for other boards. No I/O.
func (s *Buckets) ExtendableUntil(b *Board) *time.Time {
	if b.EndsAt == nil {
		return nil
	}
	until := score.Of(s.current(b, s.clock())).Until()
	return &until
}

// MoveEnd moves the end of an event to a later time. Corrections that are filed under its last day
// follow. Errors: CodeBoardNotFound, CodeBoardKind if the board is no event, CodeEventFinal,
// CodeValidationFailed for an earlier end and one that its bucket can't hold, CodeUnavailable.
// Other replicas notice the end within RefreshEvery, and increments are counted up to it at once. A
// dry run stores nothing. It returns the board as it is or would be.
func (d *Definitions) MoveEnd(ctx context.Context, name string, end time.Time, dryRun bool) (*Board, error) {
	b, err := d.Board(name)
	if err != nil {
		return nil, err
	}
	if b.EndsAt == nil {
		return nil, models.Errorf(models.CodeBoardKind, "%s is not an event: it has no end", name)
	}
	def, err := d.store.moveEnd(ctx, b, end, dryRun)
	if err != nil {
		return nil, models.Public("move the end of an event", err)
	}
	if dryRun {
		return NewBoard(def)
	}
	if err := d.Refresh(ctx); err != nil {
		return nil, models.Unavailable("load board", err)
	}
	return d.Board(name)
}
