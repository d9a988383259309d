package harness

import (
	"encoding/json"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Mutations returns the names and paths of the patches in a folder of the package that is tested.
// Each breaks a promise of the service.
func Mutations(t testing.TB, dir string) iter.Seq2[string, string] {
	t.Helper()
	patches, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil || len(patches) == 0 {
		t.Fatalf("%d mutations, %v", len(patches), err)
	}
	return func(yield func(name, patch string) bool) {
		for _, patch := range patches {
			if !yield(strings.TrimSuffix(filepath.Base(patch), ".patch"), patch) {
				return
			}
		}
	}
}

// Overlay returns a file for go's -overlay, in which the file of a patch is patched. So the
// source stays as it is.
func Overlay(t testing.TB, patch string) string {
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
