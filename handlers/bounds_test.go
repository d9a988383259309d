package handlers

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// docs/bounds.md has each call that is not for operators alone, and says of it what the code
// does: how large its body and a page may be, and whether a user makes two at a time.
func TestBounds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]string) // the cells behind the call
	call := regexp.MustCompile("`([A-Z]+ /v1/[^`]+)`")
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for _, match := range call.FindAllStringSubmatch(cells[0], -1) {
			if rows[match[1]] != nil {
				t.Errorf("%s has two rows", match[1])
			}
			if len(cells) != 5 {
				t.Fatalf("%s has %d cells", match[1], len(cells))
			}
			rows[match[1]] = cells[1:]
		}
	}
	engine, err := newEngine(nil)
	if err != nil {
		t.Fatal(err)
	}
	api := newHuma(engine, "1", "")
	(&Config{}).routes(api, newMetrics(prometheus.NewRegistry(), nil))
	for _, op := range operations(api.OpenAPI()) {
		name := op.Method + " " + op.Path
		if op.Metadata[audienceKey] == byAdmin {
			continue
		}
		row := rows[name]
		delete(rows, name)
		if row == nil {
			t.Errorf("docs/bounds.md does not say what bounds %s", name)
			continue
		}
		body, work, answer, often := strings.TrimSpace(row[0]), strings.TrimSpace(row[1]), row[2], row[3]
		if want := bodyBound(op); body != want {
			t.Errorf("%s: a body of %s, want %s", name, body, want)
		}
		if work == "" || strings.TrimSpace(answer) == "" {
			t.Errorf("%s: its work or its answer has no bound", name)
		}
		for _, p := range op.Parameters {
			if p.Schema.Maximum != nil && !strings.Contains(answer, strconv.Itoa(int(*p.Schema.Maximum))) {
				t.Errorf("%s: the answer is %s, and %s is at most %g", name, answer, p.Name, *p.Schema.Maximum)
			}
		}
		report, ok := op.Metadata[reportKey].(report)
		if ok != strings.Contains(often, "two ") || report.export != strings.Contains(often, "one at a time") {
			t.Errorf("%s: how often: %s", name, often)
		}
	}
	for name := range rows {
		t.Errorf("docs/bounds.md has %s, which is no call", name)
	}
}

// bodyBound returns the bound of a call's body as docs/bounds.md writes it.
func bodyBound(op *huma.Operation) string {
	switch {
	case op.RequestBody == nil:
		return "none"
	case bodyLimit(op) == maxList:
		return "1 MiB"
	case bodyLimit(op) == maxBody:
		return "16 KB"
	case bodyLimit(op) == maxPhoneBody:
		return "256 KB"
	default:
		return strconv.FormatInt(bodyLimit(op), 10) + " bytes"
	}
}
