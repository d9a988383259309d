package cli

import (
	"context"
	"fmt"
	"strconv"
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
		func(r models.Review) int64 {
			reachedAt := r.ReachedAt.UTC().Format(time.RFC3339)
			p.row(r.ID, r.Board, r.Bucket, r.User, r.Score, reachedAt)
			return r.ID
		})
	list.Flags().StringVar(&q.Board, "board", "", "scores on this board only")
	var d reviews.Dismissal
	var actor string
	dismiss := &cobra.Command{
		Use:   "dismiss ID",
		Short: "Take a score off the list until it rises further",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) (err error) {
			if d.ID, err = parseID(args[0], "review"); err != nil {
				return err
			}
			if d.By, err = models.ParseUserID(actor); err != nil {
				return fmt.Errorf("--actor: say who you are; %w", err)
			}
			return p.runOnApp(ctx, func(a *app.App) error { return p.dismissReview(ctx, a, d) })
		}),
	}
	dismiss.Flags().StringVar(&actor, "actor", "", "who has looked at the score (required)")
	dismiss.Flags().StringVar(&d.Reason, "reason", "", "why the score is fine")
	return p.group("reviews", "List or dismiss scores above a board's review_above", list, dismiss)
}

func (p *program) dismissReview(ctx context.Context, a *app.App, d reviews.Dismissal) error {
	entry := models.AuditEntry{Actor: string(d.By), Action: "reviews dismiss", Target: strconv.FormatInt(d.ID, 10), Reason: d.Reason}
	dismiss := func() (models.Review, error) { return a.Reviews.Dismiss(ctx, d) }
	return decide(ctx, a, audit.Entry{AuditEntry: entry}, false, dismiss, func(r models.Review) {
		fmt.Fprintf(p.stdout, "dismissed by %s at %s\n", r.DismissedBy, r.DismissedAt.UTC().Format(time.RFC3339))
	})
}
