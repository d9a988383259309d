package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/platform/outcomes"
)

func (p *program) webhooksCommand() *cobra.Command {
	q := outcomes.Query{Limit: listPage}
	list := listCommand(p, "List deliveries, newest first", &q.Before, func(ctx context.Context, a *app.App) ([]outcomes.Delivery, error) {
		if q.Type != "" && !slices.Contains(models.OutcomeTypes(), q.Type) {
			return nil, fmt.Errorf("--event: must be one of %v, not %q", models.OutcomeTypes(), q.Type)
		}
		if q.State != "" && !slices.Contains(models.DeliveryStates(), q.State) {
			return nil, fmt.Errorf("--state: must be one of %v, not %q", models.DeliveryStates(), q.State)
		}
		return a.Deliveries.List(ctx, q)
	}, p.printDelivery)
	list.Flags().StringVar(&q.Target, "target", "", "deliveries to this address only")
	list.Flags().StringVar((*string)(&q.Type), "event", "", "deliveries of this event only, such as board.final")
	list.Flags().StringVar((*string)(&q.State), "state", "", "deliveries in this state only: waiting, delivered, failed or dropped")
	dryRun, actor := false, ""
	replay := &cobra.Command{
		Use:   "replay ID",
		Short: "Send a delivery again, with the same webhook-id",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			entry := audit.Entry{AuditEntry: models.AuditEntry{Actor: actor, Action: "webhooks replay"}}
			return decideOn(ctx, p, args[0], "delivery", entry, dryRun, func(a *app.App, id int64) (outcomes.Delivery, error) {
				return a.Deliveries.Replay(ctx, id, dryRun)
			}, p.printDelivery)
		}),
	}
	replay.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing; print the delivery that would be sent again")
	p.addActorFlag(replay, &actor)
	return p.group("webhooks", "List or replay deliveries of webhooks", list, replay)
}

// printDelivery prints a delivery and its last attempt as a line.
func (p *program) printDelivery(d outcomes.Delivery) {
	last := "-"
	if n := len(d.Last); n > 0 {
		a := d.Last[n-1]
		if last = a.Error; last == "" {
			last = strconv.Itoa(a.Status)
		}
	}
	p.row(d.ID, d.CreatedAt.UTC().Format(time.RFC3339), d.Type, d.State,
		d.Target, d.MessageID, d.Attempts, last)
}
