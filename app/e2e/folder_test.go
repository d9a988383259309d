package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// onFolder runs a command on a data folder in a process of its own.
func onFolder(t testing.TB, dir string, args ...string) harness.Outcome {
	t.Helper()
	stdout, stderr, status := testenv.Run(t, append(args, "--data="+dir)...)
	return harness.Outcome{Status: status, Stdout: stdout, Stderr: stderr}
}

// friendsOn returns the ids of a user's ranking in a process that serves a data folder.
func friendsOn(t testing.TB, dir string, p *testenv.Command, user string) string {
	t.Helper()
	token := strings.TrimSpace(onFolder(t, dir, "token", "--user="+user).Succeeds(t))
	return harness.Call(t, p.Process, token, "GET", "/v1/friends", "", http.StatusOK)
}

// files returns the names in a folder, one after another.
func files(t testing.TB, dir string) string {
	t.Helper()
	var names []string
	for _, entry := range testenv.Must(os.ReadDir(dir)) {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

// One serves from an empty folder, and uses other commands meanwhile, and afterwards.
func TestDataFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	onFolder(t, dir, "token", "--user=9").Fails(t, 1, "no secret yet", "serve")
	first := testenv.ServeFolder(t, dir)
	testenv.Eventually(t, "six lines are printed", func() bool { return strings.Count(first.Stdout(), "\n") == 6 })
	for _, word := range []string{dir, first.URL, "stepboard token --data " + dir + " --user 9", "Redis and Postgres", "/#code/"} {
		if !strings.Contains(first.Stdout(), word) {
			t.Errorf("nothing of %s is printed: %s", word, first.Stdout())
		}
	}
	for name, mode := range map[string]fs.FileMode{
		"": fs.ModeDir | 0o700, "secret": 0o600, "commands": fs.ModeDir | 0o700, "commands/socket": fs.ModeSocket | 0o600,
	} {
		if got := testenv.Must(os.Stat(filepath.Join(dir, name))).Mode(); got != mode {
			t.Errorf("%s/%s has mode %v, want %v", dir, name, got, mode)
		}
	}
	work := func(want int) {
		t.Helper()
		if got := onFolder(t, dir, "import", "friends", file(t, "9 10\n9 11\n")).Succeeds(t); !strings.Contains(got, fmt.Sprintf("2 lines, %d new friendships", want)) {
			t.Errorf("an import prints %s", got)
		}
		steps := onFolder(t, dir, "import", "steps", file(t, gzipped(t, "day,count\n2016-04-12,5\n")), "--user=9").Succeeds(t)
		if !strings.Contains(steps, fmt.Sprintf("1 lines, %d totals raised", want/2)) {
			t.Errorf("an import of steps prints %s", steps)
		}
		bad := onFolder(t, dir, "import", "friends", file(t, "9 10\n9\n9 u_abcdefghijklmnop\n9 11\n"))
		if bad.Status != 1 || !strings.Contains(bad.Stdout, "2 already there, 2 bad lines") ||
			!strings.Contains(bad.Stderr, "line 2: ") || !strings.Contains(bad.Stderr, "line 3: there is no user u_abcdefghijklmnop") {
			t.Errorf("bad lines: %+v", bad)
		}
		out := filepath.Join(t.TempDir(), "erasures")
		if got := onFolder(t, dir, "erasures", "export", out).Succeeds(t); got != "0 erasures were exported\n" {
			t.Errorf("an export prints %s", got)
		}
		if info := testenv.Must(os.Stat(out)); info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("it writes %d bytes with mode %v", info.Size(), info.Mode())
		}
		onFolder(t, dir, "import", "friends", "nix").Fails(t, 1, "open nix: no such file or directory")
		onFolder(t, dir, "erasures", "export", filepath.Join(dir, "nix", "file")).Fails(t, 1, "no such file or directory")
		onFolder(t, dir, "reviews", "dismiss", "7", "--actor=ann").Fails(t, 1, "no review")
		onFolder(t, dir, "migrate", "up").Fails(t, 1, "for Postgres")
		onFolder(t, dir, "cursors", "rotate").Succeeds(t)
	}
	work(2)
	onFolder(t, dir, "import", "friends", "nix", "--hot_days=5", "--log.level=warn").Fails(t, 1, "--hot_days: leave it out")
	onFolder(t, dir, "serve").Fails(t, 1, "in use by another process")
	onFolder(t, dir, "serve", "--only=api").Fails(t, 1, "--only")
	if got := friendsOn(t, dir, first, "9"); !strings.Contains(got, `"10"`) || !strings.Contains(got, `"11"`) {
		t.Errorf("the friends are %s", got)
	}
	first.Stop()
	if got := files(t, dir); got != "lock secret stepboard.db" {
		t.Errorf("the folder has %s", got)
	}
	work(0)
	onFolder(t, dir, "import", "friends", "nix", "--hot_days=1").Fails(t, 1, "hot_days: must be at least 2")
	second := testenv.ServeFolder(t, dir)
	testenv.Eventually(t, "two lines are printed", func() bool { return strings.Count(second.Stdout(), "\n") == 2 })
	if got := friendsOn(t, dir, second, "10"); !strings.Contains(got, `"9"`) {
		t.Errorf("the friends are %s", got)
	}
	second.Stop()
}

// boardOn returns the zone and the audience of board steps in a process that serves a data folder.
func boardOn(t testing.TB, dir string, p *testenv.Command) string {
	t.Helper()
	token := strings.TrimSpace(onFolder(t, dir, "token", "--user=9").Succeeds(t))
	var got struct {
		Boards []struct {
			Zone   string `json:"time_zone"`
			Global string
		}
	}
	if err := json.Unmarshal([]byte(harness.Call(t, p.Process, token, "GET", "/v1/boards", "", http.StatusOK)), &got); err != nil || len(got.Boards) != 1 {
		t.Fatalf("the boards are %+v, %v", got, err)
	}
	return got.Boards[0].Zone + " " + got.Boards[0].Global
}

// A new folder's board has the days of the machine's time zone. Later starts in another zone keep it, and settings with boards
// change it for good.
func TestBoardOfANewFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, start := range []struct{ zone, flag, want string }{
		{"Europe/Berlin", "--log.level=info", "Europe/Berlin service"},
		{"America/New_York", "--log.level=info", "Europe/Berlin service"},
		{"America/New_York", "--boards=[]", "Europe/Berlin service"},
		{"America/New_York", "--boards=[{name: steps, max_score: 70000}]", "Asia/Shanghai users"},
		{"Europe/Berlin", "--log.level=info", "Asia/Shanghai users"},
	} {
		p := testenv.ServeFolderIn(t, []string{"env", "TZ=" + start.zone}, dir, start.flag)
		if got := boardOn(t, dir, p); got != start.want {
			t.Errorf("in %s with %s: the board has %s, want %s", start.zone, start.flag, got, start.want)
		}
		zone, _, _ := strings.Cut(start.want, " ")
		if says := strings.Contains(p.Log(), `"board":"steps","time_zone":"`+zone+`"`); says == strings.Contains(start.flag, "name") {
			t.Errorf("in %s with %s the log says: %s", start.zone, start.flag, p.Log())
		}
		p.Stop()
	}
	made := t.TempDir()
	onFolder(t, made, "import", "friends", file(t, "9 10\n")).Succeeds(t)
	onFolder(t, made, "serve", "--http.addr=127.0.0.1:0", "--wechat.apps=[{appid: wx1, secret: s, board: steps}]").Fails(t, 1, "wechat.apps[0].board: must be a daily board")
	p := testenv.ServeFolderIn(t, []string{"env", "TZ=Europe/Berlin"}, made)
	if got := boardOn(t, made, p); got != testenv.Morning+" service" {
		t.Errorf("a command has made the board of %s", got)
	}
	p.Stop()
}

// gzipped returns a text as gzip compresses it.
func gzipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	testenv.Must(w.Write([]byte(text)))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// importing starts an import that is under way, and goes on when it is fed.
func importing(t *testing.T, dir string) *testenv.Command {
	t.Helper()
	c := testenv.Start(t, "import", "friends", "-", "--data="+dir)
	c.Feed("20 21\n20\n" + strings.Repeat("22 23\n", 20_000)) // more than is read at once
	testenv.Eventually(t, "the bad line is reported", func() bool { return strings.Contains(c.Log(), "line 2: ") })
	return c
}

// A command in the serving process ends when its client is interrupted or killed, and when that
// process ends. The process goes on serving.
func TestInterruptedCommandsOnADataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := testenv.ServeFolder(t, dir)
	c := importing(t, dir)
	if status := c.Interrupt(); status != 1 || !strings.Contains(c.Log(), "interrupted: what was imported stays") {
		t.Errorf("interrupted: status %d, %s", status, c.Log())
	}
	importing(t, dir).Kill()
	onFolder(t, dir, "import", "friends", file(t, "1 2\n")).Succeeds(t)
	c = importing(t, dir)
	p.Stop()
	testenv.Eventually(t, "the command has ended", c.Ended)
	if !strings.Contains(c.Log(), "interrupted: what was imported stays") {
		t.Errorf("the process has ended, and the command says %s", c.Log())
	}
	if got := files(t, dir); got != "lock secret stepboard.db" {
		t.Errorf("the folder has %s", got)
	}
	p = testenv.ServeFolder(t, dir)
	c = importing(t, dir)
	p.Kill()
	testenv.Eventually(t, "the command has ended", c.Ended)
	if !strings.Contains(c.Log(), "the serving process has ended, or was killed") {
		t.Errorf("the process was killed, and the command says %s", c.Log())
	}
	onFolder(t, dir, "import", "friends", file(t, "1 2\n3 4\n")).Succeeds(t) // beside a stale socket
	p = testenv.ServeFolder(t, dir)
	onFolder(t, dir, "import", "friends", file(t, "1 2\n")).Succeeds(t)
	p.Stop()
}

// A folder whose path is too long for a socket has its socket elsewhere.
func TestADataFolderWithALongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30), "data")
	elsewhere := func() string {
		t.Helper()
		onFolder(t, dir, "import", "friends", file(t, "1 2\n")).Succeeds(t)
		path := strings.TrimSpace(string(testenv.Must(os.ReadFile(filepath.Join(dir, "commands", "socket.path")))))
		if info := testenv.Must(os.Stat(path)); info.Mode() != fs.ModeSocket|0o600 {
			t.Errorf("the socket has mode %v", info.Mode())
		}
		if info := testenv.Must(os.Stat(filepath.Dir(path))); info.Mode().Perm() != 0o700 {
			t.Errorf("its folder has mode %v", info.Mode())
		}
		return path
	}
	p := testenv.ServeFolder(t, dir)
	stale := elsewhere()
	p.Kill()
	onFolder(t, dir, "import", "friends", file(t, "1 2\n")).Succeeds(t)
	p = testenv.ServeFolder(t, dir)
	last := elsewhere()
	p.Stop()
	for _, path := range []string{stale, last} {
		if _, err := os.Stat(filepath.Dir(path)); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}
