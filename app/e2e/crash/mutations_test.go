package crash_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// inexplicable matches what TestSoakLinearizable prints of a history that no order explains.
var inexplicable = regexp.MustCompile(`[a-z]+-\d+: no order of its calls explains their answers`)

// TestSoakLinearizableFindsMutations proves that TestSoakLinearizable can fail. Each patch in testdata/mutations
// breaks a promise of the service, and one run must find it.
func TestSoakLinearizableFindsMutations(t *testing.T) {
	t.Parallel()
	findMutations(t, "testdata/mutations", "^TestSoakLinearizable$", "", inexplicable)
}

// lost matches what the tests that cut the power print of a loss.
var lost = regexp.MustCompile(`the power is cut at line .*|after the restore the users are .*`)

// TestSoakPowerCutsFindMutations proves that the tests that cut the power can fail.
func TestSoakPowerCutsFindMutations(t *testing.T) {
	t.Parallel()
	needStrace(t)
	findMutations(t, "testdata/power_cuts", "^TestSoakPowerCut(OfARestore)?$", "all", lost)
}

// findMutations builds the program with each patch of a folder, runs tests with that in few or all forms, and expects
// that one fails and prints what found matches.
func findMutations(t *testing.T, dir, tests, forms string, found *regexp.Regexp) {
	t.Helper()
	if !testenv.AllForms() {
		t.Skip("takes minutes; make soak runs it")
	}
	test, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, patch := range harness.Mutations(t, dir) {
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "mutated")
			build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, "-overlay", harness.Overlay(t, patch), "stepboard")
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			run := exec.CommandContext(t.Context(), test, "-test.run", tests)
			run.Env = append(os.Environ(), "TEST_FORMS="+forms, "TEST_BINARY="+binary)
			out, err := run.CombinedOutput()
			if err == nil {
				t.Fatal("it is not found")
			}
			if !found.Match(out) {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", found.Find(out))
		})
	}
}
