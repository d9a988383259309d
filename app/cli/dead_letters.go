package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stepboard/app"
)

func (p *program) deadLettersCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dead-letters", Short: "See and settle updates that could not be applied", Args: cobra.NoArgs, RunE: needsSubcommand}
	list := &cobra.Command{
		Use:   "list",
		Short: "List them, newest first",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.withApp(ctx, func(a *app.App) error { return p.listLetters(ctx, a) })
		}),
	}
	replay := &cobra.Command{
		Use:   "replay ID",
		Short: "Apply one after all, and remove it from the list",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.withLetter(ctx, args[0], func(a *app.App, id int64) error { return a.DeadLetters.Replay(ctx, id) })
		}),
	}
	remove := &cobra.Command{
		Use:   "delete ID",
		Short: "Give one up, for good",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.withLetter(ctx, args[0], func(a *app.App, id int64) error { return a.DeadLetters.Delete(ctx, id) })
		}),
	}
	cmd.AddCommand(p.withSettings(list), p.withSettings(replay), p.withSettings(remove))
	return cmd
}

// lettersPage is how many dead letters are read at a time.
const lettersPage = 500

func (p *program) listLetters(ctx context.Context, a *app.App) error {
	before := int64(0)
	for {
		page, err := a.DeadLetters.List(ctx, before, lettersPage)
		if err != nil {
			return err
		}
		for _, l := range page {
			fmt.Fprintf(p.stdout, "%d\t%s\t%s\t%s\t%x\n", l.ID, l.FailedAt.UTC().Format(time.RFC3339), l.Position, l.Reason, l.Payload)
			before = l.ID
		}
		if len(page) < lettersPage {
			return nil
		}
	}
}

func (p *program) withLetter(ctx context.Context, text string, work func(a *app.App, id int64) error) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return fmt.Errorf("%q is no id of a dead letter", text)
	}
	return p.withApp(ctx, func(a *app.App) error {
		if err := work(a, id); err != nil {
			return errors.New(publicMessage(err))
		}
		fmt.Fprintln(p.stdout, "done")
		return nil
	})
}
