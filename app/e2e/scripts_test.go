package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// A trial of the service needs a Redis and a Postgres, but no browser: only the
// test target of the Makefile asks for Chromium. No package manager is on the
// path, so a program that is missing fails the script.
func TestWithServersNeedsNoChromium(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	for _, program := range []string{"bash", "dirname", "id", "mktemp", "redis-server", "rm"} {
		if err := os.Symlink(testenv.Must(exec.LookPath(program)), filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "bash"), "../../scripts/with-servers", "bash", "-c", "echo ready")
	cmd.Env = []string{"PATH=" + bin, "TMPDIR=" + t.TempDir(), "TEST_REDIS_ADDR=unused", "TEST_POSTGRES_DSN=unused"}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ready\n" {
		t.Errorf("with-servers without chromium: %v: %s", err, out)
	}
	tests := testenv.Must(exec.CommandContext(t.Context(), "make", "--dry-run", "-C", "../..", "test").Output())
	if !strings.Contains(string(tests), "need chromium ") {
		t.Errorf("make test does not ask for chromium: %s", tests)
	}
}
