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
	q.Cursor, q.Likes = "", true // the cursor is one of another list, and only days have likes
	r, err := s.resolve(ctx, q, "score")
	if err != nil {
		return ShownScore{}, err
	}
	found := ShownScore{Viewer: r.viewer, User: r.viewer}
	if user != q.Viewer {
		if found.User, err = s.o.Directory.FindOne(ctx, user); err != nil {
			return ShownScore{}, err
		}
	}
	if found.Viewer == 0 || found.User == 0 {
		return ShownScore{}, errNoScore(user)
	}
	composites := []models.Composite{0}
	var at place
	err = s.answer(ctx, &r, func(a *attempt) (err error) {
		a.near = nil // a like is of a score that counts now, so the store is asked
		if at = a.place; at.bucket != nil {
			composites, err = s.composites(ctx, a, []models.RowID{found.User})
		}
		return err
	})
	if err != nil {
		return ShownScore{}, err
	}
	if at.bucket == nil {
		return ShownScore{}, errNoScore(user)
	}
	found.Day = at.bucket.Day
	shown, err := s.shows(ctx, at, found.Viewer, found.User)
	if err == nil && (!shown || composites[0] == 0) {
		err = errNoScore(user)
	}
	return found, err
}

// shows reports whether a ranking of friends or of a group shows a viewer the scores of a user
// in the bucket of a place.
func (s *Service) shows(ctx context.Context, at place, viewer, user models.RowID) (bool, error) {
	if user == viewer {
		return true, nil
	}
	since, shown, err := s.o.Friends.Since(ctx, viewer, user)
	if err != nil {
		return false, err
	}
	if shown && !since.IsZero() && (!at.archived || since.Before(s.shownBefore(at.bucket.EndsAt))) {
		return true, nil
	}
	return s.o.Groups.Shows(ctx, viewer, user)
}

func errNoScore(user models.UserID) error {
	return models.Errorf(models.CodeNotFound, "user %s has no score that you can see", user)
}
