package stores

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// pipelineHook gives an error to each command of a pipeline that did not reach the server. If
// the client can't connect, it returns an error for the pipeline and none for the commands, as
// of version 9.21: each of them looks as if it had succeeded.
type pipelineHook struct{}

// DialHook implements redis.Hook. It changes nothing.
func (pipelineHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook. It changes nothing.
func (pipelineHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (pipelineHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		var reply redis.Error
		if err != nil && !errors.As(err, &reply) {
			for _, cmd := range cmds {
				if cmd.Err() == nil {
					cmd.SetErr(err)
				}
			}
		}
		return err
	}
}
