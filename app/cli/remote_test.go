package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// inFolder returns the names in a folder and the content of the last one.
func inFolder(t *testing.T, dir string) string {
	t.Helper()
	text := ""
	for _, entry := range testenv.Must(os.ReadDir(dir)) {
		text += fmt.Sprintf("%s %s ", entry.Name(), testenv.Must(os.ReadFile(filepath.Join(dir, entry.Name()))))
	}
	return text
}

// errCut is the failure of a command that was writing a file.
var errCut = errors.New("cut")

// remotely writes a file of a client from another process, in which write may interrupt the command
// or end the connection.
func remotely(t *testing.T, path string, write func(w io.Writer, interrupt func(), process net.Conn) error) error {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	ctx, cancel := context.WithCancel(t.Context())
	s := &session{peer: newPeer(there), results: make(chan frame), done: ctx.Done()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p := &program{files: s}
		status := exitOK
		if p.writeFile(path, func(w io.Writer) error { return write(w, cancel, there) }) != nil {
			status = exitFailed
		}
		_ = s.send(frame{Kind: frameStatus, N: status})
		there.Close()
	}()
	go s.readFrames(cancel)
	err := (&program{stdout: io.Discard, stderr: io.Discard}).follow(newPeer(here))
	here.Close()
	testenv.Receive(t, "the command ends", ended)
	cancel()
	return err
}

// A file of a command is complete, or as it was before, whatever ends the command.
func TestFilesAreCompleteOrNotThere(t *testing.T) {
	t.Parallel()
	const before, after = "name before ", "name after "
	half := strings.Repeat("half", chunk) // it is not kept in memory
	own := func(write func(io.Writer) error) func(t *testing.T, path string) error {
		return func(_ *testing.T, path string) error { return (&program{files: ownFiles{}}).writeFile(path, write) }
	}
	remote := func(write func(w io.Writer, interrupt func(), process net.Conn) error) func(t *testing.T, path string) error {
		return func(t *testing.T, path string) error { t.Helper(); return remotely(t, path, write) }
	}
	for name, tt := range map[string]struct {
		run  func(t *testing.T, path string) error
		want string
	}{
		"written": {own(func(w io.Writer) error { _, err := io.WriteString(w, "after"); return err }), after},
		"failed":  {own(func(w io.Writer) error { _, _ = io.WriteString(w, half); return errCut }), before},
		"written by another process": {remote(func(w io.Writer, _ func(), _ net.Conn) error {
			_, err := io.WriteString(w, "after")
			return err
		}), after},
		"failed in another process": {remote(func(w io.Writer, _ func(), _ net.Conn) error {
			_, _ = io.WriteString(w, half)
			return errCut
		}), before},
		"interrupted": {remote(func(w io.Writer, interrupt func(), _ net.Conn) error {
			_, err := io.WriteString(w, half)
			interrupt()
			return err
		}), before},
		"the process is killed": {remote(func(w io.Writer, _ func(), process net.Conn) error {
			_, _ = io.WriteString(w, half)
			return process.Close()
		}), before},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "name")
			if err := tt.run(t, path); (err == nil) != (tt.want == after) {
				t.Error(err)
			}
			if got := inFolder(t, dir); got != "" && got != after {
				t.Errorf("the folder has %.100s", got)
			}
			if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := tt.run(t, path); (err == nil) != (tt.want == after) {
				t.Error(err)
			}
			if got := inFolder(t, dir); got != tt.want {
				t.Errorf("the folder has %.100s", got)
			}
			if mode := testenv.Must(os.Stat(path)).Mode(); tt.want == after && mode != 0o600 {
				t.Errorf("mode %v", mode)
			}
		})
	}
}

// A link is refused, whether there is something behind it or not, and a device is written as it is.
func TestLinksAndDevicesAreNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link, dangling := filepath.Join(dir, "name"), filepath.Join(dir, "link"), filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(path, []byte("before"), 0o600), os.Symlink("name", link), os.Symlink("nix", dangling)); err != nil {
		t.Fatal(err)
	}
	p := &program{files: ownFiles{}}
	write := func(w io.Writer) error { _, err := io.WriteString(w, "after"); return err }
	for _, path := range []string{link, dangling} {
		if err := p.writeFile(path, write); err == nil || !strings.Contains(err.Error(), path+" is a link: name the file itself") {
			t.Errorf("%s: %v", path, err)
		}
		if mode := testenv.Must(os.Lstat(path)).Mode(); mode&os.ModeSymlink == 0 {
			t.Errorf("the link has mode %v", mode)
		}
	}
	if got := string(testenv.Must(os.ReadFile(path))); got != "before" {
		t.Errorf("the file has %s", got)
	}
	if err := p.writeFile(os.DevNull, write); err != nil {
		t.Error(err)
	}
	if mode := testenv.Must(os.Stat(os.DevNull)).Mode(); mode&os.ModeDevice == 0 {
		t.Errorf("the device has mode %v", mode)
	}
	if err := p.writeFile(dir, write); err == nil {
		t.Error("a folder is written")
	}
}
