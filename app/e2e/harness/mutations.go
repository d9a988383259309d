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
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, replaced := t.TempDir(), make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "+++ b/")
		if !ok {
			continue
		}
		original, patched := filepath.Join(root, name), filepath.Join(dir, name)
		source, err := os.ReadFile(original)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(patched), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(patched, source, 0o600); err != nil {
			t.Fatal(err)
		}
		replaced[original] = patched
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
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
