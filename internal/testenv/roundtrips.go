package testenv

import (
	"context"
	"net"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// RoundTrips is a go-redis hook that counts round trips and commands. What the server refuses
// because it lacks a script does not count: it is sent again, and whether that is needed depends on
// what ran on the server before. Safe for concurrent use.
type RoundTrips struct {
	trips, commands atomic.Int64
	marked          atomic.Bool
}

// roundTripsKey is the key of a counter in a context.
type roundTripsKey struct{}

// In returns a context whose round trips count. After the first call of In no others
// do, such as those of work in the background.
func (r *RoundTrips) In(ctx context.Context) context.Context {
	r.marked.Store(true)
	return context.WithValue(ctx, roundTripsKey{}, r)
}

// counts reports whether commands with this context count. Those with which the client
// begins a new connection do not: whether one is needed depends on the pool.
func (r *RoundTrips) counts(ctx context.Context, cmds ...redis.Cmder) bool {
	if len(cmds) > 0 && slices.Contains([]string{"hello", "auth", "client", "select"}, cmds[0].Name()) {
		return false
	}
	return !r.marked.Load() || ctx.Value(roundTripsKey{}) == r
}

// Trips returns the number of round trips since the last Reset.
func (r *RoundTrips) Trips() int { return int(r.trips.Load()) }

// Commands returns the number of commands since the last Reset.
func (r *RoundTrips) Commands() int { return int(r.commands.Load()) }

// Reset sets both counts to 0.
func (r *RoundTrips) Reset() {
	r.trips.Store(0)
	r.commands.Store(0)
}

// DialHook is part of redis.Hook.
func (r *RoundTrips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is part of redis.Hook.
func (r *RoundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if r.counts(ctx, cmd) && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			r.trips.Add(1)
			r.commands.Add(1)
		}
		return err
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (r *RoundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if !r.counts(ctx, cmds...) {
			return err
		}
		repeated := 0
		for _, cmd := range cmds {
			if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
				repeated++
			}
		}
		if repeated == 0 {
			r.trips.Add(1)
		}
		r.commands.Add(int64(len(cmds) - repeated))
		return err
	}
}
