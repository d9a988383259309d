package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/migrations"
)

func (p *program) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the schema up to date, or print its version", Args: cobra.NoArgs, RunE: needsSubcommand}
	up := &cobra.Command{
		Use:   "up",
		Short: "Apply pending migrations",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.runOnStores(ctx, func(s *stores.Stores) error {
				applied, err := s.Migrate(ctx)
				if err != nil {
					return err
				}
				for _, m := range applied {
					fmt.Fprintf(p.stdout, "applied %s\n", m.Name)
				}
				if len(applied) == 0 {
					fmt.Fprintln(p.stdout, "the schema is up to date")
				}
				return nil
			})
		}),
	}
	status := &cobra.Command{
		Use:   "status",
		Short: "Print the schema's version and the version that this binary needs",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.runOnStores(ctx, func(s *stores.Stores) error {
				m, err := migrations.New(ctx, s.SQL, s.Dialect)
				if err != nil {
					return err
				}
				current, newest, err := m.Status(ctx)
				if err != nil {
					return err
				}
				fmt.Fprintf(p.stdout, "the schema is at version %d; this binary needs %d\n", current, newest)
				return nil
			})
		}),
	}
	cmd.AddCommand(p.withSettings(up), p.withSettings(status))
	return cmd
}

// runOnStores reads the settings and runs work on Postgres, without the service.
func (p *program) runOnStores(ctx context.Context, work func(*stores.Stores) error) error {
	cfg, err := p.loadFor((*config.Config).RequireStores)
	if err != nil {
		return err
	}
	if cfg.Data.Dir != "" {
		return errors.New("migrate is for Postgres: the schema of a data folder is brought up to date when the folder is opened")
	}
	s, err := stores.OpenForCommand(ctx, cfg, newClock(cfg))
	if err != nil {
		return err
	}
	return errors.Join(work(s), s.Close())
}
