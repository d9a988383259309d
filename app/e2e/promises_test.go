package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// promiseLink is a link to a test: its name and the path of its file.
var promiseLink = regexp.MustCompile("\\[`(Test\\w+)`\\]\\(([^)]+)\\)")

// Each promise in docs/promises.md names a test that exists. A promise is a row of a table or
// a bullet, and its links stand in it.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	const folder = "../../docs"
	text := string(testenv.Must(os.ReadFile(filepath.Join(folder, "promises.md"))))
	all := promises(text)
	if len(all) == 0 {
		t.Fatal("docs/promises.md has no promise")
	}
	for _, promise := range all {
		links := promiseLink.FindAllStringSubmatch(promise, -1)
		if len(links) == 0 {
			t.Errorf("no test is named by the promise:\n%s", promise)
		}
		for _, link := range links {
			source, err := os.ReadFile(filepath.Join(folder, link[2]))
			if err != nil {
				t.Error(err)
			} else if !strings.Contains(string(source), "func "+link[1]+"(") {
				t.Errorf("%s has no %s", link[2], link[1])
			}
		}
	}
}

// promises returns the rows and bullets of a document. The first two lines of a table are its
// head.
func promises(text string) (all []string) {
	row, bullet := 0, false // the row of the table and whether the line continues a bullet
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			row++
		} else {
			row = 0
		}
		switch {
		case row > 2 || strings.HasPrefix(line, "- "):
			all = append(all, line)
		case bullet && strings.HasPrefix(line, "  "):
			all[len(all)-1] += line
		}
		bullet = strings.HasPrefix(line, "- ") || bullet && strings.HasPrefix(line, "  ")
	}
	return all
}
