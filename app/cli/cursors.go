package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"stepboard/app"
)

func (p *program) cursorsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cursors", Short: "Manage the keys that seal cursors", Args: cobra.NoArgs, RunE: needsSubcommand}
	rotate := &cobra.Command{
		Use:   "rotate",
		Short: "Seal cursors with a new key",
		Long: "Add a key, with which all processes seal cursors within a minute. Cursors of the key before it are\n" +
			"accepted for another day.",
		Args: cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.runOnApp(ctx, func(a *app.App) error {
				if err := a.RotateCursors(ctx); err != nil {
					return err
				}
				fmt.Fprintln(p.stdout, "a new key seals cursors; those of the one before are accepted for a day")
				return nil
			})
		}),
	}
	cmd.AddCommand(p.withSettings(rotate))
	return cmd
}
