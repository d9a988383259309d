package testenv

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// FlushScripts makes the node forget its scripts.
func (n *Node) FlushScripts() {
	n.t.Helper()
	n.must("script", "flush", "sync")
}

// ScriptTexts returns how many times the node has received a script as text.
func (n *Node) ScriptTexts() int {
	n.t.Helper()
	calls, _, _ := strings.Cut(strings.TrimPrefix(field(n.must("info", "commandstats"), "cmdstat_eval"), "calls="), ",")
	if calls == "" {
		return 0
	}
	return Must(strconv.Atoi(calls))
}

// FlushScripts makes servers forget their scripts before each command of the client that names
// one by its hash. The client must not have been used.
func FlushScripts(rdb redis.UniversalClient) {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(flushHook{}) })
	} else {
		rdb.AddHook(flushHook{})
	}
}

// flushHook flushes the scripts of a pipeline within it, so that nobody can load them in between.
type flushHook struct{}

// DialHook is part of redis.Hook.
func (flushHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is part of redis.Hook.
func (flushHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if namesHash(cmd) {
			if err := next(ctx, flush(ctx)); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (flushHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, namesHash) {
			cmds = slices.Concat([]redis.Cmder{flush(ctx)}, cmds)
		}
		return next(ctx, cmds)
	}
}

func namesHash(cmd redis.Cmder) bool { return cmd.Name() == "evalsha" }

func flush(ctx context.Context) redis.Cmder {
	return redis.NewStatusCmd(ctx, "script", "flush", "sync")
}
