package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/models"
)

// listPage is how many rows of a list are read at a time.
const listPage = 500

// listRow is a row of a list that is ordered by descending id.
type listRow interface{ Cursor() models.Cursor }

// listCommand returns the command that prints rows, newest first. read returns up to listPage rows before
// the id that before points to, 0 for the newest. It adds no flags.
func listCommand[Row listRow](
	p *program, short string, before *int64, read func(context.Context, *app.App) ([]Row, error), show func(Row),
) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: short,
		RunE: p.onApp(func(ctx context.Context, a *app.App, _ []string) error {
			for {
				page, err := read(ctx, a)
				if err != nil {
					return err
				}
				for _, row := range page {
					show(row)
					*before = row.Cursor().Key
				}
				if len(page) < listPage {
					return nil
				}
			}
		}),
	}
}

// row prints fields as a line, separated by tabs. Text of others neither ends the line or a field nor controls the
// terminal: what is not printable in it is shown as in Go.
func (p *program) row(fields ...any) {
	for i, field := range fields {
		if i > 0 {
			fmt.Fprint(p.stdout, "\t")
		}
		text := fmt.Sprint(field)
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(text) {
			quoted := strconv.Quote(text)
			text = quoted[1 : len(quoted)-1]
		}
		fmt.Fprint(p.stdout, text)
	}
	fmt.Fprintln(p.stdout)
}

// parseID returns the id that an argument holds; what names the rows, such as "review".
func parseID(text, what string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, fmt.Errorf("%q is no id of a %s", text, what)
	}
	return id, nil
}
