package crash_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"stepboard/internal/testenv"
)

// A process that archives days in a file is killed at each step. The next one completes the run,
// and nothing is missing, shown by halves, or left behind.
func TestArchiveInAFolder(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "archive.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-trimpath", "-tags=nomsgpack,failpoints", "-o", binary, "stepboard/services/boards/archive")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "archive_version")) {
		for _, time := range []int{1, 2} { // mostly once in each of two runs
			step := fmt.Sprintf("%s#%d", step, time)
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				folder := t.TempDir()
				archive := func(env ...string) ([]byte, error) {
					cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestArchiveInAFolder$")
					cmd.Env = append(append(os.Environ(), "ARCHIVE_FOLDER="+folder), env...)
					return cmd.CombinedOutput()
				}
				out, err := archive("FAILPOINT=" + step)
				var exit *exec.ExitError
				if status, ok := syscall.WaitStatus(0), false; errors.As(err, &exit) {
					if status, ok = exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
						t.Fatalf("it was not killed: %v: %s", err, out)
					}
				} else {
					t.Fatalf("it never came to its step: %v: %s", err, out)
				}
				if out, err := archive(); err != nil {
					t.Errorf("the next process: %v: %s", err, out)
				}
			})
		}
	}
}
