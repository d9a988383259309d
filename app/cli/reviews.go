package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/reviews"
)

func (p *program) reviewsCommand() *cobra.Command {
	q := reviews.Query{Limit: listPage}
	list := listCommand(p, "List scores that nobody has looked at, newest first", &q.Before,
		func(ctx context.Context, a *app.App) ([]models.Review, error) { return a.Reviews.List(ctx, q) },
		func(r models.Review) {
			p.row(r.ID, r.Board, r.Bucket, r.User, r.Score, r.ReachedAt.UTC().Format(time.RFC3339))
		})
	list.Flags().StringVar(&q.Board, "board", "", "scores on this board only")
	var d reviews.Dismissal
	var actor string
	dismiss := &cobra.Command{
		Use:   "dismiss ID",
		Short: "Take a score off the list until it rises further",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) (err error) {
			if d.By, err = models.ParseUserID(actor); err != nil {
				return fmt.Errorf("--actor: say who you are; %w", err)
			}
			entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: actor, Action: "reviews dismiss", Reason: d.Reason}}
			return decideOn(ctx, p, args[0], "review", entry, false, func(a *app.App, id int64) (models.Review, error) {
				d.ID = id
				return a.Reviews.Dismiss(ctx, d)
			}, func(r models.Review) {
				fmt.Fprintf(p.stdout, "dismissed by %s at %s\n", r.DismissedBy, r.DismissedAt.UTC().Format(time.RFC3339))
			})
		}),
	}
	dismiss.Flags().StringVar(&actor, "actor", "", "who has looked at the score (required)")
	dismiss.Flags().StringVar(&d.Reason, "reason", "", "why the score is fine")
	return p.group("reviews", "List or dismiss scores above a board's review_above", list, dismiss)
}
