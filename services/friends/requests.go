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
// first, behind the given time and row. A zero time begins at the newest. A user that
// does not exist has none. One query.
func (s *Service) Requests(ctx context.Context, user models.UserID, before time.Time, after models.RowID, limit int) ([]Request, error) {
	row, err := s.find(ctx, user)
	if err != nil || row == 0 {
		return nil, err
	}
	page, err := s.store.requests(ctx, row, before, after, limit)
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
func (s *Service) SendRequest(ctx context.Context, sender, recipient models.UserID) (status Status, created bool, err error) {
	if sender == recipient {
		return "", false, models.Invalid("body.user_id", "nobody can be a friend of oneself")
	}
	to, err := s.find(ctx, recipient)
	if err != nil {
		return "", false, err
	}
	if to == 0 {
		return "", false, models.Errorf(models.CodeUserNotFound, "there is no user %s", recipient)
	}
	// The sender must exist so that the recipient can see and answer the request.
	rows, err := s.directory.Ensure(ctx, sender)
	if err != nil {
		return "", false, err
	}
	return s.request(ctx, rows[0], to)
}

// request is SendRequest for two users that exist.
func (s *Service) request(ctx context.Context, from, to models.RowID) (status Status, created bool, err error) {
	err = s.change(ctx, func(t *tx) error {
		locked, err := t.lock(lockOrder(from, to))
		if err != nil {
			return err
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
		if err := checkLimit(locked, from, to); err != nil {
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
func (s *Service) Accept(ctx context.Context, accepting, asking models.UserID) error {
	user, other, err := s.findTwo(ctx, accepting, asking)
	if err != nil {
		return err
	}
	if user == 0 || other == 0 {
		return errNotAsked(asking)
	}
	return s.change(ctx, func(t *tx) error {
		locked, err := t.lock(lockOrder(user, other))
		if err != nil {
			return err
		}
		if already, err := t.areFriends(user, other); err != nil || already {
			t.changed = append(t.changed, user, other)
			return err
		}
		request, err := t.request(user, other)
		if errors.Is(err, errNoRequest) || (err == nil && !request.Incoming) {
			return errNotAsked(asking)
		}
		if err != nil {
			return err
		}
		if err := checkLimit(locked, user, other); err != nil {
			return err
		}
		_, err = t.befriend([]models.Edge{{A: user, B: other}})
		return err
	})
}

func errNotAsked(user models.UserID) error {
	return models.Errorf(models.CodeNotFound, "user %s has not asked", user)
}

// findTwo returns the rows of two users; 0 for one that does not exist.
func (s *Service) findTwo(ctx context.Context, a, b models.UserID) (rowA, rowB models.RowID, err error) {
	rows, err := s.directory.Find(ctx, a, b)
	if err != nil {
		return 0, 0, err
	}
	return rows[0], rows[1], nil
}

// changeTwo runs fn as a change of two users, in a transaction that has locked both.
// If one of them does not exist, it does nothing.
func (s *Service) changeTwo(ctx context.Context, a, b models.UserID, fn func(t *tx, user, other models.RowID) error) error {
	user, other, err := s.findTwo(ctx, a, b)
	if err != nil || user == 0 || other == 0 {
		return err
	}
	return s.change(ctx, func(t *tx) error {
		if _, err := t.lock(lockOrder(user, other)); err != nil {
			return err
		}
		return fn(t, user, other)
	})
}

// Decline removes the request between two users, in either direction. Without
// one it changes nothing.
func (s *Service) Decline(ctx context.Context, user, other models.UserID) error {
	return s.changeTwo(ctx, user, other, func(t *tx, user, other models.RowID) error {
		return t.removeRequest(user, other)
	})
}

// Remove ends a friendship. Without one it changes nothing.
func (s *Service) Remove(ctx context.Context, user, other models.UserID) error {
	return s.changeTwo(ctx, user, other, func(t *tx, user, other models.RowID) error {
		t.changed = append(t.changed, user, other)
		return t.unfriend(user, []models.RowID{other})
	})
}
