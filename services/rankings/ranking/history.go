package ranking

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

const (
	// historyDays is the number of days of a history without a first day.
	historyDays = 31
	// maxHistoryDays is the maximal number of days of one call.
	maxHistoryDays = 366
)

// HistoryQuery selects days of a user.
type HistoryQuery struct {
	Board string
	// Viewer is the user who calls.
	Viewer models.UserID
	// User is the user whose days are returned: the viewer or a friend.
	User models.UserID
	// From and To bound the days, both included. A nil To means today; a nil From
	// means historyDays.
	From, To *models.Date
	// Offset is that of the user's clock. Boards whose days are each user's own need
	// it if To is nil.
	Offset models.UTCOffset
}

// Day is a user's position among all users on one day.
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
	// Partial reports that the days still in Redis are missing, because Redis did
	// not answer.
	Partial bool
}

// History returns a user's hot and archived days. It makes one query for all of
// them, one more if some of them may be archived meanwhile, and one round trip to
// Redis if any day is hot, or two if the board has shards. For a friend's days it
// makes one more query, and leaves out archived days from long before the friendship.
// A friend who is not shown to the viewer has no days. CodeNotFound if the user is not a
// friend, CodeBoardKind if the board has no days,
// CodeOffsetRequired if today's date is needed and is each user's own.
func (s *Service) History(ctx context.Context, q HistoryQuery) (*History, error) {
	b, err := s.dayBoard(q.Board)
	if err != nil {
		return nil, err
	}
	if q.To == nil {
		today, err := s.o.Catalog.Buckets.Current(b, s.o.Clock(), q.Offset)
		if err != nil {
			return nil, err
		}
		q.To = &today.Day
	}
	from, to, err := historyRange(q.From, *q.To)
	if err != nil {
		return nil, err
	}
	of, err := s.historyOf(ctx, q)
	if err != nil {
		return nil, err
	}
	if to < from || of.user == 0 {
		return &History{}, nil
	}
	h, err := s.history(ctx, b.Name, of.user, of.since, from, to)
	if err == nil && !of.shown {
		h.Days = nil // read all the same, so that neither time nor errors show a difference
	}
	return h, err
}

// dayBoard returns the board of a name. CodeBoardNotFound, or CodeBoardKind if it has no days.
func (s *Service) dayBoard(name string) (*catalog.Board, error) {
	b, err := s.o.Catalog.Definitions.Board(name)
	if err == nil {
		err = b.RequireDays()
	}
	return b, err
}

// historyUser is the user whose days a query asks for.
type historyUser struct {
	// user is 0 if the viewer asks for own days and does not exist.
	user models.RowID
	// since is the time when the two became friends, zero for own days.
	since time.Time
	// shown reports whether the viewer is shown the days.
	shown bool
}

// historyOf returns the user whose days a query asks for. CodeNotFound if the user is not
// a friend.
func (s *Service) historyOf(ctx context.Context, q HistoryQuery) (historyUser, error) {
	viewer, err := s.o.Directory.FindOne(ctx, q.Viewer)
	if err != nil || q.User == q.Viewer {
		return historyUser{user: viewer, shown: true}, err
	}
	user, err := s.o.Directory.FindOne(ctx, q.User)
	if err != nil {
		return historyUser{}, err
	}
	if viewer != 0 && user != 0 {
		since, shown, err := s.o.Friends.Since(ctx, viewer, user)
		if err != nil || !since.IsZero() {
			return historyUser{user, since, shown}, err
		}
	}
	return historyUser{}, models.Errorf(models.CodeNotFound, "no friend has this id")
}

// historyRange returns the first and the last day of a history. It has no days if
// the last is before the first.
func historyRange(from *models.Date, last models.Date) (models.Date, models.Date, error) {
	first := last - historyDays + 1
	if from != nil {
		first = *from
	}
	switch {
	case first > last:
		return 0, 0, models.Invalid("query.from", "is after the last day")
	case last-first >= maxHistoryDays:
		return 0, 0, models.Invalid("query.from", "more than 366 days lie between the first and the last")
	}
	// No bucket is older than FirstDay, and not every database can represent
	// all earlier dates.
	return max(first, catalog.FirstDay), last, nil
}

// history returns a user's days, archived ones only if they are shown to somebody who has
// been a friend since the given time. A zero time shows all.
func (s *Service) history(
	ctx context.Context, boardName string, user models.RowID, since time.Time, from, to models.Date,
) (*History, error) {
	days, err := s.o.Archive.Days(ctx, boardName, user, from, to)
	if err != nil {
		return nil, err
	}
	h := &History{}
	now := s.o.Clock()
	var hot []*models.Bucket
	cold := false
	for _, d := range days {
		if !d.Archived && !now.Before(d.Bucket.StartsAt) {
			hot = append(hot, d.Bucket)
			cold = cold || d.Bucket.Cold(now)
		}
	}
	positions := make(map[string]board.Position, len(hot)) // by bucket
	if len(hot) > 0 {
		list, err := s.o.Entries.Positions(ctx, hot, user)
		if err != nil && models.CodeOf(err) != models.CodeUnavailable {
			return nil, err
		}
		h.Partial = err != nil
		for i, position := range list {
			positions[hot[i].Name] = s.shownPosition(hot[i], user, position)
		}
	}
	if cold {
		// Some of the cold days may have been archived meanwhile.
		if days, err = s.o.Archive.Days(ctx, boardName, user, from, to); err != nil {
			return nil, err
		}
	}
	for _, d := range days {
		if d.Archived && !since.Before(s.shownBefore(d.Bucket.EndsAt)) {
			continue
		}
		if day, ok := historyDay(d, positions[d.Bucket.Name]); ok {
			h.Days = append(h.Days, day)
		}
	}
	return h, nil
}

// shownPosition returns what is shown of a user's position in a bucket that is not archived.
// The rank is that of the entry on the board, where a job applies corrections.
func (s *Service) shownPosition(bucket *models.Bucket, user models.RowID, position board.Position) board.Position {
	composite := []models.Composite{position.Composite}
	s.o.Rules.Show(bucket, []models.RowID{user}, composite)
	if composite[0] == 0 || position.Composite == 0 {
		return board.Position{}
	}
	position.Composite = composite[0]
	return position
}

// historyDay returns a day as the archive has it, or else as Redis has it. It
// returns false if the user has no score on that day.
func historyDay(d archive.Day, hot board.Position) (Day, bool) {
	if d.Archived {
		return Day{
			Date: d.Bucket.Day, Score: d.Bucket.Score(d.Points), ReachedAt: d.ReachedAt, Rank: d.Rank, Total: d.Total, Source: models.SourceArchive,
		}, d.Rank != 0
	}
	points, reachedAt := score.Of(d.Bucket).Decode(hot.Composite)
	return Day{
		Date: d.Bucket.Day, Score: d.Bucket.Score(points), ReachedAt: reachedAt, Rank: hot.Rank, Total: hot.Total, Source: models.SourceHot,
	}, hot.Composite != 0
}
