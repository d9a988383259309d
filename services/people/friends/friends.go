package friends

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"stepboard/internal/codes"
	"stepboard/internal/failpoint"
	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/people/cache"
)

// Service keeps the friend graph. Safe for concurrent use.
type Service struct {
	store     *Store
	sets      *cache.Sets[models.RowID]
	directory Users
	limits    Limits
	stats     Stats
}

// Limits bounds what each user may do.
type Limits struct {
	// Pending is the largest number of sent requests that wait for an answer.
	Pending int
	// PerDay is the largest number of requests sent in the 24 hours from a user's first
	// one. Withdrawn and declined requests count, repeated ones do not.
	PerDay int
	// Joins is about tries of invite codes.
	Joins codes.Limiter
}

// Stats counts the friend requests that this process has refused.
type Stats struct {
	// TooManyPending and TooManyToday count refusals by limit.
	TooManyPending, TooManyToday atomic.Int64
}

// Users finds and creates users. Implemented by directory.Service.
type Users interface {
	models.Users
	// EnsureMany is Ensure for very many users.
	EnsureMany(ctx context.Context, users []models.UserID) ([]models.RowID, error)
}

// New returns a service, which caches friend sets in the given store.
func New(store *Store, sets cache.Copies, directory Users, limits Limits, log *slog.Logger) *Service {
	return &Service{store: store, sets: cache.New(sets, keys.Friends, store.shownIDsOf, log), directory: directory, limits: limits}
}

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// IDs returns those of a user's friends whose scores the user is shown, in no particular
// order: without those who hide from the user, and those whom the user has muted. One round
// trip to Redis if the set is stored. On a miss one query and two more round trips, by one
// reader at a time. If Redis is away the list is read from SQL; CodeUnavailable
// if that is away, too.
func (s *Service) IDs(ctx context.Context, user models.RowID) ([]models.RowID, error) {
	ids, err := s.sets.Members(ctx, user)
	return ids, models.Public("list friends", err)
}

// IDsOf returns IDs of each of some users; those without any may be left out. One query, and
// none to Redis, so that many users do not displace the sets of those who call. The memory of
// all of the ids.
func (s *Service) IDsOf(ctx context.Context, users []models.RowID) (map[models.RowID][]models.RowID, error) {
	ids, err := s.store.shownIDsOf(ctx, users)
	return ids, models.Public("list friends", err)
}

// Circle is IDs from this process's memory if rankings.max_staleness permits it. All
// changes that were complete before asOf are in the list, and all complete ones of this
// process. Otherwise asOf is zero.
func (s *Service) Circle(ctx context.Context, user models.RowID) (ids []models.RowID, asOf time.Time, err error) {
	if ids, asOf, err = s.sets.Near(ctx, user); err != nil {
		return nil, time.Time{}, models.Unavailable("list friends", err)
	}
	return ids, asOf, nil
}

// change runs fn in a transaction and keeps the cached sets true: those of users
// whose lists have changed are marked before the commit and cleared after it.
// So are those whose lists fn only found as they should be: the change that made
// them so may have committed after its marks had expired, and is repeated by a
// client that has seen it fail. Change.Run describes the errors.
func (s *Service) change(ctx context.Context, fn func(*tx) error) error {
	return s.run(ctx, s.sets.NewChange(), s.store.transact, fn)
}

// run is change with a given change of the cached sets and kind of transaction.
func (s *Service) run(
	ctx context.Context, change *cache.Change[models.RowID], transact func(context.Context, func(*tx) error) error,
	fn func(*tx) error,
) error {
	return change.Run(ctx, "change friends", func(ctx context.Context) error {
		err := transact(ctx, func(t *tx) error {
			if err := fn(t); err != nil {
				return err
			}
			return models.Public("change friends", change.Mark(ctx, t.changed))
		})
		if err == nil {
			failpoint.Hit("outcomes.friends_committed")
		}
		return err
	})
}

// checkLimit returns CodeFriendLimit if one of the users can't have a further
// friend.
func checkLimit(locked map[models.RowID]lockedUser, users ...models.RowID) error {
	for _, row := range users {
		if user := locked[row]; user.friends >= models.MaxFriends {
			return models.Errorf(models.CodeFriendLimit, "user %s has %d friends already", user.id, models.MaxFriends)
		}
	}
	return nil
}
