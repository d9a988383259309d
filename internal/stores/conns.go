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
	free    []*fileConn // none if somebody waits; nil for one that is not open
	waiting [priorities][]*waiting
}

// waiting is a caller that waits for a connection.
type waiting struct {
	granted chan *fileConn // of size 1; sent to under the lock
	urgent  time.Time      // when it goes before all others
}

// take returns a connection, which must be given back by put. It returns ErrBusy if there is none
// within patience, the context's error, or that of opening one.
func (c *conns) take(ctx context.Context, of priority, patience time.Duration) (*fileConn, error) {
	conn, err := c.wait(ctx, of, patience)
	if conn != nil || err != nil {
		return conn, err
	}
	if conn, err = c.open(ctx); err != nil {
		c.put(nil)
	}
	return conn, err
}

// put gives a connection back; nil for one that is not open.
func (c *conns) put(conn *fileConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if next := c.next(time.Now()); next != nil {
		next.granted <- conn
		return
	}
	c.free = append(c.free, conn)
}

// wait is take without opening the connection: it may return nil.
func (c *conns) wait(ctx context.Context, of priority, patience time.Duration) (*fileConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if n := len(c.free); n > 0 {
		conn := c.free[n-1]
		c.free = c.free[:n-1]
		c.mu.Unlock()
		return conn, nil
	}
	w := &waiting{granted: make(chan *fileConn, 1), urgent: time.Now().Add(patience / 2)}
	c.waiting[of] = append(c.waiting[of], w)
	c.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	err := ErrBusy
	select {
	case conn := <-w.granted:
		return conn, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
	}
	c.mu.Lock()
	i := slices.Index(c.waiting[of], w)
	if i >= 0 {
		c.waiting[of] = slices.Delete(c.waiting[of], i, i+1)
	}
	c.mu.Unlock()
	if i < 0 { // it was granted meanwhile
		c.put(<-w.granted)
	}
	return nil, err
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
func (c *conns) close(n int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for range n {
		conn, failed := c.wait(ctx, priorityJobs, closeTimeout)
		if failed != nil {
			return models.Unavailable("close the database", ErrBusy)
		}
		if conn != nil {
			err = errors.Join(err, conn.Close())
		}
	}
	return err
}
