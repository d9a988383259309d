package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// report prints the progress, the bad lines and the summary of an import. It
// implements importer.Report.
type report struct {
	out, err io.Writer
	line     progressLine
	start    time.Time
	shown    time.Time // when the progress was last drawn

	lines, bad int
	counts     []string // of the summary
}

// progressEvery is how often the progress line is drawn on a terminal.
const progressEvery = 100 * time.Millisecond

// Line counts a line and draws the progress.
func (r *report) Line() {
	r.lines++
	if r.line.visible() && time.Since(r.shown) >= progressEvery {
		r.shown = time.Now()
		r.line.Show("%d lines, %d bad", r.lines, r.bad)
	}
}

// BadLine counts and prints a bad line. It fails only if it can't print.
func (r *report) BadLine(number int, reason error) error {
	r.bad++
	r.line.Clear()
	_, err := fmt.Fprintf(r.err, "line %d: %s\n", number, publicMessage(reason))
	return err
}

// add adds a number to the summary.
func (r *report) add(n int, label string) { r.counts = append(r.counts, strconv.Itoa(n)+" "+label) }

// finish prints the summary, unless err ended the import. If there were bad lines,
// it returns an error, although the other lines were imported.
func (r *report) finish(err error) error {
	r.line.Clear()
	if err != nil {
		return fmt.Errorf("after %d lines: %w", r.lines, err)
	}
	r.add(r.bad, "bad lines")
	fmt.Fprintf(r.out, "%d lines, %s, in %v\n", r.lines, strings.Join(r.counts, ", "), time.Since(r.start).Round(time.Millisecond))
	if r.bad > 0 {
		return fmt.Errorf("%d bad lines were skipped; the others were imported", r.bad)
	}
	return nil
}
