package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stepboard/config"
	"stepboard/internal/stores"
)

func (p *program) migrateCommand() *cobra.Command {
	up := &cobra.Command{
		Use:   "up",
		Short: "Apply pending migrations",
		RunE: p.onStores(func(ctx context.Context, s *stores.Stores) error {
			applied, err := s.Migrate(ctx)
			if err != nil {
				return err
			}
			for _, m := range applied {
				fmt.Fprintf(p.stdout, "applied %s\n", m.Source.Path)
			}
			if len(applied) == 0 {
				fmt.Fprintln(p.stdout, "the schema is up to date")
			}
			return nil
		}),
	}
	status := &cobra.Command{
		Use:   "status",
		Short: "Print the schema's version and the version that this binary needs",
		RunE: p.onStores(func(ctx context.Context, s *stores.Stores) error {
			current, newest, err := s.SchemaVersions(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(p.stdout, "the schema is at version %d; this binary needs %d\n", current, newest)
			return nil
		}),
	}
	return p.group("migrate", "Bring the schema up to date, or print its version", up, status)
}

// onStores adapts a command's work on Postgres, without the service, to cobra.
func (p *program) onStores(work func(context.Context, *stores.Stores) error) func(*cobra.Command, []string) error {
	return p.onSettings((*config.Config).RequireStores, func(ctx context.Context, cfg config.Config, _ []string) error {
		if cfg.Data.Dir != "" {
			return errors.New("migrate is for Postgres: the schema of a data folder is brought up to date when the folder is opened")
		}
		s, err := stores.OpenForCommand(ctx, cfg, newClock(cfg))
		if err != nil {
			return err
		}
		return errors.Join(work(ctx, s), s.Close())
	})
}
