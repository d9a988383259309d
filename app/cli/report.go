package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// report prints the progress, the bad lines and the summary of an import. It
// implements importer.Report. Safe for concurrent use.
type report struct {
	out, err io.Writer
	line     progressLine
	start    time.Time

	mu     sync.Mutex
	shown  time.Time // when the progress was last printed
	counts []string  // of the summary
	// read counts lines with content, done those of them that are stored, and bad those
	// that are reported.
	read, done, bad int
}

const (
	// drawEvery is how often the progress is drawn on a terminal.
	drawEvery = 100 * time.Millisecond
	// printEvery is how often it is printed as a line otherwise.
	printEvery = 10 * time.Second
)

func newReport(out, err io.Writer, line progressLine) *report {
	now := time.Now()
	return &report{out: out, err: err, line: line, start: now, shown: now}
}

// Line counts a line that was read.
func (r *report) Line() { r.count(1, 0) }

// Done counts lines that are stored.
func (r *report) Done(lines int) { r.count(0, lines) }

// count counts lines, and shows the progress, if it is time to.
func (r *report) count(read, done int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.done = r.read+read, r.done+done
	now := time.Now()
	every, show := printEvery, func(format string, args ...any) { fmt.Fprintf(r.err, format+"\n", args...) }
	if r.line.visible() {
		every, show = drawEvery, r.line.Show
	}
	if now.Sub(r.shown) < every {
		return
	}
	r.shown = now
	show("%d lines read, %d imported, %d bad, %.0f a second", r.read, r.done, r.bad, float64(r.done)/now.Sub(r.start).Seconds())
}

// printedBad is how many bad lines are printed.
const printedBad = 20

// BadLine counts a bad line, and prints it unless many were before. It fails only if it
// can't print.
func (r *report) BadLine(number int, reason error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad++; r.bad > printedBad {
		return nil
	}
	r.line.Clear()
	_, err := fmt.Fprintf(r.err, "line %d: %s\n", number, publicMessage(reason))
	return err
}

// Warn prints a warning about a line.
func (r *report) Warn(number int, what string) { r.print("warning: line %d: %s\n", number, what) }

// Note prints what a person should know about a line.
func (r *report) Note(number int, what string) { r.print("note: line %d %s\n", number, what) }

// print prints a line in place of the progress.
func (r *report) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line.Clear()
	fmt.Fprintf(r.err, format, args...)
}

// addSome adds a number to the summary unless it is 0.
func (r *report) addSome(n int, label string) {
	if n > 0 {
		r.add(n, label)
	}
}

// add adds a number to the summary.
func (r *report) add(n int, label string) { r.counts = append(r.counts, strconv.Itoa(n)+" "+label) }

// finish prints the summary, unless err ended the import. If there were bad lines,
// it returns an error, although the other lines were imported.
func (r *report) finish(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line.Clear()
	if more := r.bad - printedBad; more > 0 {
		fmt.Fprintf(r.err, "and %d more bad lines\n", more)
	}
	if err != nil {
		return fmt.Errorf("after %d lines: %w", r.done, err)
	}
	r.add(r.bad, "bad lines")
	fmt.Fprintf(r.out, "%d lines, %s, in %v\n", r.read, strings.Join(r.counts, ", "), time.Since(r.start).Round(time.Millisecond))
	if r.bad > 0 {
		return fmt.Errorf("%d bad lines were skipped", r.bad)
	}
	return nil
}
