package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tests count for the area with the longest name that their folder begins with, and not for the command that ran
// them; costs are divided by those of the fixed piece of work; and what costs half as much again is an error.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	costs := write("costs", strings.ReplaceAll(`2 work
20 tests of DIR/services/people/friends
10 tests of DIR/services/boards/board
30 tests of DIR/services/boards
7 tests of DIR/elsewhere
100 make test
9 lint
4 work
`, "DIR", dir))
	budgets := write("budgets.yaml", "checks: {services: 6, services/boards: 13, make test: 11, lint: 2.1, other tests: 3}\n")
	var out strings.Builder
	if err := report(&out, costs, budgets); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"services 20.0 s 6.7 6.0", "services/boards 40.0 s 13.3 13.0", "make test 33.0 s 11.0 11.0", "lint 9.0 s 3.0 2.1", "other tests 7.0 s 2.3 3.0"} {
		if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, want) {
			t.Errorf("it prints %s, not %s", text, want)
		}
	}
	for text, fails := range map[string]bool{
		"checks: {services: 4.5, services/boards: 13, make test: 11, lint: 2.1, other tests: 3}": false,
		"checks: {services: 4.4, services/boards: 13, make test: 11, lint: 2.1, other tests: 3}": true,
		"checks: {services: 6, services/boards: 13, make test: 11, lint: 2.1}":                   true,
	} {
		if err := report(&out, costs, write("budgets.yaml", text)); (err != nil) != fails {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What a command's children have used counts for it, and its status is passed on.
func TestMeasured(t *testing.T) {
	costs := filepath.Join(t.TempDir(), "costs")
	status, err := measured(costs, "spinning", []string{"sh", "-c", "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; exit 7"})
	if status != 7 || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	text, err := os.ReadFile(costs)
	if err != nil || strings.HasPrefix(string(text), "0.000 ") || !strings.HasSuffix(string(text), " spinning\n") {
		t.Errorf("%s, %v", text, err)
	}
}
