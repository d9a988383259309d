package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"
)

// progressLine is a line on a terminal that is drawn again and again. If the
// output is not a terminal, it draws nothing.
type progressLine struct {
	out io.Writer // nil if it is not a terminal
}

// progressLine returns a line on standard error.
func (p *program) progressLine() progressLine {
	if p.terminal {
		return progressLine{out: p.stderr}
	}
	return progressLine{}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// visible reports whether the line is drawn at all.
func (p progressLine) visible() bool { return p.out != nil }

// Show draws the line anew.
func (p progressLine) Show(format string, args ...any) {
	if p.visible() {
		fmt.Fprintf(p.out, "\r"+format+"\x1b[K", args...)
	}
}

// Clear erases the line.
func (p progressLine) Clear() { p.Show("") }
