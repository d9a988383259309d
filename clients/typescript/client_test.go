// Package typescript holds the tests of the TypeScript client that need the service.
// The others are in the folder test, for npm test.
package typescript

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"stepboard/app"
	"stepboard/handlers"
	"stepboard/internal/testenv"
)

// openAPIFile writes the description of the API to a file, and returns its path.
func openAPIFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "openapi.json")
	document := testenv.Must(handlers.OpenAPI(app.Version()))
	if err := os.WriteFile(path, document, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// node runs a script of this folder and returns its output. It needs the packages that
// npm ci installs.
func node(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	if _, err := os.Stat("node_modules"); err != nil {
		t.Fatal("run npm ci in clients/typescript first")
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, out, stderr.Bytes())
	}
	return out
}

// The types of the client are those of the API.
func TestTypesAreCurrent(t *testing.T) {
	t.Parallel()
	generated := node(t, "generate.mjs", openAPIFile(t))
	if !bytes.Equal(generated, testenv.Must(os.ReadFile("src/schema.ts"))) {
		t.Error("src/schema.ts is not of this API: run make generate")
	}
}

// The description of the API follows the rules of OpenAPI, and those that make good
// generated clients and documentation.
func TestOpenAPIIsLinted(t *testing.T) {
	t.Parallel()
	node(t, "lint.mjs", openAPIFile(t))
}
