package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/services/operations/importer"
)

func (p *program) importCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Read friendships or steps from a file", Args: cobra.NoArgs, RunE: needsSubcommand}
	var o importer.FriendsOptions
	friends := &cobra.Command{
		Use:   "friends FILE",
		Short: "Read friendships: two user ids a line",
		Long: `Read friendships: two user ids a line, which commas, semicolons, or spaces and tabs separate,
in the whole file as in its first line. Ids may be in quotes. The first line may be
user1_id,user2_id or another header for two people. A line that begins with "# " is a comment.`,
		Args: cobra.ExactArgs(1),
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
		Short: "Read steps of days or hours",
		Long: `Read steps of days or hours. The first line names the columns, in any order: user_id, date and
steps for totals of days, or Id, ActivityHour and StepTotal for those of hours, which add up to
days. Other columns are ignored. Commas, semicolons or tabs separate the fields.

Dates are 2016-4-12, or 4/12/2016 if the file has a day above 12, which shows whether the day or the
month comes first. Hours are 2016-4-12 13:00 or 4/12/2016 1:00:00 PM, on the clock of the board's
time zone. The same hour of the same person twice in the file counts once, the larger one.`,
		Args: cobra.ExactArgs(1),
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
func (p *program) importFile(ctx context.Context, path string, work func(*app.App, *report, io.Reader) error) error {
	return p.runOnApp(ctx, func(a *app.App) (err error) {
		file, err := p.files.open(path)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		r := newReport(p.stdout, p.stderr, p.progressLine())
		err = work(a, r, file)
		if err != nil && ctx.Err() != nil {
			// The error is a consequence of stopping.
			err = errInterrupted
		}
		return r.finish(err)
	})
}
