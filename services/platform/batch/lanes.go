package batch

import (
	"cmp"
	"context"
	"sync"

	"stepboard/models"
)

// Lanes is a group of batchers, one for each server that items are written to. A
// server that hangs delays only the items of its own lane. Lanes are added when
// they are first used. Safe for concurrent use.
type Lanes[T any] struct {
	limit, workers int
	lane           func(context.Context, T) string
	flush          func(context.Context, []T) []error

	mu       sync.Mutex
	batchers map[string]*Batcher[T]
	closed   bool
}

// NewLanes returns lanes. lane returns the name of an item's
// lane. The other parameters are those of New, for each lane.
func NewLanes[T any](limit, workers int, lane func(context.Context, T) string, flush func(context.Context, []T) []error) *Lanes[T] {
	return &Lanes[T]{limit: limit, workers: workers, lane: lane, flush: flush, batchers: make(map[string]*Batcher[T])}
}

// Submit is like Batcher.Submit. Items of several lanes are flushed separately:
// if one of the flushes fails, the others may succeed all the same.
func (l *Lanes[T]) Submit(ctx context.Context, items []T) error {
	names, groups := l.split(ctx, items)
	if len(groups) == 1 {
		return l.submit(ctx, names[0], groups[0])
	}
	errs := make([]error, len(groups))
	var submitting sync.WaitGroup
	for i, group := range groups {
		submitting.Go(func() { errs[i] = l.submit(ctx, names[i], group) })
	}
	submitting.Wait()
	return cmp.Or(errs...)
}

// split groups items by lane, in the order of each lane's first item.
func (l *Lanes[T]) split(ctx context.Context, items []T) (names []string, groups [][]T) {
	at := make(map[string]int, 1)
	for _, item := range items {
		name := l.lane(ctx, item)
		i, ok := at[name]
		if !ok {
			i = len(groups)
			at[name] = i
			names, groups = append(names, name), append(groups, nil)
		}
		groups[i] = append(groups[i], item)
	}
	return names, groups
}

func (l *Lanes[T]) submit(ctx context.Context, name string, items []T) error {
	l.mu.Lock()
	b := l.batchers[name]
	if b == nil && !l.closed {
		b = New(l.limit, l.workers, l.flush)
		l.batchers[name] = b
	}
	l.mu.Unlock()
	if b == nil {
		return models.Unavailable("queue for the flush", ErrClosed)
	}
	return b.Submit(ctx, items)
}

// Close refuses new calls and closes all batchers at the same time; see
// Batcher.Close. It may be called more than once.
func (l *Lanes[T]) Close() {
	l.mu.Lock()
	l.closed = true
	var closing sync.WaitGroup
	for _, b := range l.batchers {
		closing.Go(b.Close)
	}
	l.mu.Unlock()
	closing.Wait()
}
