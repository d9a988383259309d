package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"stepboard/app"
	"stepboard/internal/pause"
	"stepboard/internal/stores"
)

const (
	// commandsFolder is a folder of a data folder that exists while a process takes commands. Nobody
	// else may look into it, so nobody else can connect to the socket in it, from its first moment.
	commandsFolder = "commands"
	socketName     = "socket"
	// elsewhereSuffix ends the name of a file with the path of the socket, which is elsewhere if
	// the folder's own path is too long for a socket.
	elsewhereSuffix = ".path"
	// longestSocket is how many bytes the path of a socket has at most, on every system.
	longestSocket = 103
	// lastWords is how long a command may take to end and to tell its client, once the process ends.
	lastWords = 15 * time.Second
	// acceptAgain is the pause after a failure to accept a client, such as for want of open files.
	acceptAgain = time.Second
)

// commandSocket returns the path of the socket for commands, unless it is elsewhere.
func commandSocket(dir string) string { return filepath.Join(dir, commandsFolder, socketName) }

// commands runs commands of other processes in this one, which has locked a data folder.
type commands struct {
	app      *app.App
	log      *slog.Logger
	listener net.Listener
	folders  []string // to remove in the end
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// takeCommands takes commands until ctx ends or Close. It removes what a process that was killed
// has left.
func takeCommands(ctx context.Context, folder *stores.Folder, a *app.App, log *slog.Logger) (*commands, error) {
	c := &commands{app: a, log: log}
	if err := c.listen(ctx, folder.Dir); err != nil {
		c.removeFolders()
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.running.Go(func() { c.accept(ctx) })
	return c, nil
}

// listen makes the socket.
func (c *commands) listen(ctx context.Context, dir string) error {
	path := commandSocket(dir)
	if elsewhere, err := socketPath(dir); err == nil && elsewhere != path {
		_ = os.RemoveAll(filepath.Dir(elsewhere)) // it is of no use, and at worst stays
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		return err
	}
	c.folders = append(c.folders, filepath.Dir(path))
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if len(path) > longestSocket {
		short, err := os.MkdirTemp("", "stepboard-")
		if err != nil {
			return err
		}
		c.folders = append(c.folders, short)
		elsewhere := filepath.Join(short, socketName)
		if err := os.WriteFile(path+elsewhereSuffix, []byte(elsewhere+"\n"), 0o600); err != nil {
			return err
		}
		path = elsewhere
	}
	var config net.ListenConfig
	var err error
	if c.listener, err = config.Listen(ctx, "unix", path); err != nil {
		return err
	}
	return os.Chmod(path, 0o600)
}

func (c *commands) removeFolders() {
	for _, folder := range c.folders {
		_ = os.RemoveAll(folder) // the next process removes what stays
	}
}

// accept runs the commands of those who connect, until the listener closes.
func (c *commands) accept(ctx context.Context) {
	for {
		conn, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			c.log.ErrorContext(ctx, "a command could not be taken", "error", err)
			if pause.For(ctx, acceptAgain) != nil {
				return
			}
			continue
		}
		c.running.Go(func() { c.serve(ctx, conn) })
	}
}

// Close takes no more commands, interrupts those under way, and waits until they have ended.
func (c *commands) Close() {
	_ = c.listener.Close() // nothing more can be done
	c.stop()
	c.running.Wait()
	c.removeFolders()
}

// serve runs the command of a client.
func (c *commands) serve(ctx context.Context, conn net.Conn) {
	// A client that is stopped takes nothing. It must not hold up the end of this process.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now().Add(lastWords)) })()
	ctx, cancel := context.WithCancel(ctx)
	s := &session{peer: newPeer(conn), results: make(chan frame), done: ctx.Done()}
	var reading sync.WaitGroup
	defer reading.Wait()
	defer func() { _ = conn.Close() }() // the client knows the status, or is gone
	defer cancel()
	var r request
	if err := s.in.Decode(&r); err != nil {
		return
	}
	reading.Go(func() { s.readFrames(cancel) })
	status := c.run(ctx, s, r)
	_ = s.send(frame{Kind: frameStatus, N: status}) // or the client is gone
}

// run runs a command and returns its exit status. A panic ends only the command.
func (c *commands) run(ctx context.Context, s *session, r request) (status int) {
	p := &program{
		stdout: output{s, frameStdout}, stderr: output{s, frameStderr}, args: r.Args, account: r.Account, terminal: r.Terminal,
		files: s, app: c.app, flags: make(map[string]string), closeLog: func() {},
	}
	defer func() {
		if failure := recover(); failure != nil {
			c.log.ErrorContext(ctx, "a command panicked", "panic", failure, "stack", string(debug.Stack()))
			status = p.fail(errors.New("internal error; the log of the serving process says more"))
		}
	}()
	if own := versionText(); r.Version != own {
		return p.fail(fmt.Errorf("the process that serves the data folder is %s, but this is %s: use the same program for both", own, r.Version))
	}
	root := newRoot()
	root.AddCommand(p.storesCommands()...) //nolint:contextcheck // execute passes ctx to the command
	return p.execute(ctx, root)
}
