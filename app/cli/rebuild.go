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
		Short: "Fill the boards again from the queue and the ledger",
		Long: "Fill the boards again, for a Redis that has lost them: event and rolling boards from Postgres, daily\n" +
			"ones with all that the queue has kept. Without a queue Redis itself is the truth of its days.\n" +
			"It may run beside the service, and again: what is there already does not change.",
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.withApp(ctx, func(a *app.App) error { return p.rebuild(ctx, a) })
		}),
	}
}

func (p *program) rebuild(ctx context.Context, a *app.App) error {
	err := p.again("totals", func(progress func(int64)) (int64, error) { return a.Reconciler.Rebuild(ctx, progress) })
	if err != nil || a.Replayer == nil {
		return err
	}
	return p.again("updates", func(progress func(int64)) (int64, error) { return a.Replayer.ReplaySince(ctx, time.Time{}, progress) })
}

// again applies something again and says how much of it.
func (p *program) again(what string, apply func(progress func(applied int64)) (int64, error)) error {
	line, start := progressOn(p.stderr), time.Now()
	n, err := apply(func(applied int64) { line.Show("%d %s", applied, what) })
	line.Clear()
	if err != nil {
		return fmt.Errorf("after %d %s: %w", n, what, err)
	}
	fmt.Fprintf(p.stdout, "%d %s applied again, in %v\n", n, what, time.Since(start).Round(time.Millisecond))
	return nil
}
