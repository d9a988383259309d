package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"stepboard/app"
)

func (p *program) cursorsCommand() *cobra.Command {
	return p.group("cursors", "Manage the keys that seal cursors", &cobra.Command{
		Use:   "rotate",
		Short: "Seal cursors with a new key",
		Long: "Add a key, with which all processes seal cursors within a minute. Cursors of the key before it are\n" +
			"accepted for another day.",
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			if err := a.RotateCursors(ctx); err != nil {
				return err
			}
			fmt.Fprintln(p.stdout, "a new key seals cursors; those of the one before are accepted for a day")
			return nil
		}),
	})
}
