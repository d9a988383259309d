package ranking

import (
	"context"

	"stepboard/models"
)

// ShownScore is the score of a user on a day that a viewer is shown.
type ShownScore struct {
	Viewer, User models.RowID
	Day          models.Date
}

// Score finds the score of a user in the bucket of a query that its viewer is shown: an own
// one, or one in a ranking of friends or of a group. CodeNotFound without such a score,
// CodeBoardKind if the board has no days, otherwise the errors of Friends. Two queries at
// most, and one round trip to Redis on a hot bucket or two queries on an archived one.
func (s *Service) Score(ctx context.Context, q Query, user models.UserID) (ShownScore, error) {
	q.Cursor = "" // of another list
	if err := s.requireDays(q.Board); err != nil {
		return ShownScore{}, err
	}
	r, err := s.resolve(ctx, q, "score")
	if err != nil {
		return ShownScore{}, err
	}
	found := ShownScore{Viewer: r.viewer, User: r.viewer}
	if user != q.Viewer {
		if found.User, err = s.directory.FindOne(ctx, user); err != nil {
			return ShownScore{}, err
		}
	}
	if r.bucket == nil || found.Viewer == 0 || found.User == 0 {
		return ShownScore{}, errNoScore(user)
	}
	found.Day = r.bucket.Day
	var composites []models.Composite
	err = s.read(ctx, r, func(from Reader) (err error) {
		composites, err = s.composites(ctx, r, from, []models.RowID{found.User})
		return err
	})
	if err != nil {
		return ShownScore{}, err
	}
	shown, err := s.shows(ctx, r, found.User)
	if err == nil && (!shown || composites[0] == 0) {
		err = errNoScore(user)
	}
	return found, err
}

// requireDays returns CodeBoardNotFound or CodeBoardKind unless a board of the name has days.
func (s *Service) requireDays(board string) error {
	b, err := s.catalog.Definitions.Board(board)
	if err != nil {
		return err
	}
	return b.RequireDays()
}

// shows reports whether a ranking of friends or of a group shows the viewer of a request the
// scores of a user in the request's bucket, which read has found.
func (s *Service) shows(ctx context.Context, r *request, user models.RowID) (bool, error) {
	if user == r.viewer {
		return true, nil
	}
	since, shown, err := s.friends.Since(ctx, r.viewer, user)
	if err != nil {
		return false, err
	}
	if shown && !since.IsZero() && (r.ranking.Source == models.SourceHot || since.Before(s.shownBefore(r.bucket.EndsAt))) {
		return true, nil
	}
	return s.groups.Shows(ctx, r.viewer, user)
}

func errNoScore(user models.UserID) error {
	return models.Errorf(models.CodeNotFound, "user %s has no score that you can see", user)
}
