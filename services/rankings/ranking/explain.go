package ranking

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/score"
)

// TimedScore is a score and when it was reached.
type TimedScore struct {
	Score     int64
	ReachedAt models.Timestamp
}

// Explanation says why a user's score of a day is what it is. It names nobody else.
type Explanation struct {
	Date models.Date
	// Exists reports whether the user exists.
	Exists bool
	// Score is what counts; nil for nothing.
	Score *TimedScore
	// Reported is the best of what the user has reported if that is not what counts; otherwise nil.
	Reported *TimedScore
	// Changes reports whether something else than Score counts after the next run of the archive:
	// Next, which is nil for nothing.
	Changes bool
	Next    *TimedScore
	// Held is the user's largest total above the board's HoldAbove, in whatever state; nil for none.
	Held *models.Hold
	// Correction is an operator's decision that holds; nil for none.
	Correction *models.Correction
	// OpenUntil is until when the day takes uploads.
	OpenUntil time.Time
	// Final reports that no updates are taken any more, as that of models.Ranking.
	Final bool
	// Archived reports whether the day is in the archive.
	Archived bool
}

// Explain returns why the viewer's score of a day is what it is, from the stores. Five queries, one of
// them or a round trip to Redis for what counts, and one for what waits. Errors: those of Me, and
// CodeBoardKind if the board has no days.
func (s *Service) Explain(ctx context.Context, q Query) (e *Explanation, err error) {
	if _, err := s.dayBoard(q.Board); err != nil {
		return nil, err
	}
	r, err := s.resolve(ctx, q, "explain")
	if err != nil {
		return nil, err
	}
	err = s.answer(ctx, &r, func(a *attempt) (err error) {
		a.near = nil
		e, err = s.explanation(ctx, &r, a)
		return err
	})
	return e, err
}

// explanation is Explain from one place.
func (s *Service) explanation(ctx context.Context, r *request, a *attempt) (*Explanation, error) {
	e := &Explanation{Date: r.bucket.Day, Exists: r.viewer != 0, OpenUntil: r.bucket.ClosesAt, Final: a.final, Archived: a.archived}
	if a.bucket == nil {
		return e, nil
	}
	e.OpenUntil = a.bucket.ClosesAt
	if r.viewer == 0 || s.o.Rules.Erased(r.viewer) {
		return e, nil
	}
	if s.o.Holds != nil {
		held, err := s.o.Holds.Of(ctx, a.bucket, r.viewer)
		if err != nil {
			return nil, err
		}
		e.Held = held
	}
	// What waits is read before what counts: a run in between moves it there.
	known, err := s.o.Corrections.Known(ctx, a.bucket, r.viewer)
	if err != nil {
		return nil, err
	}
	stored, err := s.stored(ctx, a, []models.RowID{r.viewer})
	if err != nil {
		return nil, err
	}
	e.explain(known, a.place, stored[0], a.bucket.Cold(r.now))
	return e, nil
}

// explain fills in what follows from what is known of a score, and from what the board or the archive
// has of it. The archive has applied the corrections of its last run; on a board they are applied here.
func (e *Explanation) explain(known corrections.Known, at place, stored models.Composite, cold bool) {
	counts := stored
	if !at.archived {
		counts = known.Apply(at.bucket, stored)
	}
	reported := max(stored, known.Reported)
	next := known.Apply(at.bucket, reported)
	e.Correction = known.Correction
	e.Score = timedScore(at.bucket, counts)
	if reported != counts {
		e.Reported = timedScore(at.bucket, reported)
	}
	if cold && next != counts {
		e.Changes, e.Next = true, timedScore(at.bucket, next)
	}
}

// timedScore returns the score of a composite; nil for 0.
func timedScore(bucket *models.Bucket, composite models.Composite) *TimedScore {
	if composite == 0 {
		return nil
	}
	points, reachedAt := score.Of(bucket).Decode(composite)
	return &TimedScore{bucket.Score(points), reachedAt}
}
