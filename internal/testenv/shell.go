package testenv

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Shell is a bash that runs one command after another, as if somebody typed
// them. The end of the test kills everything that the commands have left
// running.
type Shell struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	errs  Buffer
	count int
}

// StartShell starts a shell in a folder, with the given environment.
func StartShell(t testing.TB, dir string, env []string) *Shell {
	t.Helper()
	s := &Shell{t: t, cmd: exec.Command("bash", "--norc")}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = dir, env, &s.errs
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.out, s.stdin = bufio.NewReader(Must(s.cmd.StdoutPipe())), Must(s.cmd.StdinPipe())
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// Do runs a command and returns what it printed on its standard output, and its
// exit status. If the command is a shell itself, that shell reads the next
// command. Do fails, and kills the shell, shortly before the test's own
// deadline.
func (s *Shell) Do(command string) (printed string, status int) {
	s.t.Helper()
	ctx, cancel := untilDeadline(s.t)
	defer cancel()
	stop := context.AfterFunc(ctx, s.signal)
	defer stop()
	s.count++
	// With eval, an incomplete command fails. Without, bash would wait for the
	// rest of it.
	quoted := "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
	end := fmt.Sprintf("end of command %d: ", s.count)
	ends := fmt.Sprintf("printf '\\n%s%%d\\n' $?\nprintf '\\n%s\\n' >&2\n", end, end)
	if _, err := fmt.Fprintf(s.stdin, "eval %s\n%s", quoted, ends); err != nil {
		s.t.Fatalf("%s: %v: %s", command, err, s.Stderr())
	}
	var text strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%s: the shell ended: %v: %s%s", command, cmp.Or(ctx.Err(), err), text.String(), s.Stderr())
		}
		if number, ended := strings.CutPrefix(line, end); ended {
			Eventually(s.t, "the end of the errors of "+command, func() bool { return strings.Contains(s.Stderr(), end) })
			return strings.TrimSuffix(text.String(), "\n"), Must(strconv.Atoi(strings.TrimSpace(number)))
		}
		text.WriteString(line)
	}
}

// Stderr returns what commands have printed on their standard error so far, and the end
// of each command.
func (s *Shell) Stderr() string { return s.errs.String() }

// signal kills the shell and everything that it has started.
func (s *Shell) signal() {
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		s.t.Error(err)
	}
}

// kill ends the shell and everything that it has started, and waits for them.
func (s *Shell) kill() {
	s.signal()
	if _, err := io.Copy(io.Discard, s.out); err != nil {
		s.t.Error(err)
	}
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		s.t.Error(err)
	}
}
