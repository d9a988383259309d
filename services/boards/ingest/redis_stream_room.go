package ingest

import (
	"context"
	"sync"
	"time"
)

// roomEvery is how often a stream in use asks whether the boards have room.
const roomEvery = time.Second

// roomCheck asks whether the boards can take further updates. It asks in the
// background, so that no append waits for the answer. Safe for concurrent use.
type roomCheck struct {
	ask func(context.Context) error // may be nil

	mu    sync.Mutex
	asked time.Time // when it was last asked
	err   error     // the last answer
}

// last returns the last answer, nil before the first. It asks again if it has
// last done so more than roomEvery ago.
func (r *roomCheck) last(ctx context.Context) error {
	if r.ask == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.asked) >= roomEvery {
		r.asked = now
		go r.refresh(context.WithoutCancel(ctx))
	}
	return r.err
}

func (r *roomCheck) refresh(ctx context.Context) {
	err := r.ask(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}
