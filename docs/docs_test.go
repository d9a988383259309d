package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFlowsNameFiles expects each file to exist that architecture.md names in its flows, below the
// root or in a package of services. A file without a folder is in that of the one before it.
func TestFlowsNameFiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, flows, begins := strings.Cut(string(text), "\n## Flows")
	flows, _, ends := strings.Cut(flows, "\n## ")
	if !begins || !ends {
		t.Fatal("architecture.md has no flows")
	}
	var folder string
	for _, m := range regexp.MustCompile("`([a-z_/]+/)?([a-z0-9_]+\\.go)`").FindAllStringSubmatch(flows, -1) {
		if m[1] != "" {
			folder = find(t, m[1])
		}
		if _, err := os.Stat(filepath.Join(folder, m[2])); err != nil {
			t.Errorf("%s%s: %v", m[1], m[2], err)
		}
	}
}

// find returns the path of a folder of the root, or of a package of services.
func find(t *testing.T, folder string) string {
	t.Helper()
	for _, pattern := range []string{"../", "../services/*/"} {
		if paths, err := filepath.Glob(pattern + strings.TrimSuffix(folder, "/")); err == nil && len(paths) == 1 {
			return paths[0]
		}
	}
	t.Errorf("there is no folder %s", folder)
	return ""
}
