package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// importer imports files into the test's stores, at 2026-11-20 13:00 UTC.
type importer struct {
	t   testing.TB
	env *testenv.Env
}

func newImporter(t testing.TB) *importer {
	t.Helper()
	env := harness.RealWithSecret(t)
	env.Config.Clock.Offset = time.Until(testenv.Noon)
	return &importer{t: t, env: env}
}

// run imports a text. It returns the exit status, the output, and the numbers
// of the reported lines.
func (i *importer) run(what, text string, more ...string) (status int, stdout string, lines []string) {
	i.t.Helper()
	args := append([]string{"import", what, file(i.t, text)}, testenv.Flags(i.env.Config)...)
	stdout, stderr, status := testenv.Run(i.t, append(args, more...)...)
	for _, m := range regexp.MustCompile(`(?m)^line (\d+): .+$`).FindAllStringSubmatch(stderr, -1) {
		lines = append(lines, m[1])
	}
	return status, stdout + stderr, lines
}

// interrupted starts an import, waits until a part of it is stored, and ends it as
// Ctrl-C does. It returns how many lines were imported, as the command says.
func (i *importer) interrupted(stored any, feed string, args ...string) (done int) {
	i.t.Helper()
	c := testenv.Start(i.t, append(append([]string{"import"}, args...), testenv.Flags(i.env.Config)...)...)
	c.Feed(feed)
	testenv.Eventually(i.t, "something is imported", func() bool {
		if c.Ended() {
			i.t.Fatalf("the import ended: %s", c.Log())
		}
		return i.count(stored) > 0
	})
	status := c.Interrupt()
	// On a slow machine, a line of progress every ten seconds comes first.
	m := regexp.MustCompile(`^(?:\d+ lines read, .*\n)*stepboard: after (\d+) lines: interrupted: what was imported stays[^\n]*\n$`).
		FindStringSubmatch(c.Log())
	if status != 1 || c.Stdout() != "" || m == nil {
		i.t.Fatalf("%v: status %d: %s%.1000s", args, status, c.Stdout(), c.Log())
	}
	return testenv.Must(strconv.Atoi(m[1]))
}

// count returns the number of rows of a table.
func (i *importer) count(table any) (n int64) {
	i.t.Helper()
	if err := i.env.Gorm.Model(table).Count(&n).Error; err != nil {
		i.t.Fatal(err)
	}
	return n
}

// The command reports bad lines by their numbers, and says what was stored. What it needs beyond a good
// file, it names.
func TestImportCommand(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	edges := "# a comment\n0 1\n1\t2\n2  3\n3 0\n1 0\n4 4\n5\na 6\n-2 6\n9223372036854775807 6\n"
	for _, tt := range []struct {
		what, text string
		more       []string
		status     int
		bad        string
		want       string
	}{
		{"friends", edges, []string{"--offset=1"}, 1, "10 11 8 9", "4 new friendships, 1 already there, 1 with themselves, 4 bad lines"},
		{"friends", "1 2\n2 3\n3 2\n5 1\n", []string{"--gently"}, 0, "", "1 new friendships"},
		{"steps", "user_id,date,steps\n1,2026-11-19,5000\n2,2026-11-21,800\n", nil, 1, "3", "1 totals raised"},
		{"steps", "user_id,date,steps\n1,2026-11-19,5\n2,2026-11-19,6\n", []string{"--gently"}, 0, "", "1 totals raised, 1 already there"},
		{"steps", "user_id,date,steps\n", []string{"--board=nix"}, 1, "", "--board nix"},
		{"steps", "", nil, 1, "", "the file is empty"},
		{"friends", strings.Repeat("1,2,3\n", 1000), nil, 1, "1 10 11 12 13 14 15 16 17 18 19 2 20 3 4 5 6 7 8 9", "after 0 lines: all 100 lines so far are bad"},
		{"friends", strings.Repeat("1", 2<<20), nil, 1, "", "longer than"},
	} {
		status, said, lines := i.run(tt.what, tt.text, tt.more...)
		slices.Sort(lines) // rejected edges are reported with their chunk
		if status != tt.status || strings.Join(lines, " ") != tt.bad || !strings.Contains(said, tt.want) {
			t.Errorf("%.60q %v: status %d, lines %v: %.1000s, want %s", tt.text, tt.more, status, lines, said, tt.want)
		}
	}
	if _, stderr, status := testenv.Run(t, append([]string{"import", "steps", "no-such-file"}, testenv.Flags(i.env.Config)...)...); status != 1 || !strings.Contains(stderr, "no-such-file") {
		t.Errorf("a missing file: status %d: %s", status, stderr)
	}
}

// An import that is interrupted completes the chunk that it is storing, and says how many
// lines are imported. Importing the file again adds exactly the rest.
func TestImportIsInterrupted(t *testing.T) {
	t.Parallel()
	const lines = 100_000 // take long enough to be interrupted
	var friends strings.Builder
	for n := range lines {
		fmt.Fprintf(&friends, "%d %d\n", n+1, n+2)
	}
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		i := newImporter(t)
		done := i.interrupted(&models.Friendship{}, "", "friends", file(t, friends.String()))
		if n := i.count(&models.Friendship{}); n != 2*int64(done) || done == lines {
			t.Errorf("%d rows are stored after %d lines", n, done)
		}
		status, said, _ := i.run("friends", friends.String())
		if want := fmt.Sprintf("%d lines, %d new friendships", lines, lines-done); status != 0 || !strings.Contains(said, want) {
			t.Errorf("the second time: status %d: %s, want %s", status, said, want)
		}
	})
	// An import that waits for more data from a pipe can be interrupted, too.
	t.Run("a pipe", func(t *testing.T) {
		t.Parallel()
		newImporter(t).interrupted(&models.Friendship{}, friends.String()[:40_000], "friends", "/dev/stdin")
	})
}
