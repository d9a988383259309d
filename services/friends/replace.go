package friends

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"stepboard/models"
)

// errListChanged says that a list changed between looking and locking.
var errListChanged = errors.New("the friend list changed meanwhile")

const (
	// replaceTries bounds how often Replace looks again at a list that others
	// keep changing.
	replaceTries = 10
	// replacePause is how long it waits at the most before the second try; each
	// further one waits longer.
	replacePause = 5 * time.Millisecond
)

// Replace makes the user's friends exactly those given, in both directions.
// Users that do not exist yet are made. The ids are distinct and not the
// user's own. CodeFriendLimit if they are too many or one of them is full;
// then nothing is changed.
func (s *Service) Replace(ctx context.Context, user models.UserID, friends []models.UserID) error {
	if len(friends) > models.MaxFriends {
		return models.Errorf(models.CodeFriendLimit, "a user has at most %d friends", models.MaxFriends)
	}
	wanted := sorted(friends)
	for try := range replaceTries {
		had, err := s.store.ids(ctx, user)
		if err != nil {
			return models.Unavailable("replace friends", err)
		}
		err = s.change(ctx, func(t *tx) error { return t.replace(user, had, wanted) })
		if !errors.Is(err, errListChanged) {
			return err
		}
		select {
		case <-ctx.Done():
			return models.Unavailable("replace friends", ctx.Err())
		case <-time.After(rand.N(replacePause * time.Duration(try+1))):
		}
	}
	return models.Unavailable("replace friends", errListChanged)
}

// replace moves a user from the list that it had to the wanted one, both
// ascending; errMoved if it no longer had that list.
func (t *tx) replace(user models.UserID, had, wanted []models.UserID) error {
	gained, lost := difference(wanted, had), difference(had, wanted)
	involved := sorted(append(append([]models.UserID{user}, gained...), lost...))
	if err := t.create(involved); err != nil {
		return err
	}
	counts, err := t.lock(involved)
	if err != nil {
		return err
	}
	now, err := friendIDs(t.db, user)
	if err != nil {
		return err
	}
	if !slices.Equal(now, had) {
		return errListChanged
	}
	if err := checkLimit(counts, gained...); err != nil {
		return err
	}
	if err := t.unfriend(user, lost); err != nil {
		return err
	}
	edges := make([]models.Edge, len(gained))
	for i, id := range gained {
		edges[i] = models.Edge{A: user, B: id}
	}
	_, err = t.befriend(edges)
	return err
}

// difference is what a has and b has not; both are ascending.
func difference(a, b []models.UserID) []models.UserID {
	var out []models.UserID
	for _, id := range a {
		if _, found := slices.BinarySearch(b, id); !found {
			out = append(out, id)
		}
	}
	return out
}
