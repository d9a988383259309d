// Package friends keeps the friend graph. Its truth is in SQL. The set of
// friends that a ranking reads is a copy in Redis, loaded on a miss.
//
// A copy never outlives a change. Before a change commits, the sets of its
// users are removed and marked as changing. A reader stores the list that it
// read only if there is no mark and no set was removed since it began. After
// the commit the sets are removed again, and the marks with them. A writer that
// dies leaves marks, which expire after a minute; until then nothing is stored.
package friends

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/recovery"
)

// changeTimeout bounds a change, well below markTTL: its marks must last until
// it has committed or can't commit any more.
const changeTimeout = 10 * time.Second

// Service keeps the friend graph. Safe for concurrent use.
type Service struct {
	store *Store
	cache *Cache
	log   *slog.Logger
}

// New returns a service.
func New(store *Store, cache *Cache, log *slog.Logger) *Service {
	return &Service{store: store, cache: cache, log: log}
}

// IDs returns a user's friends, in no particular order. One round trip to Redis
// if the set is stored. On a miss one query and two more round trips, by one
// reader at a time. If Redis is away the list is read from SQL; CodeUnavailable
// if that is away, too.
func (s *Service) IDs(ctx context.Context, user models.RowID) ([]models.RowID, error) {
	ids, ok, cacheErr := s.cache.get(ctx, user)
	if ok {
		return ids, nil
	}
	var (
		token   string
		granted bool
	)
	if cacheErr == nil {
		token, granted, cacheErr = s.cache.beginLoad(ctx, user)
	}
	if cacheErr == nil && !granted {
		if ids, ok, cacheErr = s.cache.awaitLoad(ctx, user); ok {
			return ids, nil
		}
	}
	ids, err := s.store.ids(ctx, user)
	if err != nil {
		return nil, models.Unavailable("list friends", errors.Join(err, cacheErr))
	}
	if granted {
		if _, err := s.cache.store(ctx, user, token, ids); err != nil {
			s.log.WarnContext(ctx, "a friend set could not be stored", "error", err)
		}
	}
	return ids, nil
}

// List returns a page of a user's friends, ordered by id, behind the given id.
// One query.
func (s *Service) List(ctx context.Context, user, after models.RowID, limit int) ([]Friend, error) {
	page, err := s.store.list(ctx, user, after, limit)
	if err != nil {
		return nil, models.Unavailable("list friends", err)
	}
	return page, nil
}

// change runs fn in a transaction and keeps the copies in Redis true: users
// whose lists have changed are marked before the commit and cleared after it.
// So are those whose lists fn only found as they should be: the change that made
// them so may have committed after its marks had expired, and is repeated by a
// client that has seen it fail.
// It continues if the client disconnects, because half a change is of no use.
func (s *Service) change(ctx context.Context, fn func(*tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	token := newToken()
	var marked []models.RowID
	err := s.store.transact(ctx, func(t *tx) error {
		if err := fn(t); err != nil {
			return err
		}
		// If marking fails half way, some users are marked.
		marked = sorted(t.changed)
		if err := s.cache.mark(ctx, token, marked); err != nil {
			return models.Unavailable("change friends", err)
		}
		return nil
	})
	var refused *models.Error
	if err != nil && !errors.As(err, &refused) && !errors.Is(err, errListChanged) {
		// It is unknown whether the transaction has committed. So the marks stay
		// until they expire, and no set is stored meanwhile.
		return models.Unavailable("change friends", err)
	}
	if err := s.cache.clear(ctx, token, marked); err != nil {
		s.log.WarnContext(ctx, "friend sets stay uncached until their marks expire", "error", err)
	}
	return err
}

// checkLimit returns CodeFriendLimit if one of the users can't have a further
// friend.
func checkLimit(counts map[models.RowID]int, users ...models.RowID) error {
	for _, id := range users {
		if counts[id] >= models.MaxFriends {
			return models.Errorf(models.CodeFriendLimit, "user %v has %d friends already", id, models.MaxFriends)
		}
	}
	return nil
}

// lockOrder returns two users in the order in which rows are locked.
func lockOrder(a, b models.RowID) []models.RowID { return sorted([]models.RowID{a, b}) }

// sorted returns a sorted copy without duplicates.
func sorted(ids []models.RowID) []models.RowID {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// DropStale returns the recovery.Replay of friend sets. It drops all sets, and the
// tokens of readers, if Redis may have forgotten that one was removed: it has restarted, another server has
// taken its place, or an earlier state was restored. Otherwise such a set would be
// believed until it expires. Its rows are the sets that were dropped; they are
// loaded again on their next read. Safe to run twice at once, and to cut off.
func (s *Service) DropStale(clock models.Clock) recovery.Replay {
	return func(ctx context.Context, loss recovery.Loss) (dropped int64, upto time.Time, err error) {
		upto = clock()
		if loss.Extent != recovery.NothingLost {
			dropped, err = s.cache.dropAll(ctx)
		}
		return dropped, upto, err
	}
}
