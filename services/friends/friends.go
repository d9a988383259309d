// Package friends is the friend graph. Its truth is in SQL; the set that a
// ranking reads is a copy in Redis, loaded on a miss.
//
// A copy may never outlive a change. Before a change commits, the sets of its
// users are removed and marked as changing; a reader stores what it read only
// if no mark stands and nothing was removed since it began; after the commit
// the sets are removed again and the marks lifted. A writer that dies leaves
// marks that expire after a minute, and while they stand nothing is stored.
package friends

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/recovery"
)

// changeTimeout bounds a change, well below markTTL: its marks must stand
// until it has committed or can't any more.
const changeTimeout = 10 * time.Second

// errNoRequest says that no request stands between two users.
var errNoRequest = errors.New("no such friend request")

// Service is the friend graph. Safe for concurrent use.
type Service struct {
	store *Store
	cache *Cache
	log   *slog.Logger
}

// New makes a service.
func New(store *Store, cache *Cache, log *slog.Logger) *Service {
	return &Service{store: store, cache: cache, log: log}
}

// IDs lists a user's friends, in no particular order. One round trip to Redis
// if the set is there; on a miss one query and two round trips more, by one
// reader at a time. With Redis away it answers from SQL; CodeUnavailable if
// that is away too.
func (s *Service) IDs(ctx context.Context, user models.UserID) ([]models.UserID, error) {
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

// List is a page of a user's friends by id, behind the given one. One query.
func (s *Service) List(ctx context.Context, user, after models.UserID, limit int) ([]Friend, error) {
	page, err := s.store.list(ctx, user, after, limit)
	if err != nil {
		return nil, models.Unavailable("list friends", err)
	}
	return page, nil
}

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

// change runs fn in a transaction and keeps the copies in Redis true: whose
// lists it has changed is marked before the commit and cleared after it. It
// goes on when the client hangs up: half a change is no use to anybody.
func (s *Service) change(ctx context.Context, fn func(*tx) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	token := newToken()
	var marked []models.UserID
	err := s.store.transact(ctx, func(t *tx) error {
		if err := fn(t); err != nil {
			return err
		}
		// Should the marking break half way, some marks may stand.
		marked = sorted(t.changed)
		if err := s.cache.mark(ctx, token, marked); err != nil {
			return models.Unavailable("change friends", err)
		}
		return nil
	})
	var refused *models.Error
	if err != nil && !errors.As(err, &refused) && !errors.Is(err, errListChanged) {
		// The transaction may yet commit, as far as anybody knows: the marks
		// stay until they expire, and the sets out of Redis with them.
		return models.Unavailable("change friends", err)
	}
	if err := s.cache.clear(ctx, token, marked); err != nil {
		s.log.WarnContext(ctx, "friend sets stay uncached until their marks expire", "error", err)
	}
	return err
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

// checkLimit refuses a friendship if one of its users has no place for it.
func checkLimit(counts map[models.UserID]int, users ...models.UserID) error {
	for _, id := range users {
		if counts[id] >= models.MaxFriends {
			return models.Errorf(models.CodeFriendLimit, "user %v has %d friends already", id, models.MaxFriends)
		}
	}
	return nil
}

// lockOrder is two users in the order in which rows are locked.
func lockOrder(a, b models.UserID) []models.UserID { return sorted([]models.UserID{a, b}) }

// sorted is a sorted copy without repetitions.
func sorted(ids []models.UserID) []models.UserID {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
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

// Rejected is an edge that an import can't take.
type Rejected struct {
	// Index is the edge's position, from 0.
	Index int
	Err   error
}

// Import adds friendships and the users that they need. Edges that exist, in
// either direction, are left as they are; one that can't be is answered for
// and skipped. added counts those that are new. A few statements for a few
// thousand edges.
func (s *Service) Import(ctx context.Context, edges []models.Edge) (added int, rejected []Rejected, err error) {
	var users []models.UserID
	for i, e := range edges {
		if e.A == e.B {
			rejected = append(rejected, Rejected{i, models.Errorf(models.CodeValidationFailed, "nobody can be a friend of oneself")})
			continue
		}
		users = append(users, e.A, e.B)
	}
	users = sorted(users)
	if len(users) == 0 {
		return 0, rejected, nil
	}
	err = s.change(ctx, func(t *tx) error {
		if err := t.create(users); err != nil {
			return err
		}
		counts, err := t.lock(users)
		if err != nil {
			return err
		}
		var full []Rejected
		added, full, err = t.importEdges(edges, counts)
		rejected = append(rejected, full...)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("import friends: %w", err)
	}
	return added, rejected, nil
}

// importEdges adds in one go the edges of users that are far from the limit,
// and the others one by one.
func (t *tx) importEdges(edges []models.Edge, counts map[models.UserID]int) (added int, full []Rejected, err error) {
	most := make(map[models.UserID]int, len(counts))
	for id, n := range counts {
		most[id] = n
	}
	for _, e := range edges {
		most[e.A]++
		most[e.B]++
	}
	var bulk []models.Edge
	for i, e := range edges {
		if e.A == e.B {
			continue
		}
		if most[e.A] <= models.MaxFriends && most[e.B] <= models.MaxFriends {
			bulk = append(bulk, e)
			continue
		}
		already, err := t.areFriends(e.A, e.B)
		if err != nil {
			return 0, nil, err
		}
		if already {
			continue
		}
		if err := checkLimit(counts, e.A, e.B); err != nil {
			full = append(full, Rejected{i, err})
			continue
		}
		if _, err := t.befriend([]models.Edge{e}); err != nil {
			return 0, nil, err
		}
		counts[e.A]++
		counts[e.B]++
		added++
	}
	n, err := t.befriend(bulk)
	return added + n, full, err
}

// DropStale returns the recovery.Replay of friend sets. It drops all sets if Redis
// may have forgotten that one was removed: it has restarted, another server has
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
