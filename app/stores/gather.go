package stores

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

const (
	// gatherers is how many pipelines of gathered reads are under way at once:
	// while one's answers are read, another keeps Redis busy.
	gatherers = 2
	// gatherLimit bounds the reads of one pipeline, so that none waits long for
	// the others' answers.
	gatherLimit = 32
)

// gather is a go-redis hook that sends reads which come at the same time in
// one pipeline. Most of what a small read costs is the system calls around it,
// on both sides; a pipeline shares them. A read that comes alone is sent at
// once. Each read hears its own result.
type gather struct {
	rdb    redis.UniversalClient
	reads  chan *read
	closed chan struct{}
	done   sync.WaitGroup
}

// read is a command that waits for its pipeline.
type read struct {
	cmd  redis.Cmder
	done chan struct{}
}

// gathered are the commands that are worth it: those of a friend ranking.
var gathered = map[string]bool{"smembers": true, "zmscore": true}

// gatherReads adds the hook to a client. Close it before the client.
func gatherReads(rdb redis.UniversalClient) *gather {
	g := &gather{rdb: rdb, reads: make(chan *read), closed: make(chan struct{})}
	for range gatherers {
		g.done.Go(g.run)
	}
	rdb.AddHook(g)
	return g
}

// close ends the hook, once; reads that come later fail.
func (g *gather) close() {
	close(g.closed)
	g.done.Wait()
}

// run sends what has come together, until close.
func (g *gather) run() {
	batch := make([]*read, 0, gatherLimit)
	for {
		select {
		case first := <-g.reads:
			batch = g.fill(append(batch[:0], first))
			g.send(batch)
			clear(batch)
		case <-g.closed:
			return
		}
	}
}

// fill adds the reads that wait already.
func (g *gather) fill(batch []*read) []*read {
	for len(batch) < gatherLimit {
		select {
		case r := <-g.reads:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// send runs a pipeline. It has no caller's context: one that hangs up must
// not end the others' reads. The client's own timeouts bound it.
func (g *gather) send(batch []*read) {
	pipe := g.rdb.Pipeline()
	ctx := context.Background()
	cmds := make([]redis.Cmder, len(batch))
	for i, r := range batch {
		cmds[i] = r.cmd
	}
	if err := pipe.BatchProcess(ctx, cmds...); err != nil {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	pipe.Exec(ctx) //nolint:errcheck // each command has its own error
	for _, r := range batch {
		close(r.done)
	}
}

// DialHook is part of redis.Hook.
func (g *gather) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is part of redis.Hook.
func (g *gather) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !gathered[cmd.Name()] {
			return next(ctx, cmd)
		}
		r := &read{cmd: cmd, done: make(chan struct{})}
		select {
		case g.reads <- r:
		case <-g.closed:
			return redis.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
		<-r.done
		return cmd.Err()
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (g *gather) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}
