package stores

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// slotPause is how long a command rests that met a slot on the move.
	slotPause = 20 * time.Millisecond
	// slotPatience bounds how long it goes on being sent again. A slot moves key
	// by key, the largest of which may take a second or more.
	slotPatience = 10 * time.Second
)

// slots keeps a client of a cluster from failing where slots change hands.
//
// After a failover nobody is left to tell the client that a slot has another
// master, and it would go on asking the dead one for up to a minute: whenever
// a node does not answer, it asks the others who serves what.
//
// While a slot moves, a command of several keys is sent again for as long as some
// of these have moved to another node and others have not yet: nobody can run it
// meanwhile. The client does so by itself a few times only, and in a pipeline for
// its first command alone; when these are used up it may not follow the slot to
// where it has just got. What was refused has changed nothing: scripts read all keys
// before they write.
type slots struct{ cluster *redis.ClusterClient }

// look asks who serves what, in the background, where a node did not answer.
func (s slots) look(ctx context.Context, err error) {
	var answered redis.Error
	if err != nil && !errors.As(err, &answered) && ctx.Err() == nil {
		s.cluster.ReloadState(ctx)
	}
}

// DialHook is that of the client.
func (slots) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook sends a command again.
func (s slots) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		for until := time.Now().Add(slotPatience); isMoving(err) && rest(ctx, until); {
			cmd.SetErr(nil)
			err = next(ctx, cmd)
		}
		s.look(ctx, err)
		return err
	}
}

// ProcessPipelineHook sends again those of the commands that were refused.
func (s slots) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for until := time.Now().Add(slotPatience); err != nil; {
			var refused []redis.Cmder
			for _, cmd := range cmds {
				if isMoving(cmd.Err()) {
					refused = append(refused, cmd)
				}
			}
			if refused == nil || !rest(ctx, until) {
				break
			}
			for _, cmd := range refused {
				cmd.SetErr(nil)
			}
			_ = next(ctx, refused) // each command has its own
			err = firstError(cmds)
		}
		s.look(ctx, err)
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

// isMoving tells that a command met a slot of which some keys have moved, or all
// of them just now; a script that names further keys finds that out for itself.
func isMoving(err error) bool {
	if err == nil {
		return false
	}
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return moved || ask || redis.IsTryAgainError(err) || strings.Contains(err.Error(), "Script attempted to access a non local key")
}

// rest pauses; false if there is no time left.
func rest(ctx context.Context, until time.Time) bool {
	if !time.Now().Before(until) {
		return false
	}
	timer := time.NewTimer(slotPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
