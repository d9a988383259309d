package friends

import (
	"context"
	"fmt"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
)

const (
	// declineTime is how long after a decline further requests of the same user do not
	// reach the one who declined. The sender sees them as pending.
	declineTime = 7 * 24 * time.Hour
	// requestsPeriod is the period that Limits.PerDay is about. It begins with a user's
	// first request and not at midnight, because users live in many time zones.
	requestsPeriod = 24 * time.Hour
	// pendingRetry is how long a client waits that has too many pending requests.
	// Nobody knows when they will be answered.
	pendingRetry = time.Hour
)

// declinedBefore returns the time of the latest decline that has expired.
func declinedBefore(now time.Time) time.Time { return now.Add(-declineTime) }

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
// CodeFriendLimit if either has too many friends, CodeRequestLimit if the sender has
// sent too many requests, CodeValidationFailed if the sender has blocked the other.
//
// If the other user has blocked the sender, or has declined a request of the sender
// within declineTime, the result is the same as without that, but the other user is not shown
// the request.
func (s *Service) SendRequest(ctx context.Context, sender, recipient models.UserID) (status Status, created bool, err error) {
	if sender == recipient {
		return "", false, models.Invalid("body.user_id", "nobody can be a friend of oneself")
	}
	to, err := s.directory.FindOne(ctx, recipient)
	if err != nil {
		return "", false, err
	}
	if to == 0 {
		return "", false, models.NoUser(recipient)
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
		locked, err := t.lock(from, to)
		if err != nil {
			return err
		}
		if already, err := t.areFriends(from, to); err != nil || already {
			status = StatusFriends
			t.changed = append(t.changed, from, to)
			return err
		}
		if err := t.refuseBlocked(from, to); err != nil {
			return err
		}
		requests, err := t.relation(from, to)
		if err != nil {
			return err
		}
		if requests.sent {
			status = StatusPending
			return t.deliver(from, to)
		}
		if err := checkLimit(locked, from, to); err != nil {
			return err
		}
		created = true
		if requests.received {
			status = StatusFriends
			return t.accept(to, from)
		}
		status = StatusPending
		if err := s.countRequest(t, from, locked[from]); err != nil {
			return err
		}
		if err := t.send(from, to); err != nil {
			return err
		}
		return t.deliver(from, to)
	})
	if err != nil {
		return "", false, err
	}
	return status, created, nil
}

// countRequest counts a new request of a user whose row is locked. CodeRequestLimit if it
// is one too many.
func (s *Service) countRequest(t *tx, user models.RowID, locked lockedUser) error {
	pending, err := t.countSent(user)
	if err != nil {
		return err
	}
	if pending >= s.limits.Pending {
		s.stats.TooManyPending.Add(1)
		return &models.Error{
			Code: models.CodeRequestLimit, Wait: pendingRetry,
			Message: fmt.Sprintf("%d requests wait for an answer: withdraw some of them first", pending),
		}
	}
	now := t.db.NowFunc()
	sent, until := locked.requestsSent, locked.requestsUntil
	if !now.Before(until) {
		sent, until = 0, now.Add(requestsPeriod)
	}
	if sent >= s.limits.PerDay {
		s.stats.TooManyToday.Add(1)
		return &models.Error{
			Code: models.CodeRequestLimit, Wait: until.Sub(now),
			Message: fmt.Sprintf("%d requests were sent within a day: wait before you send more", sent),
		}
	}
	return t.storeSent(user, sent+1, until)
}

// Accept accepts a request: the two users become friends. Repeating it changes
// nothing. CodeNotFound if the other user has sent no request, or the user has declined
// it, CodeFriendLimit if either has too many friends.
func (s *Service) Accept(ctx context.Context, accepting, asking models.UserID) error {
	rows, err := s.directory.Find(ctx, accepting, asking)
	if err != nil {
		return err
	}
	user, other := rows[0], rows[1]
	if user == 0 || other == 0 {
		return errNotAsked(asking)
	}
	return s.change(ctx, func(t *tx) error {
		locked, err := t.lock(user, other)
		if err != nil {
			return err
		}
		if already, err := t.areFriends(user, other); err != nil || already {
			t.changed = append(t.changed, user, other)
			return err
		}
		requests, err := t.relation(user, other)
		if err != nil {
			return err
		}
		if !requests.shown {
			return errNotAsked(asking)
		}
		if err := checkLimit(locked, user, other); err != nil {
			return err
		}
		return t.accept(other, user)
	})
}

func errNotAsked(user models.UserID) error {
	return models.Errorf(models.CodeNotFound, "user %s has not asked", user)
}

// changeTwo runs fn as a change of two users, in a transaction that has locked both.
// If one of them does not exist, it does nothing.
func (s *Service) changeTwo(ctx context.Context, a, b models.UserID, fn func(t *tx, user, other models.RowID) error) error {
	rows, err := s.directory.Find(ctx, a, b)
	if err != nil || rows[0] == 0 || rows[1] == 0 {
		return err
	}
	return s.change(ctx, func(t *tx) error {
		if _, err := t.lock(rows...); err != nil {
			return err
		}
		return fn(t, rows[0], rows[1])
	})
}

// Decline declines the request that the user has received from the other, or withdraws
// the one that the user has sent. Without one it changes nothing. A declined request
// stays pending for its sender.
func (s *Service) Decline(ctx context.Context, user, other models.UserID) error {
	return s.changeTwo(ctx, user, other, func(t *tx, user, other models.RowID) error {
		requests, err := t.relation(user, other)
		if err != nil {
			return err
		}
		switch {
		case requests.sent:
			return t.withdraw(user, other)
		case requests.shown:
			return t.decline(user, other)
		default:
			return nil
		}
	})
}

// Remove ends a friendship. Without one it changes nothing.
func (s *Service) Remove(ctx context.Context, user, other models.UserID) error {
	return s.changeTwo(ctx, user, other, func(t *tx, user, other models.RowID) error {
		t.changed = append(t.changed, user, other)
		return t.unfriend(user, []models.RowID{other})
	})
}

// ForgetDeclined deletes the declines that have expired, and returns their number. One
// statement for each chunk (pause.Chunks).
func (s *Service) ForgetDeclined(ctx context.Context) (deleted int64, err error) {
	return pause.Chunks(ctx, func(limit int) (int64, error) { return s.store.forgetDeclined(ctx, limit) })
}
