package cli

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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

// input is a file that a command reads. It is unpacked on its way, in bounded memory, if gzip
// compressed it, or if it is a zip archive with one file, or one CSV file among others.
type input struct {
	*os.File // whose deadline ends a read that waits

	unpacked io.Reader // nil until the first read
}

// stdin is the name of the standard input.
const stdin = "-"

// openInput opens a file for reading.
func openInput(name string) (*input, error) {
	if name != stdin {
		file, err := os.Open(name)
		return &input{File: file}, err
	}
	// Unlike os.Stdin, a file that is opened here supports a deadline, if it is a pipe or a
	// terminal.
	file, err := os.Open("/dev/stdin")
	if err != nil {
		file = os.Stdin
	}
	return &input{File: file}, nil
}

// Read reads what is unpacked.
func (i *input) Read(p []byte) (int, error) {
	if i.unpacked == nil {
		var err error
		if i.unpacked, err = unpack(i.File); err != nil {
			return 0, err
		}
	}
	return i.unpacked.Read(p)
}

// unpack returns what a file holds.
func unpack(file *os.File) (io.Reader, error) {
	in := bufio.NewReaderSize(file, chunk)
	begin, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case strings.HasPrefix(string(begin), "\x1f\x8b"):
		return gzip.NewReader(in)
	case string(begin) == "PK\x03\x04":
		return unzip(file)
	}
	return in, nil
}

// unzip returns what the file in a zip archive holds.
func unzip(file *os.File) (io.Reader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("a zip archive can be read from a file only, and not from a pipe")
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("read the zip archive: %w", err)
	}
	files := slices.DeleteFunc(slices.Clone(archive.File), func(f *zip.File) bool {
		return f.FileInfo().IsDir() || strings.HasPrefix(f.Name, "__MACOSX/")
	})
	if slices.ContainsFunc(files, func(f *zip.File) bool { return f.Name == "[Content_Types].xml" }) {
		return nil, errors.New("the file is a workbook such as .xlsx: save the sheet as CSV")
	}
	for _, f := range files {
		if err := importer.ExportIn(f.Name); err != nil {
			return nil, err
		}
	}
	isTable := func(f *zip.File) bool { return strings.EqualFold(path.Ext(f.Name), ".csv") }
	if tables := slices.DeleteFunc(slices.Clone(files), func(f *zip.File) bool { return !isTable(f) }); len(tables) == 1 {
		files = tables
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("the zip archive holds %d files, and not one: unpack it, and name the file that is meant", len(files))
	}
	return files[0].Open()
}

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
