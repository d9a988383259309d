package stores

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/pause"
)

const (
	// slotPause is the pause before a command that met a moving slot is sent again.
	slotPause = 20 * time.Millisecond
	// slotPatience bounds how long such a command is sent again. A slot moves key
	// by key, and its largest key may take a second or more.
	slotPatience = 10 * time.Second
)

// slotHook makes a client of a cluster wait while slots move between nodes,
// instead of failing.
//
// After a failover the client would keep asking the dead master for up to a
// minute. Whenever a node does not respond, the hook therefore makes it ask the
// other nodes which of them serves which slots.
//
// While a slot moves, no node can run a command on several keys of which only
// some have moved. The hook sends such a command again. The client itself does
// so only a few times, and in a pipeline only for the first command; after that
// it may not follow the slot to its new node. A refused command has changed
// nothing, because scripts read all of their keys before they write.
type slotHook struct{ cluster *redis.ClusterClient }

// reloadIfUnreachable makes the client find out, in the background, which node
// serves which slots, if err means that a node did not respond.
func (h slotHook) reloadIfUnreachable(ctx context.Context, err error) {
	var response redis.Error
	if err != nil && !errors.As(err, &response) && ctx.Err() == nil {
		h.cluster.ReloadState(ctx)
	}
}

// DialHook implements redis.Hook. It changes nothing.
func (slotHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h slotHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		for until := time.Now().Add(slotPatience); isMoving(err) && waits(ctx, until); {
			cmd.SetErr(nil)
			err = next(ctx, cmd)
		}
		h.reloadIfUnreachable(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook. It sends again only the commands that
// were refused.
func (h slotHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for until := time.Now().Add(slotPatience); err != nil; {
			var refused []redis.Cmder
			for _, cmd := range cmds {
				if isMoving(cmd.Err()) {
					refused = append(refused, cmd)
				}
			}
			if refused == nil || !waits(ctx, until) {
				break
			}
			for _, cmd := range refused {
				cmd.SetErr(nil)
			}
			_ = next(ctx, refused) // each command holds its own error
			err = firstError(cmds)
		}
		h.reloadIfUnreachable(ctx, err)
		return err
	}
}

func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}

// isMoving reports whether a command met a slot of which some keys have moved, or
// all of them just now. A script that names further keys detects that by itself.
func isMoving(err error) bool {
	if err == nil {
		return false
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsTryAgainError(err) || strings.Contains(err.Error(), "Script attempted to access a non local key")
}

// waits waits for slotPause. It returns false if until has passed or ctx ends.
func waits(ctx context.Context, until time.Time) bool {
	return time.Now().Before(until) && pause.For(ctx, slotPause) == nil
}
