package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/operations/importer"
)

func (p *program) importCommand() *cobra.Command {
	var o importer.FriendsOptions
	const packed = `

FILE may be "-" for standard input, and may be compressed: .gz, or .zip with one CSV file.`
	friends := &cobra.Command{
		Use:   "friends FILE",
		Short: "Read friendships: two user ids a line",
		Long: `Read friendships: two user ids a line, which commas, semicolons, or spaces and tabs separate,
in the whole file as in its first line. Ids may be in quotes. Lines that begin with "# " or "% "
are comments.

The first line may name the columns: user1_id,user2_id, source,target, follower,followee or other
words for two people. Then further columns may be there. Each row makes two people friends; if the
file says that its rows are one-way, they are friends if it has both rows.` + packed,
		Args: cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			if o.Header != "" && o.Header != "yes" && o.Header != "no" {
				return fmt.Errorf("--header: %q is neither yes nor no", o.Header)
			}
			return p.importFile(ctx, args[0], func(a *app.App, r *report, f io.Reader) error {
				result, err := a.Importer.ImportFriends(ctx, f, o, r)
				r.add(result.Added, "new friendships")
				r.add(result.Existing, "already there")
				r.addSome(result.Self, "with themselves")
				r.addSome(result.OneWay, "of the other direction")
				r.addSome(result.LeftOut, "left out")
				return err
			})
		}),
	}
	friends.Flags().Int64Var(&o.Offset, "offset", 0, "added to each user id, if they are numbers")
	friends.Flags().StringVar(&o.Header, "header", "", "whether the first line names the columns, yes or no, if it is not certain")
	const where, gentle = "take only lines with this value, such as status=accepted; may be repeated", "rest as long as it works, so that rankings stay fast"
	friends.Flags().StringArrayVar(&o.Where, "where", nil, where)
	friends.Flags().BoolVar(&o.Gently, "gently", false, gentle)
	var board, user string
	var so importer.StepsImportOptions
	steps := &cobra.Command{
		Use:   "steps FILE",
		Short: "Read steps of days or hours",
		Long: `Read steps of days or hours. One of the first ten lines names the columns, in any order: user_id,
date and steps for totals of days, or Id, ActivityHour and StepTotal for those of hours, which add
up to days. Many other names are known; --columns user=…,date=…,steps=… says which columns they are,
by name or by number from 1. Further columns are not read. Commas, semicolons or tabs separate the
fields. The export of one person has no column of users: --user says whose steps they are.

Dates are 2016-4-12, 12-Apr-2016 or 20160412, an instant that is a midnight in UTC or in the board's
time zone, or 4/12/2016 if the file has a day above 12, which shows whether the day or the month
comes first. Hours are 2016-4-12 13:00 or 4/12/2016 1:00:00 PM, in one column or two, on the clock
of the board's time zone. The same hour of the same person twice in the file counts once, the larger
one. Numbers may be 13,666. Days without a number are counted and skipped.` + packed,
		Args: cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			if user != "" {
				var err error
				if so.User, err = models.ParseUserID(user); err != nil {
					return fmt.Errorf("--user: %w", err)
				}
			}
			return p.importFile(ctx, args[0], func(a *app.App, r *report, f io.Reader) error {
				b, err := a.Catalog.Definitions.Board(board)
				if err != nil {
					return fmt.Errorf("--board %s: %w", board, err)
				}
				result, err := a.Importer.ImportSteps(ctx, f, b, so, r)
				r.add(result.Raised, "totals raised")
				r.add(result.Unchanged, "already there")
				r.addSome(result.Empty, "without steps")
				r.addSome(result.LeftOut, "left out")
				r.addSome(result.Archived, "days archived")
				r.addSome(result.Waiting, "days left to the next archival")
				return err
			})
		}),
	}
	steps.Flags().BoolVar(&so.Gently, "gently", false, gentle)
	steps.Flags().StringVar(&board, "board", "steps", "the board that the steps are for")
	steps.Flags().StringVar(&user, "user", "", "the user whose steps the file has, if it is one person's")
	steps.Flags().StringVar(&so.Columns, "columns", "", "the columns by name or number, such as user=1,date=Day,steps=Count; hour=… if hours have one of their own")
	steps.Flags().StringArrayVar(&so.Where, "where", nil, where)
	return p.group("import", "Read friendships or steps from a file", friends, steps)
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
