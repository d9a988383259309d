package cli

import (
	"context"
	"fmt"
	"time"

	"stepboard/app"

	"github.com/spf13/cobra"
)

func (p *program) rebuildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rebuild",
		Short: "Restore the boards from the queue and the ledger",
		Long: "Restore the boards after Redis has lost them: event and rolling boards from Postgres, daily boards\n" +
			"from the updates that the queue still holds. Without a queue, days in Redis can't be restored.\n" +
			"It may run while the service runs, and again: existing scores do not change.",
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.runOnApp(ctx, func(a *app.App) error { return p.rebuild(ctx, a) })
		}),
	}
}

func (p *program) rebuild(ctx context.Context, a *app.App) error {
	err := p.replay("totals", func(progress func(int64)) (int64, error) { return a.Reconciler.Rebuild(ctx, progress) })
	if err != nil || a.Replayer == nil {
		return err
	}
	return p.replay("updates", func(progress func(int64)) (int64, error) { return a.Replayer.ReplaySince(ctx, time.Time{}, progress) })
}

// replay applies totals or updates again and prints how many.
func (p *program) replay(what string, apply func(progress func(applied int64)) (int64, error)) error {
	line, start := newProgressLine(p.stderr), time.Now()
	n, err := apply(func(applied int64) { line.Show("%d %s", applied, what) })
	line.Clear()
	if err != nil {
		return fmt.Errorf("after %d %s: %w", n, what, err)
	}
	fmt.Fprintf(p.stdout, "%d %s applied again, in %v\n", n, what, time.Since(start).Round(time.Millisecond))
	return nil
}
