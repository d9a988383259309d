package testenv

import (
	"bytes"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Command is a running command of the program and its output.
type Command struct {
	*Process
	stdin io.WriteCloser
	out   Buffer
}

// Start starts a command with a pipe as its standard input.
func Start(t testing.TB, args ...string) *Command {
	t.Helper()
	c := &Command{}
	c.Process = start(t, Binary(), nil, func(cmd *exec.Cmd) {
		var err error
		cmd.Stdout = &c.out
		if c.stdin, err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	}, args...)
	return c
}

// ServeFolder starts `serve` on a data folder and waits until it listens.
func ServeFolder(t testing.TB, dir string, more ...string) *Command {
	t.Helper()
	return serveFolder(t, []string{Binary()}, nil, dir, more...)
}

// ServeFolderIn is ServeFolder under a command, such as strace, that becomes the program.
func ServeFolderIn(t testing.TB, command []string, dir string, more ...string) *Command {
	t.Helper()
	return serveFolder(t, append(command, Binary()), nil, dir, more...)
}

// serveFolder starts a program's `serve` on a data folder with more variables of the environment.
func serveFolder(t testing.TB, program, env []string, dir string, more ...string) *Command {
	t.Helper()
	c := &Command{}
	serving := make(chan string, 1)
	args := append(append(program[1:], "serve", "--data="+dir, "--http.addr=127.0.0.1:0"), more...)
	c.Process = start(t, program[0], serving, func(cmd *exec.Cmd) {
		cmd.Stdout = &c.out
		cmd.Env = append(cmd.Env, env...)
	}, args...)
	c.awaitListening(serving)
	return c
}

// Feed writes to the command's standard input, which stays open.
func (c *Command) Feed(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, text); err != nil {
		c.t.Fatal(err)
	}
}

// Stdout returns what the command has printed on its standard output so far.
func (c *Command) Stdout() string { return c.out.String() }

// Ended reports whether the command has ended.
func (c *Command) Ended() bool {
	select {
	case <-c.logged:
		return true
	default:
		return false
	}
}

// Interrupt ends the command as Ctrl-C does, and returns its exit status.
func (c *Command) Interrupt() int {
	c.t.Helper()
	return c.end(syscall.SIGINT)
}

// printedCall matches the end of the last call that a demo prints.
var printedCall = regexp.MustCompile(`(?m)^  curl .* (http://\S+)/v1/boards/steps/scores\n`)

// Demo starts `demo` on a free port and waits until it has printed how to call
// it.
func Demo(t testing.TB, args ...string) *Command {
	t.Helper()
	c := Start(t, append([]string{"demo", "--addr", "127.0.0.1:0"}, args...)...)
	Eventually(t, "the demo says how to call it", func() bool {
		m := printedCall.FindStringSubmatch(c.Stdout())
		if m == nil {
			if c.Ended() {
				t.Fatalf("demo did not start: %s", c.Log())
			}
			return false
		}
		c.URL = m[1]
		return true
	})
	return c
}

// Buffer collects what is written to it. Safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the buffer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// Lines returns the number of lines written so far.
func (b *Buffer) Lines() int { return strings.Count(b.String(), "\n") }

// String returns everything written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
