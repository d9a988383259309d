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
	"slices"
	"strings"
	"sync"
	"time"
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
	// at most, write what to write; each of these and closed is answered with a result.
	frameStdout frameKind = iota + 1
	frameStderr
	frameStatus
	frameOpen
	frameCreate
	frameRead
	frameWrite
	frameClosed
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
	// open opens a file for reading.
	open(path string) (io.ReadCloser, error)
	// create opens a file for writing, empty, and readable for this account only if it is new.
	create(path string) (io.WriteCloser, error)
}

// ownFiles are those of this process.
type ownFiles struct{}

func (ownFiles) open(path string) (io.ReadCloser, error) { return os.Open(path) }

func (ownFiles) create(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
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
		default:
			// A file may be a pipe that somebody fills slowly. Meanwhile the command may be
			// interrupted, and end. There is one operation at a time.
			go func() { _ = to.send(file.do(f)) }()
		}
	}
}

// clientFile is the file that a command reads or writes.
type clientFile struct {
	read  io.ReadCloser
	write io.WriteCloser
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
	case frameClosed:
		if c.read != nil {
			err = c.read.Close()
		} else {
			err = c.write.Close()
		}
		*c = clientFile{}
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

func (s *session) open(path string) (io.ReadCloser, error) {
	if _, err := s.ask(frame{Kind: frameOpen, Text: path}); err != nil {
		return nil, err
	}
	file := remoteFile{s}
	return remoteReader{bufio.NewReaderSize(file, chunk), file}, nil
}

func (s *session) create(path string) (io.WriteCloser, error) {
	if _, err := s.ask(frame{Kind: frameCreate, Text: path}); err != nil {
		return nil, err
	}
	return remoteFile{s}, nil
}

// remoteFile is the client's file that is open.
type remoteFile struct{ session *session }

// Read reads at most a chunk.
func (f remoteFile) Read(p []byte) (int, error) {
	result, err := f.session.ask(frame{Kind: frameRead, N: min(len(p), chunk)})
	n := copy(p, result.Data)
	if err == nil && result.End {
		err = io.EOF
	}
	return n, err
}

// Write writes all of p.
func (f remoteFile) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part := rest[:min(len(rest), chunk)]
		if _, err := f.session.ask(frame{Kind: frameWrite, Data: part}); err != nil {
			return len(p) - len(rest), err
		}
		rest = rest[len(part):]
	}
	return len(p), nil
}

// Close closes the client's file.
func (f remoteFile) Close() error {
	_, err := f.session.ask(frame{Kind: frameClosed})
	return err
}

// remoteReader reads the client's file.
type remoteReader struct {
	*bufio.Reader

	file remoteFile
}

// Close closes the client's file. It never fails: everything was read, or the command has failed.
func (r remoteReader) Close() error {
	_ = r.file.Close()
	return nil
}

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
