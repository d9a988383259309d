package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"
)

// progress is a line that is drawn over and over, where a person watches;
// elsewhere it draws nothing.
type progress struct {
	out io.Writer // nil where nobody watches
}

func progressOn(w io.Writer) progress {
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return progress{out: w}
	}
	return progress{}
}

// watched tells whether anybody sees what is drawn.
func (p progress) watched() bool { return p.out != nil }

// show draws the line anew.
func (p progress) Show(format string, args ...any) {
	if p.watched() {
		fmt.Fprintf(p.out, "\r"+format, args...)
	}
}

// clear makes room for what is to stay.
func (p progress) Clear() { p.Show("\x1b[K") }
