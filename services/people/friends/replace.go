package friends

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
)

// errListChanged means that a list changed between reading and locking it. Nothing has
// been committed then.
var errListChanged = models.Unavailable("replace friends", errors.New("the friend list changed meanwhile"))

const (
	// replaceTries bounds how often Replace reads a list again that others keep
	// changing.
	replaceTries = 10
	// replacePause is the longest pause before the second try. Each further
	// pause may be longer by as much.
	replacePause = 5 * time.Millisecond
)

// Replace makes the given users the user's only friends, in both directions.
// Users that do not exist are created. The ids are distinct and not the user's
// own. CodeFriendLimit if they are too many or one of them has too many
// friends; then nothing changes.
func (s *Service) Replace(ctx context.Context, owner models.UserID, friends []models.UserID) error {
	if len(friends) > models.MaxFriends {
		return models.Errorf(models.CodeFriendLimit, "a user has at most %d friends", models.MaxFriends)
	}
	rows, err := s.directory.Ensure(ctx, append([]models.UserID{owner}, friends...)...)
	if err != nil {
		return err
	}
	user, wanted := rows[0], rows[1:]
	slices.Sort(wanted)
	for try := range replaceTries {
		had, err := friendIDs(s.store.db.WithContext(ctx), user)
		if err != nil {
			return models.Unavailable("replace friends", err)
		}
		err = s.change(ctx, func(t *tx) error { return t.replace(user, had, wanted) })
		if !errors.Is(err, errListChanged) {
			return err
		}
		if err := pause.For(ctx, rand.N(replacePause*time.Duration(try+1))); err != nil { //nolint:gosec // a pause is no secret
			return models.Unavailable("replace friends", err)
		}
	}
	return errListChanged
}

// replace changes a user's list from the one that was read to the wanted one;
// both are ascending. errListChanged if the list is a different one by now.
func (t *tx) replace(user models.RowID, had, wanted []models.RowID) error {
	gained, lost := models.RowsWithout(wanted, had), models.RowsWithout(had, wanted)
	locked, err := t.lock(slices.Concat([]models.RowID{user}, gained, lost)...)
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
	if err := checkLimit(locked, gained...); err != nil {
		return err
	}
	t.changed = append(append(t.changed, user), wanted...)
	if err := t.unfriend(user, lost); err != nil {
		return err
	}
	edges := make([]models.Edge, len(gained))
	for i, id := range gained {
		edges[i] = models.Edge{A: user, B: id}
	}
	return t.befriend(edges)
}
