package simulation_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// failing matches what the simulation prints of a seed that fails.
var failing = regexp.MustCompile(`seed \d+ fails after \d+ steps: .*`)

// changed matches the file that a patch changes.
var changed = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)

// TestSoakMutations proves that the simulation can fail. Each patch in testdata/mutations breaks
// a promise of the service; 200 seeds must find it, on the store that begins its name, or, if that is package, the
// tests of the package that it changes. The patched files replace those of the service in a build of the test, so the
// source stays as it is.
//
// Seeds that find a patch on a file:
//
//	acknowledge-failed-writes                 101
//	archive-uncorrected-scores                198
//	count-after-an-event-is-final              35
//	count-held-totals                           1
//	count-people-on-the-day-they-leave         99
//	drop-before-commit                          2
//	give-up-after-one-attempt                 198
//	join-the-best-by-the-latest                 3
//	keep-sessions-of-erased-users             190
//	keep-sessions-that-nobody-uses              1
//	keep-sets-of-groups-when-somebody-hides   112
//	keep-sums-of-archived-days                  1
//	leave-out-absent-people-who-hide          101
//	let-too-many-join                         136
//	lift-exclusions-by-erasing                194
//	log-in-as-the-erased-user                 123
//	make-final-before-corrections               1
//	make-final-before-late-entries              1
//	make-final-before-released-totals          14
//	obey-former-operators                       1
//	open-by-codes-that-have-ended             199
//	open-twice-by-a-code                      173
//	revive-ended-sessions                      74
//	revoke-nothing                              1
//	show-again-who-has-hidden                 199
//	show-what-is-not-stored                   101
//	start-without-the-ledger                  101
//	store-smaller-scores                        1
//
// and on servers:
//
//	archive-uncorrected-scores                  1
//	drop-before-commit                          6
//	forget-the-mark                             7
//	join-the-best-by-the-latest                 1
//	keep-sets-that-change                     196
//	overwrite-larger-scores                   101
//	replace-running-totals                    101
//	replay-nothing-when-everything-is-lost    198
func TestSoakMutations(t *testing.T) {
	if !testenv.AllForms() {
		t.Skip("takes minutes; make soak runs it")
	}
	for name, patch := range harness.Mutations(t, "testdata/mutations") {
		t.Run(name, func(t *testing.T) {
			store, _, _ := strings.Cut(name, "-")
			if store == "package" {
				folder := filepath.Dir(changed.FindStringSubmatch(string(testenv.Must(os.ReadFile(patch))))[1])
				test := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", harness.Overlay(t, patch), "../../../"+folder)
				if out, err := test.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: Test") {
					t.Fatalf("its tests do not find it: %v\n%s", err, out)
				}
				return
			}
			binary := filepath.Join(t.TempDir(), "mutated.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-c", "-o", binary, "-overlay", harness.Overlay(t, patch), ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			test := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSoakSimulation$")
			test.Env = append(os.Environ(), "TEST_FORMS=", "SIM_STORE="+store, "SIM_SEED=1", "SIM_SEEDS=200", "SIM_SHORTEST=0")
			out, err := test.CombinedOutput()
			if err == nil {
				t.Fatal("200 seeds do not find it")
			}
			if !failing.Match(out) {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", failing.Find(out))
		})
	}
}

// Each mutation still changes the code as it is.
func TestMutationsApply(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"testdata/mutations", "../crash/testdata/mutations", "../crash/testdata/power_cuts"} {
		for _, patch := range harness.Mutations(t, dir) {
			harness.Overlay(t, patch)
		}
	}
}
