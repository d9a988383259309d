package ranking

import (
	"context"
	"slices"

	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/score"
)

const (
	// historyDays is how many days a history shows where nothing else is asked
	// for.
	historyDays = 31
	// maxHistoryDays is the most that one call answers.
	maxHistoryDays = 366
)

// HistoryQuery asks for the days of a user.
type HistoryQuery struct {
	Board string
	// Viewer is who asks.
	Viewer models.UserID
	// Of is whose days are asked for: the viewer's, or a friend's.
	Of models.UserID
	// From and To bound the days, both included; nil means the last 31 days, up
	// to today.
	From, To *models.Date
}

// Day is a user's place among everybody on one day.
type Day struct {
	Date      models.Date
	Score     int64
	ReachedAt models.Timestamp
	Rank      int64
	Total     int64
	Source    models.Source
}

// History is a user's days, newest first; days without a score are left out.
type History struct {
	Days []Day
	// Partial says that days which are still in Redis are missing, because it
	// did not answer.
	Partial bool
}

// History answers a user's days over hot and archived ones alike. One query
// for all of them, and one round trip to Redis where any is hot, two if it has
// shards; for a friend's days one more for the friends. CodeNotFound where Of
// is no friend, CodeBoardKind where the board has no days.
func (s *Service) History(ctx context.Context, q HistoryQuery) (*History, error) {
	b, err := s.catalog.Definitions.Board(q.Board)
	if err != nil {
		return nil, err
	}
	if err := b.RequireDays(); err != nil {
		return nil, err
	}
	from, to, err := historyRange(q.From, q.To, s.catalog.Buckets.Current(b, s.clock()).Day)
	if err != nil {
		return nil, err
	}
	if q.Of != q.Viewer {
		ids, err := s.friends.IDs(ctx, q.Viewer)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, q.Of) {
			return nil, models.Errorf(models.CodeNotFound, "there is no friend of this id")
		}
	}
	if to < from {
		return &History{}, nil
	}
	return s.history(ctx, b.Name, q.Of, from, to)
}

// historyRange is the rule of which days are answered: none where the last lies
// before the first.
func historyRange(from, to *models.Date, today models.Date) (first, last models.Date, err error) {
	last = today
	if to != nil {
		last = *to
	}
	first = last - historyDays + 1
	if from != nil {
		first = *from
	}
	switch {
	case first > last:
		return 0, 0, models.Invalid("query.from", "is after the last day")
	case last-first >= maxHistoryDays:
		return 0, 0, models.Invalid("query.from", "more than 366 days lie between the first and the last")
	}
	// Nothing is older, and not every store knows of all that a date can be.
	return max(first, catalog.FirstDay), last, nil
}

func (s *Service) history(ctx context.Context, boardName string, user models.UserID, from, to models.Date) (*History, error) {
	days, err := s.archive.Days(ctx, boardName, user, from, to)
	if err != nil {
		return nil, err
	}
	h := &History{}
	now := s.clock()
	var hot []*models.Bucket
	cold := false
	for _, d := range days {
		if !d.Archived && !now.Before(d.Bucket.StartsAt) {
			hot = append(hot, d.Bucket)
			cold = cold || d.Bucket.Cold(now)
		}
	}
	places := make(map[string]board.Position, len(hot))
	if len(hot) > 0 {
		standings, err := s.boards.Positions(ctx, hot, user)
		if err != nil && models.CodeOf(err) != models.CodeUnavailable {
			return nil, err
		}
		h.Partial = err != nil
		for i, standing := range standings {
			places[hot[i].Name] = standing
		}
	}
	if cold {
		// The archive may have taken some of them over meanwhile.
		if days, err = s.archive.Days(ctx, boardName, user, from, to); err != nil {
			return nil, err
		}
	}
	for _, d := range days {
		if line, ok := historyLine(d, places[d.Bucket.Name]); ok {
			h.Days = append(h.Days, line)
		}
	}
	return h, nil
}

// historyLine is a day from the side that has it.
func historyLine(d archive.Day, place board.Position) (Day, bool) {
	if d.Archived {
		return Day{
			Date: d.Bucket.Day, Score: d.Score, ReachedAt: d.ReachedAt, Rank: d.Rank, Total: d.Total, Source: models.SourceArchive,
		}, d.Rank != 0
	}
	points, reachedAt := score.Of(d.Bucket).Decode(place.Composite)
	return Day{
		Date: d.Bucket.Day, Score: points, ReachedAt: reachedAt, Rank: place.Rank, Total: place.Total, Source: models.SourceHot,
	}, place.Composite != 0
}
