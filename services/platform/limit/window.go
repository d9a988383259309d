package limit

import (
	"sync"
	"time"
)

const (
	// windowLength is the time after which a window begins anew, without callers.
	windowLength = time.Minute
	// maxCallers bounds the callers in a window, of some 100 bytes each. Calls of
	// further ones are counted in Redis at once.
	maxCallers = 200_000
	// uncountedShare is the part of a limit up to which calls pass uncounted: a tenth.
	uncountedShare = 10
)

// window counts the calls of this process by caller, so that Redis is asked only
// about frequent callers. In each window a caller's first calls, up to a tenth of
// the limit, pass without Redis. The next call counts them in Redis together with
// itself, and the calls after it are counted one by one. So a process lets at most a
// tenth of a limit pass uncounted in each window; it begins one when it starts. Safe
// for concurrent use.
type window struct {
	most int // calls of one caller that pass without Redis

	mu      sync.Mutex
	ends    time.Time
	callers map[string]calls
}

// calls are those of one caller in the current window: those that passed without Redis, and
// those that were refused.
type calls struct {
	all       int
	uncounted int       // those that are not counted in Redis yet
	refused   int       // further ones, which Redis has refused
	until     time.Time // when the last one that was refused would be counted
}

func newWindow(perMinute int) *window {
	return &window{most: perMinute / uncountedShare}
}

// add adds a call. It returns how many calls to count in Redis now: 0 if the call
// passes without Redis, otherwise this call and the ones not counted yet.
func (w *window) add(caller string, now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.Before(w.ends) {
		w.callers, w.ends = make(map[string]calls), now.Add(windowLength)
	}
	c, known := w.callers[caller]
	if !known && len(w.callers) >= maxCallers {
		return 1
	}
	n := 0
	if c.all < w.most {
		c.all++
		c.uncounted++
	} else {
		n = c.uncounted + 1
		c.uncounted = 0
	}
	w.callers[caller] = c
	return n
}

// refused reports that Redis has refused n calls that add returned, and so counted
// none of them. All but the last have passed already; they are counted with the next
// call. It returns whether the caller is often refused: for more than a tenth of the limit in
// the current window. until is when the last would be counted.
func (w *window) refused(caller string, n int, until time.Time) (often bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, known := w.callers[caller]
	if !known {
		return false
	}
	c.uncounted = min(c.uncounted+n-1, w.most)
	c.refused++
	c.until = until
	w.callers[caller] = c
	return c.refused > w.most
}

// waits returns how long it takes until calls of a caller are counted again; 0 if they are.
func (w *window) waits(caller string, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, w.callers[caller].until.Sub(now))
}
