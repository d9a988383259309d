package stores

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"stepboard/models"
)

// priority says in which order work gets connections to a file: the lowest first.
type priority int

const (
	priorityIncrements priority = iota // uploads and increments, of which most come
	priorityCalls
	priorityJobs
	priorities
)

// conns are connections to a database in a file, of which each is used by one caller at a time.
// Callers wait in order of their priority, and within it in order of arrival. Who has waited for
// half of their patience goes before all others, so nobody waits in vain while the connections are
// handed on.
type conns struct {
	open func(context.Context) (*fileConn, error)

	mu      sync.Mutex
	free    int         // how many may be taken; 0 if somebody waits
	idle    []*fileConn // those of them that are open
	waiting [priorities][]*waiting
}

// waiting is a caller that waits for a connection.
type waiting struct {
	granted chan struct{} // closed, under the lock, when it may take one
	urgent  time.Time     // when it goes before all others
}

// take returns a connection, which must be given back by put. It returns ErrBusy if there is none
// within patience (0: any time), the context's error, or that of opening one.
func (c *conns) take(ctx context.Context, of priority, patience time.Duration) (*fileConn, error) {
	if err := c.wait(ctx, of, patience); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		conn := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	c.mu.Unlock()
	conn, err := c.open(ctx)
	if err != nil {
		c.put(nil)
	}
	return conn, err
}

// put gives a connection back; nil for one that was closed.
func (c *conns) put(conn *fileConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn != nil {
		c.idle = append(c.idle, conn)
	}
	if next := c.next(time.Now()); next != nil {
		close(next.granted)
		return
	}
	c.free++
}

// wait waits until the caller may take a connection.
func (c *conns) wait(ctx context.Context, of priority, patience time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	if c.free > 0 {
		c.free--
		c.mu.Unlock()
		return nil
	}
	w := &waiting{granted: make(chan struct{}), urgent: time.Now().Add(patience / 2)}
	c.waiting[of] = append(c.waiting[of], w)
	c.mu.Unlock()

	var impatient <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		impatient = timer.C
	}
	err := ErrBusy
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-impatient:
	}
	c.mu.Lock()
	i := slices.Index(c.waiting[of], w)
	if i >= 0 {
		c.waiting[of] = slices.Delete(c.waiting[of], i, i+1)
	}
	c.mu.Unlock()
	if i < 0 { // it was granted meanwhile
		c.put(nil)
	}
	return err
}

// next removes and returns who is to have the next connection; nil if nobody waits. It needs the
// lock.
func (c *conns) next(now time.Time) *waiting {
	first := -1
	for of, list := range c.waiting {
		if len(list) == 0 {
			continue
		}
		if first < 0 {
			first = of
		} else if urgent := list[0].urgent; now.After(urgent) && urgent.Before(c.waiting[first][0].urgent) {
			first = of
		}
	}
	if first < 0 {
		return nil
	}
	w := c.waiting[first][0]
	c.waiting[first] = slices.Delete(c.waiting[first], 0, 1)
	return w
}

// close closes n connections when their users have given them back. It returns ErrBusy if that takes
// longer than closeTimeout.
func (c *conns) close(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for range n {
		if err := c.wait(ctx, priorityJobs, 0); err != nil {
			return models.Unavailable("close the database", ErrBusy)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for _, conn := range c.idle {
		err = errors.Join(err, conn.Close())
	}
	c.idle = nil
	return err
}
