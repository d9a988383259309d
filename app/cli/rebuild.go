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
		Long: "Make event and rolling boards equal to Postgres, after Redis has lost scores, or after Postgres was\n" +
			"restored to an earlier moment and boards show more than it has. Raise daily boards to the updates that\n" +
			"the queue still holds; without a queue, days in Redis can't be restored. Load friend lists again. Move the\n" +
			"counters of users past those that Redis has seen, and drop its copies of names.\n" +
			"It may run while the service runs, and again.",
		RunE: p.onApp(p.rebuild),
	}
}

func (p *program) rebuild(ctx context.Context, a *app.App, _ []string) error {
	if err := a.Sets.DropAll(ctx); err != nil {
		return err
	}
	skipped, err := a.Directory.Rebuild(ctx)
	if err != nil {
		return err
	}
	if skipped > 0 {
		fmt.Fprintf(p.stdout, "the database was older than Redis: %d row ids are left out, so that nobody gets somebody else's scores\n", skipped)
	}
	var lowered int64
	err = p.replay("totals", func(progress func(int64)) (int64, error) {
		rebuilt, err := a.Reconciler.Rebuild(ctx, progress)
		lowered = rebuilt.Lowered
		return rebuilt.Totals, err
	})
	if lowered > 0 {
		fmt.Fprintf(p.stdout, "%d entries were more than the ledger has, and were lowered or removed\n", lowered)
	}
	if err != nil || a.Replayer == nil {
		return err
	}
	return p.replay("updates", func(progress func(int64)) (int64, error) { return a.Replayer.ReplaySince(ctx, time.Time{}, progress) })
}

// replay applies totals or updates again and prints how many.
func (p *program) replay(what string, apply func(progress func(applied int64)) (int64, error)) error {
	line, start := p.progressLine(), time.Now()
	n, err := apply(func(applied int64) { line.Show("%d %s", applied, what) })
	line.Clear()
	if err != nil {
		return fmt.Errorf("after %d %s: %w", n, what, err)
	}
	fmt.Fprintf(p.stdout, "%d %s applied again, in %v\n", n, what, time.Since(start).Round(time.Millisecond))
	return nil
}
