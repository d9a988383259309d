package lease

import (
	"context"
	"sync"
)

// NewLocal returns a service whose leases exclude only its own callers. That is
// enough for local stores, which no other process can reach. Its leases are
// never lost.
func NewLocal() *Service {
	l := &local{held: make(map[string]bool)}
	return &Service{acquire: l.acquire, close: func() {}}
}

type local struct {
	mu   sync.Mutex
	held map[string]bool
}

func (l *local) acquire(_ context.Context, name string, _ func(error)) (release func(), err error) {
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
