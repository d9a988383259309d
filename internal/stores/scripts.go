package stores

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// scriptHook sends the hash of a script instead of its text: EVALSHA for every EVAL. Callers
// name a script by its text and need not know what the server has. The list of a board of 16 shards
// takes 2.6 KB to the server instead of 14, and two thirds of the time.
//
// A server that has restarted, that has taken over from another one, or whose scripts were
// flushed lacks a script. It answers NOSCRIPT and has run nothing of it. The hook then sends the
// text, which the server keeps. That costs one round trip more, once for each server and script.
// Loading all scripts on every new connection would save it, but NOSCRIPT would still have to be
// handled, because scripts may be flushed at any time.
//
// The hook belongs to the client of one server. In a cluster each node's client has it, so a
// node gets the texts that it lacks, with its own part of a pipeline.
//
// Of a pipeline only the refused commands are sent again, in their order. The commands between
// them have run by then. So no pipeline may depend on the order in which its scripts and its
// other commands run; a cluster's client changes that order too. In a transaction the rest
// would be committed without the refused script, so its scripts are sent as texts.
type scriptHook struct {
	hashes sync.Map // by text; there are as many texts as scripts in the code
}

// DialHook implements redis.Hook. It changes nothing.
func (*scriptHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h *scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !namesText(cmd) {
			return next(ctx, cmd)
		}
		text := h.nameHash(cmd)
		err := next(ctx, cmd)
		nameText(cmd, text)
		if isNoScript(err) {
			err = next(ctx, cmd)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h *scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "multi" || !slices.ContainsFunc(cmds, namesText) {
			return next(ctx, cmds)
		}
		texts := make([]any, len(cmds))
		for i, cmd := range cmds {
			if namesText(cmd) {
				texts[i] = h.nameHash(cmd)
			}
		}
		err := next(ctx, cmds)
		var refused []redis.Cmder
		for i, cmd := range cmds {
			if texts[i] == nil {
				continue
			}
			nameText(cmd, texts[i])
			if !isNoScript(cmd.Err()) {
				continue
			}
			if i > 0 && cmds[i-1].Name() == "asking" { // it permits the next command only
				refused = append(refused, cmds[i-1])
			}
			cmd.SetErr(nil)
			refused = append(refused, cmd)
		}
		if refused == nil {
			return err
		}
		_ = next(ctx, refused) // each command holds its own error
		return firstError(cmds)
	}
}

// namesText reports whether a command runs a script that it names by its text.
func namesText(cmd redis.Cmder) bool { return cmd.Name() == "eval" }

// nameHash makes a command name its script by the hash, and returns the text.
func (h *scriptHook) nameHash(cmd redis.Cmder) (text any) {
	args := cmd.Args()
	text = args[1]
	hash, ok := h.hashes.Load(text)
	if !ok {
		hash = redis.NewScript(text.(string)).Hash()
		h.hashes.Store(text, hash)
	}
	args[0], args[1] = "evalsha", hash
	return text
}

// nameText makes a command name its script by the text again. Redirected commands go through the
// hook of another node, and callers may send their arguments again.
func nameText(cmd redis.Cmder, text any) {
	args := cmd.Args()
	args[0], args[1] = "eval", text
}

// isNoScript reports whether the server lacks a script.
func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }
