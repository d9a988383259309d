package lease

import (
	"context"
	"sync"
)

// NewLocal gives leases among the callers of this one service: enough beside
// embedded stores, which no other process can reach. They are never lost.
func NewLocal() *Service {
	l := &local{held: make(map[string]bool)}
	return &Service{take: l.take}
}

type local struct {
	mu   sync.Mutex
	held map[string]bool
}

func (l *local) take(_ context.Context, name string, _ func(error)) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, ErrHeld
	}
	l.held[name] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, name)
	}, nil
}
