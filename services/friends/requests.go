package friends

import (
	"context"
	"errors"
	"time"

	"stepboard/models"
)

// errNoRequest says that no request stands between two users.
var errNoRequest = errors.New("no such friend request")

// Requests is a page of a user's requests, incoming and outgoing, newest
// first, behind the given place; a zero time begins at the newest. One query.
func (s *Service) Requests(ctx context.Context, user models.UserID, before time.Time, after models.UserID, limit int) ([]Request, error) {
	page, err := s.store.requests(ctx, user, before, after, limit)
	if err != nil {
		return nil, models.Unavailable("list friend requests", err)
	}
	return page, nil
}

// Status is how two users stand after a request.
type Status string

// The states that a request leads to.
const (
	StatusPending Status = "pending"
	StatusFriends Status = "friends"
)

// SendRequest requests a friendship. It becomes one at once if the other has asked
// already. created is false if nothing changed: it was asked before, or they
// are friends. CodeValidationFailed for oneself, CodeUserNotFound for a user
// that does not exist, CodeFriendLimit if either side is full.
func (s *Service) SendRequest(ctx context.Context, from, to models.UserID) (status Status, created bool, err error) {
	if from == to {
		return "", false, models.Invalid("body.user_id", "nobody can be a friend of oneself")
	}
	err = s.change(ctx, func(t *tx) error {
		// Who asks must be there to be found by who answers.
		if err := t.create([]models.UserID{from}); err != nil {
			return err
		}
		counts, err := t.lock(lockOrder(from, to))
		if err != nil {
			return err
		}
		if _, ok := counts[to]; !ok {
			return models.Errorf(models.CodeUserNotFound, "there is no user %v", to)
		}
		if already, err := t.areFriends(from, to); err != nil || already {
			status = StatusFriends
			return err
		}
		request, err := t.request(from, to)
		if err != nil && !errors.Is(err, errNoRequest) {
			return err
		}
		if request != nil && !request.Incoming {
			status = StatusPending
			return nil
		}
		if err := checkLimit(counts, from, to); err != nil {
			return err
		}
		created = true
		if request != nil {
			status = StatusFriends
			_, err := t.befriend([]models.Edge{{A: from, B: to}})
			return err
		}
		status = StatusPending
		return t.addRequest(from, to)
	})
	return status, created, err
}

// Accept makes friends of a user and the one who asked. Repeated it changes
// nothing. CodeNotFound if the other has not asked, CodeFriendLimit if either
// side is full.
func (s *Service) Accept(ctx context.Context, user, other models.UserID) error {
	return s.change(ctx, func(t *tx) error {
		counts, err := t.lock(lockOrder(user, other))
		if err != nil {
			return err
		}
		if already, err := t.areFriends(user, other); err != nil || already {
			return err
		}
		request, err := t.request(user, other)
		if errors.Is(err, errNoRequest) || (err == nil && !request.Incoming) {
			return models.Errorf(models.CodeNotFound, "user %v has not asked", other)
		}
		if err != nil {
			return err
		}
		if err := checkLimit(counts, user, other); err != nil {
			return err
		}
		_, err = t.befriend([]models.Edge{{A: user, B: other}})
		return err
	})
}

// Decline removes the request between two users, whoever asked; without one
// it changes nothing.
func (s *Service) Decline(ctx context.Context, user, other models.UserID) error {
	return s.change(ctx, func(t *tx) error {
		if _, err := t.lock(lockOrder(user, other)); err != nil {
			return err
		}
		return t.removeRequest(user, other)
	})
}

// Remove ends a friendship; without one it changes nothing.
func (s *Service) Remove(ctx context.Context, user, other models.UserID) error {
	return s.change(ctx, func(t *tx) error {
		if _, err := t.lock(lockOrder(user, other)); err != nil {
			return err
		}
		return t.unfriend(user, []models.UserID{other})
	})
}
