// Package concurrent starts work that need not wait for other work.
package concurrent

import (
	"context"
	"sync"
)

type inOrderKey struct{}

// InOrder returns a context under which Go calls functions at once instead of starting
// them. The simulation uses it, in which the order of operations must follow from the seed.
func InOrder(ctx context.Context) context.Context { return context.WithValue(ctx, inOrderKey{}, true) }

// IsInOrder reports whether ctx is derived from one of InOrder.
func IsInOrder(ctx context.Context) bool { return ctx.Value(inOrderKey{}) != nil }

// Go calls f in a new goroutine of the group, or at once under a context of InOrder.
func Go(ctx context.Context, group *sync.WaitGroup, f func()) {
	if IsInOrder(ctx) {
		f()
		return
	}
	group.Go(f)
}
