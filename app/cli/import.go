package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/config"
	"stepboard/services/importer"
)

func (p *program) importCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Read friendships or steps from a file", Args: cobra.NoArgs, RunE: needsSubcommand}
	var o importer.FriendsOptions
	friends := &cobra.Command{
		Use:   "friends FILE",
		Short: "Read friendships: two user ids a line, by space, tab or comma",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.importFile(ctx, args[0], func(a *app.App, r *report, f io.Reader) error {
				added, err := a.Importer.ImportFriends(ctx, f, o, r)
				r.add(added, "new friendships")
				return err
			})
		}),
	}
	friends.Flags().Int64Var(&o.Offset, "offset", 0, "added to each user id, if they are numbers")
	const gentle = "rest as long as it works, so that rankings stay fast"
	friends.Flags().BoolVar(&o.Gently, "gently", false, gentle)
	var board string
	var gently bool
	steps := &cobra.Command{
		Use:   "steps FILE",
		Short: "Read step totals: CSV user_id,date,steps or hourly Id,ActivityHour,StepTotal",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.importFile(ctx, args[0], func(a *app.App, r *report, f io.Reader) error {
				b, err := a.Catalog.Definitions.Board(board)
				if err != nil {
					return fmt.Errorf("--board %s: %w", board, err)
				}
				result, err := a.Importer.ImportSteps(ctx, f, b, gently, r)
				r.add(result.Raised, "totals raised")
				if result.Archived > 0 {
					r.add(result.Archived, "days archived")
				}
				if result.Waiting > 0 {
					r.add(result.Waiting, "days left to the next archival")
				}
				return err
			})
		}),
	}
	steps.Flags().BoolVar(&gently, "gently", false, gentle)
	steps.Flags().StringVar(&board, "board", "steps", "the board that the steps are for")
	cmd.AddCommand(p.withSettings(friends), p.withSettings(steps))
	return cmd
}

// errInterrupted is the error of an import that was stopped.
var errInterrupted = errors.New("interrupted: what was imported stays, and importing the file again adds the rest")

// importFile imports one file into the stores of the settings.
func (p *program) importFile(ctx context.Context, path string, work func(*app.App, *report, io.Reader) error) (err error) {
	cfg, err := p.loadFor((*config.Config).RequirePostgres)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	a, err := p.openApp(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	r := newReport(p.stdout, p.stderr)
	err = work(a, r, file)
	if err != nil && ctx.Err() != nil {
		// The error is a consequence of stopping.
		err = errInterrupted
	}
	return r.finish(err)
}
