package ledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
)

// A transaction that does not end, of a process that was stopped for example,
// keeps the rows of its users locked. Only increments of these users may wait
// for it. So no transaction of this package waits longer than lockWait for a
// lock. After such a wait it probes: it finds out which rows are locked, and
// leaves the increments of their users out. Add submits those to a batcher of
// their own, again and again until lockPatience has passed.

const (
	// lockWait is how long a transaction waits for a lock.
	lockWait = 100 * time.Millisecond
	// probeTime is how long all flushes probe after one has waited for lockWait,
	// or after another user's rows were found to be locked for that long.
	probeTime = 2 * time.Second
	// lockMemory is how long a user is remembered whose rows were locked.
	lockMemory = 10 * time.Second
	// lockPatience is how long a call waits for locked rows.
	lockPatience = 3 * time.Second
	// shortestPause and longestPause bound the pauses between its attempts.
	shortestPause = 20 * time.Millisecond
	longestPause  = 320 * time.Millisecond
	// maxLockedCalls is how many calls may wait for the rows of one user.
	maxLockedCalls = 32
	// lockedWorkers is how many transactions for users with locked rows may run at
	// a time.
	lockedWorkers = 2
	// aloneTime bounds how long one flush counts increments user by user.
	aloneTime = time.Second
)

var (
	// errLocked means that another transaction has a lock that is needed.
	errLocked = errors.New("another transaction has locked the rows")
	// errCrowded means that maxLockedCalls calls wait already.
	errCrowded = errors.New("too many calls wait for locked rows")
)

// submit counts increments, waits for locked rows, and raises the buckets. A flush
// may write to the increments until it has returned: after other errors than
// errLocked nobody may read them.
func (s *Service) submit(ctx context.Context, waiting []*pending) error {
	if free := s.locks.free(waiting); len(free) > 0 {
		flushes := s.flushes
		if len(free) >= listItems {
			flushes = s.lists
		}
		err := flushes.Submit(ctx, free)
		if err != nil && !errors.Is(err, errLocked) {
			return err
		}
		s.raise(ctx, free)
	}
	left := leftOut(waiting)
	if len(left) == 0 {
		return nil
	}
	if err := s.awaitLocks(ctx, left); err != nil {
		return err
	}
	s.raise(ctx, left)
	return nil
}

// leftOut returns the increments that have no result yet.
func leftOut(waiting []*pending) []*pending {
	var left []*pending
	for _, p := range waiting {
		if p.result.Status == "" {
			left = append(left, p)
		}
	}
	return left
}

// awaitLocks counts increments whose rows are locked as soon as they are free.
// CodeUnavailable if that takes longer than lockPatience.
func (s *Service) awaitLocks(ctx context.Context, left []*pending) error {
	users := usersOf(incrementsOf(left))
	if !s.locks.enter(users) {
		return models.Unavailable("wait for locked rows", errCrowded)
	}
	defer s.locks.leave(users)
	s.stats.Locked.Add(int64(len(left)))
	until := time.Now().Add(lockPatience)
	for attempt := 1; ; attempt++ {
		if err := s.locked.Submit(ctx, left); !errors.Is(err, errLocked) {
			return err
		}
		left = leftOut(left)
		wait := pause.Doubled(shortestPause, longestPause, attempt)
		if time.Now().Add(wait).After(until) {
			return models.Unavailable("wait for locked rows", errLocked)
		}
		if err := pause.For(ctx, wait); err != nil {
			return models.Unavailable("wait for locked rows", err)
		}
	}
}

// flushLocked counts increments of users whose rows were locked. If it can't tell
// who is waited for, it counts the increments of each user alone.
func (s *Service) flushLocked(ctx context.Context, items []*pending) []error {
	errs, suspects := s.countAll(ctx, items, true)
	until := time.Now().Add(aloneTime)
	for _, user := range suspects {
		if time.Now().After(until) {
			break // the others have errLocked and come again
		}
		s.countAlone(ctx, user, items, errs)
	}
	return errs
}

// countAlone counts the increments of one user and updates their errors.
func (s *Service) countAlone(ctx context.Context, user userKey, items []*pending, errs []error) {
	var own []*pending
	var at []int
	for i, p := range items {
		if p.user() == user {
			own, at = append(own, p), append(at, i)
		}
	}
	alone, _ := s.countAll(ctx, own, true)
	for i, err := range alone {
		errs[at[i]] = err
	}
}

// lockedUsers remembers users whose rows other transactions have locked. Safe for
// concurrent use.
type lockedUsers struct {
	mu    sync.Mutex
	users map[userKey]*lockedUser
	// remembered is the number of users. It saves most calls the mutex.
	remembered atomic.Int64
	// calls is the number of calls that wait for the rows of each user.
	calls      map[userKey]int
	probeUntil time.Time
}

type lockedUser struct {
	since, expires time.Time
	// confirmed means that the rows stayed locked for lockWait.
	confirmed bool
}

func newLockedUsers() *lockedUsers {
	return &lockedUsers{users: make(map[userKey]*lockedUser), calls: make(map[userKey]int)}
}

// free returns the increments of users who are not remembered, without those that
// have the event id of another user's increment before them.
func (l *lockedUsers) free(waiting []*pending) []*pending {
	if l.remembered.Load() == 0 {
		return waiting
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var free []*pending
	left := make(map[eventKey]bool)
	for _, p := range waiting {
		user := l.users[p.user()]
		if user != nil && now.Before(user.expires) || left[p.key()] {
			left[p.key()] = true
			continue
		}
		free = append(free, p)
	}
	return free
}

// probing reports whether flushes have to look for locked rows.
func (l *lockedUsers) probing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.probeUntil)
}

// probe makes the next flushes look for locked rows.
func (l *lockedUsers) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.probeUntil = time.Now().Add(probeTime)
}

// update remembers users whose rows are locked and forgets those whose rows are
// free again.
func (l *lockedUsers) update(locked, free []userKey) {
	if len(locked) == 0 && l.remembered.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, key := range locked {
		user := l.users[key]
		if user == nil {
			user = &lockedUser{since: now}
			l.users[key] = user
		} else if !user.confirmed && now.Sub(user.since) > lockWait {
			// The session that has locked these rows may have locked more.
			user.confirmed = true
			l.probeUntil = now.Add(probeTime)
		}
		user.expires = now.Add(lockMemory)
	}
	for _, key := range free {
		delete(l.users, key)
	}
	for key, user := range l.users {
		if now.After(user.expires) {
			delete(l.users, key)
		}
	}
	l.remembered.Store(int64(len(l.users)))
}

// enter counts a call that waits for users. It returns false if too many wait for
// one of them.
func (l *lockedUsers) enter(users []userKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(users, func(key userKey) bool { return l.calls[key] >= maxLockedCalls }) {
		return false
	}
	for _, key := range users {
		l.calls[key]++
	}
	return true
}

// leave undoes enter.
func (l *lockedUsers) leave(users []userKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range users {
		if l.calls[key]--; l.calls[key] == 0 {
			delete(l.calls, key)
		}
	}
}
