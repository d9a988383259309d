package cli

import (
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/app"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// asked sends a request to a process that serves a data folder, and returns what it prints and the
// exit status.
func asked(t *testing.T, dir string, r request) (text string, status int) {
	t.Helper()
	to := newPeer(testenv.Must(new(net.Dialer).DialContext(t.Context(), "unix", commandSocket(dir))))
	defer to.conn.Close()
	if err := to.send(r); err != nil {
		t.Fatal(err)
	}
	for {
		var f frame
		if err := to.in.Decode(&f); err != nil {
			t.Fatal(err)
		}
		if f.Kind == frameStatus {
			return text, f.N
		}
		text += string(f.Data)
	}
}

// The serving process runs commands of its own version that work on the stores, and no others. A
// command that panics ends alone.
func TestCommandsThatAreNotRun(t *testing.T) {
	t.Parallel()
	folder := testenv.Must(stores.LockFolder(t.TempDir()))
	defer folder.Close()
	c := testenv.Must(takeCommands(t.Context(), folder, &app.App{}, slog.New(slog.DiscardHandler)))
	own := versionText()
	for _, tt := range []struct {
		request request
		status  int
		want    string
	}{
		{request{Version: "stepboard 0.0.9", Args: []string{"reviews", "list"}}, exitFailed, "but this is stepboard 0.0.9: use the same program"},
		{request{Version: own, Args: []string{"serve"}}, exitUsage, "unknown command"},
		{request{Version: own, Args: []string{"demo"}}, exitUsage, "unknown command"},
		{request{Version: own, Args: []string{"migrate", "up"}}, exitUsage, "unknown command"},
		{request{Version: own, Args: []string{"archive", "--nix"}}, exitUsage, "unknown flag"},
		{request{Version: own, Args: []string{"reviews", "list"}}, exitFailed, "internal error"}, // the App has no service
	} {
		if text, status := asked(t, folder.Dir, tt.request); status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%v: status %d, %s", tt.request.Args, status, text)
		}
	}
	// What depends on the client is the client's.
	for _, r := range []request{{Version: own, Args: []string{"archive", "--help"}, Account: "ann"}} {
		if text, status := asked(t, folder.Dir, r); status != exitOK || !strings.Contains(text, `(default "ann")`) {
			t.Errorf("status %d, %s", status, text)
		}
	}
	if p := (&program{terminal: true, stderr: &strings.Builder{}}); !p.progressLine().visible() {
		t.Error("no progress is shown on the terminal of a client")
	}
	c.Close()
	if _, err := os.Stat(filepath.Join(folder.Dir, commandsFolder)); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// A socket elsewhere that is not there, or is another account's, is not used.
func TestTheSocketElsewhereIsOfThisAccount(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "socket")
	if err := checkSocket(path); err != errNotServing { //nolint:errorlint // exactly that
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, nil, fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
	if err := checkSocket(path); err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		path = "/" // root's; only root can give a file to another account
	} else if err := os.Chown(path, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if err := checkSocket(path); err == nil || !strings.Contains(err.Error(), "another account") {
		t.Errorf("another account's: %v", err)
	}
}
