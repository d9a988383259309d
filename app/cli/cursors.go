package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"stepboard/internal/stores"
	"stepboard/services/platform/cursor"
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
			return p.runOnStores(ctx, func(s *stores.Stores) error {
				if err := cursor.Rotate(ctx, cursor.NewStore(s.Gorm)); err != nil {
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
