package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/audit"
	"stepboard/services/ingest"
)

func (p *program) deadLettersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dead-letters", Short: "List, replay or delete updates that could not be applied", Args: cobra.NoArgs, RunE: needsSubcommand}
	list := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, newest first",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.runOnApp(ctx, func(a *app.App) error { return p.listDeadLetters(ctx, a) })
		}),
	}
	var actor string
	dryRun := false
	replay := &cobra.Command{
		Use:   "replay ID",
		Short: "Apply the update of a dead letter, then delete the dead letter",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.runOnDeadLetter(ctx, args[0], "replay", actor, dryRun, (*ingest.DeadLetters).Replay)
		}),
	}
	remove := &cobra.Command{
		Use:   "delete ID",
		Short: "Delete a dead letter without applying its update",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.runOnDeadLetter(ctx, args[0], "delete", actor, dryRun, (*ingest.DeadLetters).Delete)
		}),
	}
	for _, change := range []*cobra.Command{replay, remove} {
		addActorFlag(change, &actor)
		change.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, and only say whether it can be done")
	}
	cmd.AddCommand(p.withSettings(list), p.withSettings(replay), p.withSettings(remove))
	return cmd
}

func (p *program) listDeadLetters(ctx context.Context, a *app.App) error {
	read := func(before int64) ([]models.DeadLetter, error) {
		return a.DeadLetters.List(ctx, ingest.DeadLetterQuery{Before: before, Limit: listPage})
	}
	return eachNewestFirst(read, func(l models.DeadLetter) int64 {
		fmt.Fprintf(p.stdout, "%d\t%s\t%s\t%s\t%s\n", l.ID, l.FailedAt.UTC().Format(time.RFC3339), l.Position, l.Reason, messageOf(l))
		return l.ID
	})
}

// messageOf returns the update of a dead letter as words, or the bytes of a message
// that can't be decoded.
func messageOf(l models.DeadLetter) string {
	u := l.Update
	if u == nil {
		return fmt.Sprintf("payload=%x", l.Payload)
	}
	user := ""
	if u.User != "" {
		user = fmt.Sprintf(" user_id=%s", u.User)
	}
	return fmt.Sprintf("board=%s bucket=%s%s score=%d reached_at=%s",
		u.Board, u.Bucket, user, u.Score, u.ReachedAt.Time().UTC().Format(time.RFC3339Nano))
}

// runOnDeadLetter replays or deletes the dead letter whose id a text holds.
func (p *program) runOnDeadLetter(
	ctx context.Context, text, action, actor string, dryRun bool,
	work func(d *ingest.DeadLetters, ctx context.Context, id int64, dryRun bool) error,
) error {
	id, err := parseID(text, "dead letter")
	if err != nil {
		return err
	}
	return p.runOnApp(ctx, func(a *app.App) error {
		if dryRun {
			if err := work(a.DeadLetters, ctx, id, true); err != nil {
				return errors.New(publicMessage(err))
			}
			fmt.Fprintln(p.stdout, "it can be done")
			return nil
		}
		entry := models.AuditEntry{Actor: actor, Action: "dead-letters " + action, Target: text}
		_, err := audited(ctx, a, audit.Entry{AuditEntry: entry}, func() (struct{}, error) {
			return struct{}{}, work(a.DeadLetters, ctx, id, false)
		})
		if err != nil {
			return errors.New(publicMessage(err))
		}
		fmt.Fprintln(p.stdout, "done")
		return nil
	})
}
