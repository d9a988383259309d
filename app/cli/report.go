package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"stepboard/models"
)

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

// Line implements importer.Report: it counts a line and draws the progress.
func (r *report) Line() {
	r.lines++
	if r.progress.watched() && time.Since(r.shown) >= progressEvery {
		r.shown = time.Now()
		r.progress.Show("%d lines, %d bad", r.lines, r.bad)
	}
}

// BadLine implements importer.Report. It fails only if it can't print.
func (r *report) BadLine(line int, why error) error {
	r.bad++
	r.progress.Clear()
	_, err := fmt.Fprintf(r.err, "line %d: %s\n", line, publicMessage(why))
	return err
}

// add puts a number into the summary.
func (r *report) add(label string, n int) { r.counts = append(r.counts, count{label, n}) }

// finish prints the summary. Bad lines are a failure, though the others were
// imported.
func (r *report) finish(err error) error {
	r.progress.Clear()
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
