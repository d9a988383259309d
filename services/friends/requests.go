package friends

import (
	"context"
	"errors"
	"time"

	"stepboard/models"
)

// errNoRequest means that two users have no pending request.
var errNoRequest = errors.New("no such friend request")

// Requests returns a page of a user's requests, incoming and outgoing, newest
// first, behind the given time and user. A zero time begins at the newest. One
// query.
func (s *Service) Requests(ctx context.Context, user models.RowID, before time.Time, after models.RowID, limit int) ([]Request, error) {
	page, err := s.store.requests(ctx, user, before, after, limit)
	if err != nil {
		return nil, models.Unavailable("list friend requests", err)
	}
	return page, nil
}

// Status is the relation of two users after a request.
type Status string

// The possible relations after a request.
const (
	StatusPending Status = "pending"
	StatusFriends Status = "friends"
)

// SendRequest requests a friendship. If the other user has a request pending,
// the two become friends at once. created is false if nothing has changed: the
// request was pending before, or the two are friends. CodeValidationFailed for
// a request to oneself, CodeUserNotFound if the other user does not exist,
// CodeFriendLimit if either has too many friends.
func (s *Service) SendRequest(ctx context.Context, from, to models.RowID) (status Status, created bool, err error) {
	if from == to {
		return "", false, models.Invalid("body.user_id", "nobody can be a friend of oneself")
	}
	err = s.change(ctx, func(t *tx) error {
		// The sender needs a row so that the recipient can see and answer the request.
		if err := t.create([]models.RowID{from}); err != nil {
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
			t.changed = append(t.changed, from, to)
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

// Accept accepts a request: the two users become friends. Repeating it changes
// nothing. CodeNotFound if the other user has sent no request, CodeFriendLimit
// if either has too many friends.
func (s *Service) Accept(ctx context.Context, user, other models.RowID) error {
	return s.change(ctx, func(t *tx) error {
		counts, err := t.lock(lockOrder(user, other))
		if err != nil {
			return err
		}
		if already, err := t.areFriends(user, other); err != nil || already {
			t.changed = append(t.changed, user, other)
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

// Decline removes the request between two users, in either direction. Without
// one it changes nothing.
func (s *Service) Decline(ctx context.Context, user, other models.RowID) error {
	return s.change(ctx, func(t *tx) error {
		if _, err := t.lock(lockOrder(user, other)); err != nil {
			return err
		}
		return t.removeRequest(user, other)
	})
}

// Remove ends a friendship. Without one it changes nothing.
func (s *Service) Remove(ctx context.Context, user, other models.RowID) error {
	return s.change(ctx, func(t *tx) error {
		if _, err := t.lock(lockOrder(user, other)); err != nil {
			return err
		}
		t.changed = append(t.changed, user, other)
		return t.unfriend(user, []models.RowID{other})
	})
}
