package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// An import prints 20 bad lines, then their number, also if it fails.
func TestReportPrintsFewBadLines(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, errors.New("broken")} {
		var out, stderr strings.Builder
		r := newReport(&out, &stderr, progressLine{})
		r.Warn(3, "odd")
		want := "warning: line 3: odd\n"
		for n := 1; n <= 1234; n++ {
			if err := r.BadLine(n, errors.New("bad")); err != nil {
				t.Fatal(err)
			}
			if n <= 20 {
				want += fmt.Sprintf("line %d: bad\n", n)
			}
		}
		if err := r.finish(failure); err == nil {
			t.Error("bad lines are no error")
		}
		if want += "and 1214 more bad lines\n"; stderr.String() != want {
			t.Errorf("printed %q, want %q", stderr.String(), want)
		}
		if failure == nil && !strings.Contains(out.String(), "1234 bad lines") {
			t.Errorf("the summary is %q", out.String())
		}
	}
}
