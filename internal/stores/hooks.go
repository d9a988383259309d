package stores

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
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
