package crash_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"stepboard/internal/testenv"
)

// postgresServer is a Postgres of one test, which the test crashes and starts
// again.
type postgresServer struct {
	t    testing.TB
	dir  string
	port int
	cmd  *exec.Cmd
}

// startPostgres starts a Postgres for the test. The end of the test crashes it.
func startPostgres(t testing.TB) *postgresServer {
	t.Helper()
	s := &postgresServer{t: t, port: testenv.FreePort(t)}
	dir, err := os.MkdirTemp("", "stepboard-postgres") //nolint:usetesting // the server's user can't reach the test's folder
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.dir = filepath.Join(dir, "data")
	// Small files of its log let LimitFiles set a low limit.
	initdb := s.command("initdb", "--pgdata", s.dir, "--username", "postgres", "--auth", "trust", "--no-sync", "--wal-segsize=1")
	if owner := initdb.SysProcAttr; owner != nil {
		if err := os.Chown(dir, int(owner.Credential.Uid), int(owner.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	t.Cleanup(s.Crash)
	s.Start()
	return s
}

// command returns one of Postgres's programs, which refuse to run as root.
func (s *postgresServer) command(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		// Debian does not have them in PATH.
		found, globErr := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
		if globErr != nil || len(found) == 0 {
			s.t.Fatalf("%v: install Postgres (Debian's package is postgresql)", err)
		}
		path = found[len(found)-1]
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: testenv.Must(credential("postgres"))}
	}
	return cmd
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// DSN returns the server's DSN, which stays the same while it is down.
func (s *postgresServer) DSN() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Start starts the server with the data that it had before and waits until it
// answers.
func (s *postgresServer) Start() {
	s.t.Helper()
	s.cmd = s.command("postgres", "-D", s.dir, "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "shared_buffers=16MB")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	db, err := sql.Open("pgx", s.DSN())
	if err != nil {
		s.t.Fatal(err)
	}
	testenv.Eventually(s.t, "postgres answers", func() bool { return db.PingContext(context.Background()) == nil })
	if err := db.Close(); err != nil {
		s.t.Error(err)
	}
}

// Crash ends the server at once, without a checkpoint. The next start recovers
// committed data from the log.
func (s *postgresServer) Crash() {
	if s.cmd == nil {
		return
	}
	// SIGKILL would leave its children behind; on SIGQUIT they all exit at once.
	if err := s.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		s.t.Error(err)
	}
	_ = s.cmd.Wait() // it never ends with status 0
	s.cmd = nil
}

// LimitFiles bounds the size of the server's files, of which those of its log have 1 MB:
// a file that would become larger can't be extended, as on a disk that is full. 0 ends
// the limit.
func (s *postgresServer) LimitFiles(bytes int) {
	s.t.Helper()
	limit := "unlimited"
	if bytes > 0 {
		limit = strconv.Itoa(bytes)
	}
	pid := strconv.Itoa(s.cmd.Process.Pid)
	set := func(pid string) error {
		return s.command("prlimit", "--pid", pid, "--fsize="+limit+":unlimited").Run()
	}
	if err := set(pid); err != nil { // first, as new processes have the limit of this one
		s.t.Fatalf("prlimit: %v", err)
	}
	for _, child := range strings.Fields(string(testenv.Must(os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))))) {
		_ = set(child) // it may have ended meanwhile
	}
}

// Backup copies the data of a server that is down. Restore puts the copy in place of the
// data.
func (s *postgresServer) Backup() {
	s.t.Helper()
	s.copy(s.dir, s.dir+"-copy")
}

// Restore replaces the data of a server that is down by that of Backup.
func (s *postgresServer) Restore() {
	s.t.Helper()
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Fatal(err)
	}
	s.copy(s.dir+"-copy", s.dir)
}

func (s *postgresServer) copy(from, to string) {
	s.t.Helper()
	if out, err := exec.Command("cp", "--archive", from, to).CombinedOutput(); err != nil {
		s.t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}
