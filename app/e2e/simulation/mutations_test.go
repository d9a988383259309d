package simulation_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// failing matches what the simulation prints of a seed that fails.
var failing = regexp.MustCompile(`seed \d+ fails after \d+ steps: .*`)

// TestSoakMutations proves that the simulation can fail. Each patch in testdata/mutations breaks
// a promise of the service; 200 seeds must find it. The patched files replace those of the
// service in a build of the test, so the source stays as it is.
func TestSoakMutations(t *testing.T) {
	if os.Getenv("SOAK") == "" || raceDetector {
		t.Skip("takes minutes; make soak runs it")
	}
	patches, err := filepath.Glob("testdata/mutations/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("%d mutations, %v", len(patches), err)
	}
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "mutated.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-c", "-o", binary, "-overlay", overlay(t, patch), ".")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
			test := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSoakSimulation$")
			test.Env = append(os.Environ(), "SOAK=", "SIM_SEED=1", "SIM_SEEDS=200", "SIM_SHORTEST=0")
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

// overlay returns a file for go's -overlay, in which the file of a patch is patched.
func overlay(t *testing.T, patch string) string {
	t.Helper()
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(string(text), "+++ b/")
	name, _, _ = strings.Cut(name, "\n")
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	original, dir := filepath.Join(root, name), t.TempDir()
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	patched := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(patched), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(patched, source, 0o600); err != nil {
		t.Fatal(err)
	}
	full, err := filepath.Abs(patch)
	if err != nil {
		t.Fatal(err)
	}
	apply := exec.CommandContext(t.Context(), "git", "apply", full)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", patch, err, out)
	}
	file := filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{original: patched}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, replaced, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
