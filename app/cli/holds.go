package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/boards/holds"
	"stepboard/services/operations/audit"
)

func (p *program) holdsCommand() *cobra.Command {
	q := holds.Query{Limit: listPage}
	list := listCommand(p, "List held totals, newest first", &q.Before,
		func(ctx context.Context, a *app.App) ([]models.Hold, error) { return a.Holds.List(ctx, q) },
		p.printHold)
	list.Flags().StringVar((*string)(&q.State), "state", string(models.HoldOpen), "those that are open, rejected or released")
	list.Flags().StringVar(&q.Board, "board", "", "those on this board only")
	list.Flags().StringVar((*string)(&q.User), "user", "", "those of this user only")
	return p.group("holds", "List, release or reject totals above a board's hold_above", list,
		p.holdDecisionCommand("release", "Let a held total count, and later ones of the user's day", models.HoldReleased),
		p.holdDecisionCommand("reject", "Keep a held total out, and later ones of the user's day", models.HoldRejected))
}

// holdDecisionCommand returns the command that puts a hold into a state.
func (p *program) holdDecisionCommand(name, short string, state models.HoldState) *cobra.Command {
	d := holds.Decision{State: state}
	cmd := &cobra.Command{
		Use:   name + " ID",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: string(d.By), Action: "holds " + name, Reason: d.Reason}}
			return decideOn(ctx, p, args[0], "held total", entry, d.DryRun, func(a *app.App, id int64) (models.Hold, error) {
				d.ID = id
				return a.Holds.Decide(ctx, d)
			}, p.printHold)
		}),
	}
	cmd.Flags().Int64Var(&d.Score, "score", 0, "the total that you have looked at")
	cmd.Flags().StringVar(&d.Message, "message", "", "what the user is told")
	addDecisionFlags(cmd, &d.Reason, (*string)(&d.By), &d.DryRun)
	requireFlags(cmd, "score")
	return cmd
}

// printHold prints a held total as one line.
func (p *program) printHold(h models.Hold) {
	counting := "-"
	if h.Counting != nil {
		counting = strconv.FormatInt(*h.Counting, 10)
	}
	p.row(h.ID, h.Board, h.Day, h.User, h.Score, h.ReachedAt.UTC().Format(time.RFC3339), counting, h.State)
}
