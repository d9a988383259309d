package limit

import (
	"context"
	"errors"
	"sync"
	"time"

	"stepboard/models"
)

// errFull means that so many callers were counted lately that no further one is.
var errFull = errors.New("too many callers to count")

// LocalCounter counts in the memory of the process, by the same rule as RedisCounter. Each kind
// has room for maxCallers a minute, of some 100 bytes each; those above are not counted. A
// restart forgets all calls. Safe for concurrent use.
type LocalCounter struct {
	elapsed models.Clock
	began   time.Time // times are counted from here, by elapsed

	mu    sync.Mutex
	kinds map[Kind]*counted
}

// counted has the time of each caller at which all of its calls would have come at the rate of
// the limit. That is at most a minute ahead, so a caller who was not counted for a minute may be
// forgotten.
type counted struct {
	since         time.Duration // when now began
	now, previous map[string]time.Duration
}

// NewLocalCounter returns a counter. elapsed is the clock that it measures by.
func NewLocalCounter(elapsed models.Clock) *LocalCounter {
	return &LocalCounter{elapsed: elapsed, began: elapsed(), kinds: make(map[Kind]*counted)}
}

// Count counts n calls of a caller. No I/O. After an error they are not counted.
func (c *LocalCounter) Count(_ context.Context, kind Kind, caller string, perMinute, n int) (wait time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.elapsed().Sub(c.began)
	callers := c.kinds[kind]
	if callers == nil {
		callers = &counted{since: now, now: make(map[string]time.Duration)}
		c.kinds[kind] = callers
	}
	callers.forget(now)
	at, known := callers.now[caller]
	if !known {
		if len(callers.now) >= maxCallers {
			return 0, errFull
		}
		at = callers.previous[caller]
	}
	at = max(at, now) + time.Duration(n)*time.Minute/time.Duration(perMinute)
	if wait = at - now - time.Minute; wait > 0 {
		return wait, nil
	}
	callers.now[caller] = at
	return 0, nil
}

// forget forgets who was not counted for a minute or two.
func (c *counted) forget(now time.Duration) {
	if now-c.since >= time.Minute {
		c.since, c.previous, c.now = now, c.now, make(map[string]time.Duration)
	}
}
