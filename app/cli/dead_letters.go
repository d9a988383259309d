package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/operations/audit"
)

func (p *program) deadLettersCommand() *cobra.Command {
	q := ingest.DeadLetterQuery{Limit: listPage}
	list := listCommand(p, "List dead letters, newest first", &q.Before,
		func(ctx context.Context, a *app.App) ([]models.DeadLetter, error) { return a.DeadLetters.List(ctx, q) },
		func(l models.DeadLetter) {
			p.row(l.ID, l.FailedAt.UTC().Format(time.RFC3339), l.Position, l.Reason, messageOf(l))
		})
	addDeadLetterFilter(list, &q)
	return p.group("dead-letters", "List, replay or delete updates that could not be applied", list,
		p.handleDeadLetters(deadLetterAction{
			verb: "replay", short: "Apply the update of a dead letter, or those of a filter, then delete the dead letter",
			one: (*ingest.DeadLetters).Replay, selected: (*ingest.DeadLetters).ReplaySelected,
		}),
		p.handleDeadLetters(deadLetterAction{
			verb: "delete", short: "Delete a dead letter, or those of a filter, without applying the update",
			one: (*ingest.DeadLetters).Delete, selected: (*ingest.DeadLetters).DeleteSelected,
		}),
	)
}

// addDeadLetterFilter adds the flags that select dead letters.
func addDeadLetterFilter(cmd *cobra.Command, filter *ingest.DeadLetterQuery) {
	cmd.Flags().StringVar(&filter.Board, "board", "", "updates of this board only")
	cmd.Flags().StringVar(&filter.Bucket, "bucket", "", "updates of this bucket only, such as 20261120")
	cmd.Flags().StringVar(&filter.Reason, "reason", "", "only those with exactly this reason")
}

// deadLetterAction is an action on a dead letter, or on those of a filter.
type deadLetterAction struct {
	verb, short string
	one         func(d *ingest.DeadLetters, ctx context.Context, id int64, dryRun bool) error
	selected    func(d *ingest.DeadLetters, ctx context.Context, q ingest.DeadLetterQuery, dryRun bool) (ingest.HandledDeadLetters, error)
}

// handleDeadLetters returns the command of an action.
func (p *program) handleDeadLetters(action deadLetterAction) *cobra.Command {
	var (
		filter      ingest.DeadLetterQuery
		actor       string
		all, dryRun bool
	)
	cmd := &cobra.Command{
		Use:   action.verb + " [ID]",
		Short: action.short,
		Args:  cobra.MaximumNArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			filtered := filter != (ingest.DeadLetterQuery{})
			switch {
			case len(args) == 1 && (filtered || all):
				return errors.New("name one dead letter, or a filter, but not both")
			case len(args) == 1:
				return p.runOnDeadLetter(ctx, args[0], action, actor, dryRun)
			case !filtered && !all:
				return errors.New("name a dead letter, a filter (--board, --bucket, --reason), or --all")
			}
			return p.runOnDeadLetters(ctx, filter, action, actor, dryRun)
		}),
	}
	addDeadLetterFilter(cmd, &filter)
	cmd.Flags().BoolVar(&all, "all", false, "every dead letter, if there is no filter")
	p.addActorFlag(cmd, &actor)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, and only say what can be done")
	return cmd
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

// runOnDeadLetter handles the dead letter whose id a text holds.
func (p *program) runOnDeadLetter(ctx context.Context, text string, action deadLetterAction, actor string, dryRun bool) error {
	entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: actor, Action: "dead-letters " + action.verb}}
	done := "done"
	if dryRun {
		done = "it can be done"
	}
	return decideOn(ctx, p, text, "dead letter", entry, dryRun, func(a *app.App, id int64) (string, error) {
		return done, action.one(a.DeadLetters, ctx, id, dryRun)
	}, func(done string) { fmt.Fprintln(p.stdout, done) })
}

// runOnDeadLetters handles the dead letters of a filter that exist when it begins, in
// parts. It is one entry of the audit log.
func (p *program) runOnDeadLetters(
	ctx context.Context, filter ingest.DeadLetterQuery, action deadLetterAction, actor string, dryRun bool,
) error {
	return p.runOnApp(ctx, func(a *app.App) error {
		entry := models.AuditEntry{
			Actor: actor, Action: "dead-letters " + action.verb, Board: filter.Board, Bucket: filter.Bucket, Target: filter.Reason,
		}
		all, err := audited(ctx, a, audit.Entry{AuditEntry: entry}, dryRun, func() (all ingest.HandledDeadLetters, err error) {
			for filter.Limit = listPage; ; filter.Before = all.Last {
				part, err := action.selected(a.DeadLetters, ctx, filter, dryRun)
				if err != nil {
					return all, err
				}
				all.Done, all.Failed, all.Last = all.Done+part.Done, all.Failed+part.Failed, part.Last
				if all.Last == 0 {
					return all, nil
				}
			}
		})
		if err != nil {
			return fmt.Errorf("after %d: %s", all.Done, publicMessage(err))
		}
		done := "done"
		if dryRun {
			done = "can be done"
		}
		fmt.Fprintf(p.stdout, "%d %s, %d can't be applied and stay\n", all.Done, done, all.Failed)
		return nil
	})
}
