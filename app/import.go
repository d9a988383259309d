package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"stepboard/config"
	"stepboard/models"
)

func (p *program) importCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "import", Short: "Read friendships or steps from a file", Args: cobra.NoArgs, RunE: needsSubcommand}
	var offset int64
	friends := &cobra.Command{
		Use:   "friends FILE",
		Short: "Read friendships: two user numbers a line, by space, tab or comma",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.importFile(ctx, args[0], func(a *App, r *report, f io.Reader) error {
				return importFriends(ctx, a, f, offset, r)
			})
		}),
	}
	friends.Flags().Int64Var(&offset, "offset", 0, "added to each user number")
	var board string
	steps := &cobra.Command{
		Use:   "steps FILE",
		Short: "Read step totals: CSV user_id,date,steps or hourly Id,ActivityHour,StepTotal",
		Args:  cobra.ExactArgs(1),
		RunE: p.run(func(ctx context.Context, args []string) error {
			return p.importFile(ctx, args[0], func(a *App, r *report, f io.Reader) error {
				return importSteps(ctx, a, f, board, r)
			})
		}),
	}
	steps.Flags().StringVar(&board, "board", "steps", "the board that the steps are for")
	cmd.AddCommand(p.withSettings(friends), p.withSettings(steps))
	return cmd
}

// errInterrupted says what an import leaves behind that is stopped half way.
var errInterrupted = errors.New("interrupted: what was imported stays, and importing the file again adds the rest")

// importFile runs an import of one file against the stores of the settings.
func (p *program) importFile(ctx context.Context, path string, work func(*App, *report, io.Reader) error) (err error) {
	cfg, err := p.loadFor((*config.Config).RequirePostgres)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return p.beside(ctx, cfg, func(a *App) error {
		// A read from a pipe or a terminal waits for as long as nothing comes;
		// the deadline ends it. A plain file takes none and never waits.
		defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Now()) })()
		r := &report{out: p.stdout, err: p.stderr, progress: progressOn(p.stderr), start: time.Now(), clock: clockOf(cfg)}
		err := work(a, r, file)
		if err != nil && ctx.Err() != nil {
			// Whatever failed did so because it was stopped.
			err = errInterrupted
		}
		return r.finish(err)
	})
}

// report tells what an import does, while it does it and at the end.
type report struct {
	out, err io.Writer
	progress progress
	start    time.Time
	shown    time.Time
	clock    models.Clock

	lines, bad int
	counts     []count
}

// count is a number of the summary.
type count struct {
	label string
	n     int
}

// progressEvery is how often the progress line is drawn on a terminal.
const progressEvery = 100 * time.Millisecond

// line counts a line that was read and draws the progress.
func (r *report) line() {
	r.lines++
	if r.progress.watched() && time.Since(r.shown) >= progressEvery {
		r.shown = time.Now()
		r.progress.show("%d lines, %d bad", r.lines, r.bad)
	}
}

// skip reports a line that is not imported. It fails only if that can't be
// told.
func (r *report) skip(line int, why error) error {
	r.bad++
	r.progress.clear()
	_, err := fmt.Fprintf(r.err, "line %d: %s\n", line, publicMessage(why))
	return err
}

// publicMessage is an error without the code around it.
func publicMessage(err error) string {
	var known *models.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return err.Error()
}

// add puts a number into the summary.
func (r *report) add(label string, n int) { r.counts = append(r.counts, count{label, n}) }

// finish prints the summary. Bad lines are a failure, though the others were
// imported.
func (r *report) finish(err error) error {
	r.progress.clear()
	if err != nil {
		return fmt.Errorf("after %d lines: %w", r.lines, err)
	}
	summary := strconv.Itoa(r.lines) + " lines"
	for _, c := range r.counts {
		summary += fmt.Sprintf(", %d %s", c.n, c.label)
	}
	fmt.Fprintf(r.out, "%s, %d bad lines, in %v\n", summary, r.bad, time.Since(r.start).Round(time.Millisecond))
	if r.bad > 0 {
		return fmt.Errorf("%d bad lines were skipped; the others were imported", r.bad)
	}
	return nil
}
