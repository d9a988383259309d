package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"stepboard/config"
)

// failpointCall finds the steps that the source names.
var failpointCall = regexp.MustCompile(`failpoint\.Hit\("([^"]*)"\)`)

// Failpoints returns the steps in the source whose names begin with the subject and a
// dot, in alphabetical order. It fails the test if there are none.
func Failpoints(t testing.TB, subject string) []string {
	t.Helper()
	names := slices.DeleteFunc(allFailpoints(t), func(name string) bool { return !strings.HasPrefix(name, subject+".") })
	if len(names) == 0 {
		t.Fatalf("the source names no step of %s", subject)
	}
	return names
}

// FailpointSubjects returns the subjects of all steps in the source, in alphabetical order.
func FailpointSubjects(t testing.TB) []string {
	t.Helper()
	subjects := allFailpoints(t)
	for i, name := range subjects {
		subjects[i], _, _ = strings.Cut(name, ".")
	}
	return slices.Compact(subjects)
}

// allFailpoints returns the names of the steps in the source, in alphabetical order.
func allFailpoints(t testing.TB) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(moduleRoot(t), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		for _, call := range failpointCall.FindAllSubmatch(source, -1) {
			names = append(names, string(call[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// moduleRoot returns the folder of the module's source.
func moduleRoot(t testing.TB) string {
	t.Helper()
	root := Must(exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output())
	return strings.TrimSpace(string(root))
}

// ServeUntil is Serve with a program that is killed at a step of Failpoints. The step may
// end with "#" and a number: how often it must be reached before the process is killed.
func ServeUntil(t testing.TB, step string, cfg config.Config, more ...string) *Process {
	t.Helper()
	return serve(t, Must(binaryWithFailpoints()), func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "FAILPOINT="+step) }, cfg, more...)
}

// RunUntil starts a command with a program that is killed at a step, as in ServeUntil.
func RunUntil(t testing.TB, step string, args ...string) *Process {
	t.Helper()
	return start(t, Must(binaryWithFailpoints()), nil, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "FAILPOINT="+step) }, args...)
}

// ServeFolderUntil is ServeFolder with a program that is killed at a step, as in ServeUntil; if that
// is before it listens, its URL is empty.
func ServeFolderUntil(t testing.TB, step, dir string, more ...string) *Command {
	t.Helper()
	return serveFolder(t, []string{Must(binaryWithFailpoints())}, []string{"FAILPOINT=" + step}, dir, more...)
}

// Killed waits until a process of one of these has been killed at its step.
func (p *Process) Killed() {
	p.t.Helper()
	ctx, cancel := untilDeadline(p.t)
	defer cancel()
	select {
	case <-p.logged:
	case <-ctx.Done():
		p.t.Fatalf("the process never came to its step: %s", p.Log())
	}
	_ = p.cmd.Wait() // the status is looked at
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		p.t.Fatalf("the process ended with %v, not at its step: %s", p.cmd.ProcessState, p.Log())
	}
}
