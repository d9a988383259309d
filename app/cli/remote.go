package cli

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"stepboard/internal/stores"
)

// A command on a data folder that a process serves runs in that process. The client sends a
// request, and then they exchange frames, all of them as gob: the process sends output, operations
// on the files that the command reads or writes, and the exit status; the client sends a result
// for each operation, and an interruption.

// request is what a client sends first.
type request struct {
	// Version is the client's program; that of the process must be the same.
	Version string
	Args    []string
	// Account is the account that runs the client, and Terminal is set if its standard error is a
	// terminal.
	Account  string
	Terminal bool
}

type frameKind int

const (
	// From the serving process. open and create have the file's path, read how many bytes to read
	// at most, write what to write; each of these and complete is answered with a result.
	frameStdout frameKind = iota + 1
	frameStderr
	frameStatus
	frameOpen
	frameCreate
	frameRead
	frameWrite
	frameComplete
	// From the client.
	frameResult
	frameInterrupt
)

// frame is a message after the request.
type frame struct {
	Kind frameKind
	Text string // a path, or the error of a result; empty for none
	Data []byte
	N    int // a number of bytes, or a status
	End  bool
}

// chunk is how much of a file is sent at once, in bytes.
const chunk = 64 << 10

// peer sends and receives frames. Sending is safe for concurrent use.
type peer struct {
	conn net.Conn
	in   *gob.Decoder

	mu  sync.Mutex
	out *gob.Encoder
}

func newPeer(conn net.Conn) *peer {
	return &peer{conn: conn, in: gob.NewDecoder(bufio.NewReader(conn)), out: gob.NewEncoder(conn)}
}

func (p *peer) send(f any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(f)
}

// files opens the files that a command names, where the command was typed.
type files interface {
	// open opens a file for reading, or standard input if the path is "-", and unpacks it.
	open(path string) (io.ReadCloser, error)
	// create begins a file that only this account can read. Nothing of it is there until it is
	// complete. It replaces neither a link nor a file of another account; a pipe or a device that is
	// this account's or root's is written as it is.
	create(path string) (newFile, error)
}

// newFile is a file that is being written.
type newFile interface {
	io.Writer
	// complete puts the file, which is on the disk then, in place of any other of its name.
	complete() error
	// discard removes the file if it is not complete.
	discard()
}

// writeFile writes a file where the command was typed. After an error it is as it was before.
func (p *program) writeFile(path string, write func(io.Writer) error) error {
	file, err := p.files.create(path)
	if err != nil {
		return err
	}
	defer file.discard()
	out := bufio.NewWriterSize(file, chunk)
	if err = write(out); err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = file.complete()
	}
	return err
}

// ownFiles are those of this process.
type ownFiles struct{}

func (ownFiles) open(path string) (io.ReadCloser, error) { return openInput(path) }

func (ownFiles) create(path string) (newFile, error) {
	// Behind a link, and in a folder that others may write, a file or a pipe may be somebody else's. The
	// devices of root, and its links such as /dev/stdout, are for everybody.
	whole := replaced(path)
	switch info, err := os.Lstat(path); {
	case err != nil && whole: // nothing has this name
	case err != nil:
		return nil, err
	case whole && info.Mode()&os.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a link: name the file itself", path)
	case ofAnother(info) && (whole || !ofRoot(info)):
		return nil, fmt.Errorf("%s belongs to another account: choose another name", path)
	case !whole:
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		return &outlet{file}, err
	}
	dir, name := filepath.Split(path)
	if stores.Keeps(path) || name == secretName && stores.HasDatabase(dir) {
		return nil, fmt.Errorf("%s belongs to a data folder: choose another name", path)
	}
	if dir == "" {
		dir = "."
	}
	file, err := os.CreateTemp(dir, name+".*.part")
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		pathError.Path = path
	}
	return &part{file, path}, err
}

// replaced reports whether a file is made, or made anew: it is no pipe, device or folder.
func replaced(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

// outlet is a pipe or a device.
type outlet struct{ *os.File }

func (o *outlet) complete() error { return o.Close() }

func (o *outlet) discard() { _ = o.Close() }

// part is a file under another name, beside its own, until it is complete.
type part struct {
	*os.File

	path string
}

func (p *part) complete() error {
	err := errors.Join(p.Sync(), p.Close())
	if err == nil {
		err = os.Rename(p.Name(), p.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(p.Name()))
	}
	return stores.SyncDir(filepath.Dir(p.path))
}

func (p *part) discard() {
	if p.Close() == nil { // otherwise it is complete, or was discarded
		_ = os.Remove(p.Name())
	}
}

// exitStatus is the error of a command that ran in another process and has printed its own.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

const (
	// takesCommandsWithin is how long a command waits for a process that has locked the folder to
	// take commands, or to end: it may be starting, ending, or running another command.
	takesCommandsWithin = 10 * time.Second
	askAgain            = 50 * time.Millisecond
)

// errNotServing means that no process takes commands for a data folder.
var errNotServing = errors.New("it takes no commands: it is starting, ending, or another command; try again later")

// forward runs this command line in the process that serves a data folder. Its error is an
// exitStatus if that process has said how the command ended.
func (p *program) forward(ctx context.Context, dir string) error {
	path, err := socketPath(dir)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return errNotServing
	}
	defer func() { _ = conn.Close() }() // everything was said before
	for _, key := range slices.Sorted(maps.Keys(p.flags)) {
		if key != "data.dir" {
			return fmt.Errorf("--%s: leave it out: the command runs in the process that serves %s, with the settings of that process", key, dir)
		}
	}
	to := newPeer(conn)
	if err := to.send(request{Version: versionText(), Args: p.args, Account: p.account, Terminal: p.terminal}); err != nil {
		return lost(err)
	}
	defer context.AfterFunc(ctx, func() {
		_ = to.send(frame{Kind: frameInterrupt}) // or the command has ended
	})()
	return p.follow(to)
}

// lost returns the error of a connection that has ended before the command.
func lost(err error) error {
	return fmt.Errorf("the serving process has ended, or was killed, before it said how the command ended: %w", err)
}

// follow does what the serving process says until the command has ended.
func (p *program) follow(to *peer) error {
	var file clientFile
	defer file.end()
	for {
		var f frame
		if err := to.in.Decode(&f); err != nil {
			return lost(err)
		}
		switch f.Kind {
		case frameStdout:
			_, _ = p.stdout.Write(f.Data) // as of other commands
		case frameStderr:
			_, _ = p.stderr.Write(f.Data)
		case frameStatus:
			if f.N == exitOK {
				return nil
			}
			return exitStatus(f.N)
		case frameCreate:
			file.makes = replaced(f.Text)
			fallthrough
		default:
			do := func() { _ = to.send(file.do(f)) }
			if file.makes {
				do()
				continue
			}
			// A file may be a pipe that somebody fills slowly. Meanwhile the command may be
			// interrupted, and end. There is one operation at a time.
			go do()
		}
	}
}

// clientFile is the file that a command reads or writes.
type clientFile struct {
	read  io.Reader
	write newFile
	// makes is set if the file appears when it is complete. No operation on it takes long.
	makes bool
}

// end removes a file that is not complete, when the command has ended.
func (c *clientFile) end() {
	if c.makes && c.write != nil {
		c.write.discard()
	}
}

// do does an operation and returns its result.
func (c *clientFile) do(f frame) frame {
	result := frame{Kind: frameResult}
	var err error
	switch f.Kind {
	case frameOpen:
		c.read, err = ownFiles{}.open(f.Text)
	case frameCreate:
		c.write, err = ownFiles{}.create(f.Text)
	case frameRead:
		result.Data = make([]byte, f.N)
		f.N, err = c.read.Read(result.Data)
		result.Data = result.Data[:f.N]
		if errors.Is(err, io.EOF) {
			result.End, err = true, nil
		}
	case frameWrite:
		_, err = c.write.Write(f.Data)
	case frameComplete:
		err = c.write.complete()
	default:
		err = fmt.Errorf("unknown frame %d", f.Kind)
	}
	if err != nil {
		result.Text = err.Error()
	}
	return result
}

// session is a command in the serving process. Its files are those of the client.
type session struct {
	*peer

	results chan frame
	done    <-chan struct{} // closed when the command is to end
}

// readFrames reads what the client sends, until it interrupts the command or has gone.
func (s *session) readFrames(cancel context.CancelFunc) {
	defer cancel() // a client that has gone wants nothing any more
	for {
		var f frame
		if s.in.Decode(&f) != nil || f.Kind == frameInterrupt {
			break
		}
		select {
		case s.results <- f:
		case <-s.done:
		}
	}
}

// ask does an operation on a file of the client.
func (s *session) ask(f frame) (frame, error) {
	if err := s.send(f); err != nil {
		return frame{}, err
	}
	select {
	case result := <-s.results:
		if result.Text != "" {
			return result, errors.New(result.Text)
		}
		return result, nil
	case <-s.done:
		return frame{}, context.Canceled
	}
}

// do does an operation that has no other result than its error.
func (s *session) do(f frame) error {
	_, err := s.ask(f)
	return err
}

func (s *session) open(path string) (io.ReadCloser, error) {
	return remoteFile{s}, s.do(frame{Kind: frameOpen, Text: path})
}

func (s *session) create(path string) (newFile, error) {
	return remoteFile{s}, s.do(frame{Kind: frameCreate, Text: path})
}

// remoteFile is the client's file that is open.
type remoteFile struct{ session *session }

// Read reads at most a chunk.
func (f remoteFile) Read(p []byte) (int, error) {
	result, err := f.session.ask(frame{Kind: frameRead, N: min(len(p), chunk)})
	if err == nil && result.End {
		err = io.EOF
	}
	return copy(p, result.Data), err
}

// Write writes all of p, or nothing.
func (f remoteFile) Write(p []byte) (int, error) {
	if err := f.session.do(frame{Kind: frameWrite, Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close does nothing: the client ends with the command.
func (remoteFile) Close() error { return nil }

func (f remoteFile) complete() error { return f.session.do(frame{Kind: frameComplete}) }

// discard does nothing: the client removes what is not complete when the command has ended.
func (remoteFile) discard() {}

// output is a stream of the client that a command prints on.
type output struct {
	session *session
	kind    frameKind
}

// Write prints p.
func (o output) Write(p []byte) (int, error) {
	if err := o.session.send(frame{Kind: o.kind, Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// socketPath returns the path of the socket for commands of a data folder, or errNotServing.
func socketPath(dir string) (string, error) {
	path := commandSocket(dir)
	elsewhere, err := os.ReadFile(path + elsewhereSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	path = strings.TrimSpace(string(elsewhere))
	return path, checkSocket(path)
}
