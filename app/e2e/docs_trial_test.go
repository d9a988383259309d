package e2e_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// trials are the documents that readers type along with.
var trials = []string{"README.md", "docs/guide.md"}

// trialCommands returns the commands of a document as they are shown.
func trialCommands(t *testing.T, doc string) []docCommand {
	t.Helper()
	commands := commandsOf(doc, string(testenv.Must(os.ReadFile("../../"+doc))), make(map[string]bool))
	if len(commands) < 10 {
		t.Fatalf("%s has only %d commands", doc, len(commands))
	}
	return commands
}

// A command with a date works only for some days, and one with a cursor only on
// the installation that made the cursor. So readers work out the former and copy
// the latter from an answer.
func TestExamplesDoNotExpire(t *testing.T) {
	t.Parallel()
	for _, doc := range trials {
		for _, c := range trialCommands(t, doc) {
			if date := isoDate.FindString(c.text); date != "" {
				t.Errorf("%s:%d: the date %s has passed when somebody types this: %s", doc, c.number, date, c.text)
			}
			if _, cursor, sent := strings.Cut(c.text, "cursor="); sent && !strings.HasPrefix(cursor, "$") {
				t.Errorf("%s:%d: no other installation accepts this cursor: %s", doc, c.number, c.text)
			}
		}
	}
}

// If another process holds the port, the shown command says so on the terminal
// and ends. Otherwise that process, perhaps a demo, answers the next calls and
// nobody knows why they fail.
func TestShownServiceNamesAnAddressInUse(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	taken := testenv.Must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer func() { _ = taken.Close() }()
	cfg := testenv.RealConfig(t).Config
	folder := t.TempDir()
	if err := os.Symlink(testenv.Binary(), filepath.Join(folder, "stepboard")); err != nil {
		t.Fatal(err)
	}
	shell := testenv.StartShell(t, folder, append(ownEnvironment(),
		"STEPBOARD_HTTP__ADDR="+taken.Addr().String(), "STEPBOARD_AUTH__HS256_SECRET="+strings.Repeat("s", 32),
		"STEPBOARD_REDIS__ADDRS="+testenv.StartRedis(t).Addr(), "STEPBOARD_POSTGRES__DSN="+cfg.Postgres.DSN,
		"STEPBOARD_POSTGRES__AUTO_MIGRATE=true"))
	for _, doc := range trials {
		shown := 0
		for _, c := range trialCommands(t, doc) {
			if !strings.Contains(c.text, "stepboard serve ") {
				continue
			}
			shown++
			before := len(shell.Stderr())
			text := strings.ReplaceAll(c.text, "/tmp/", folder+"/")
			if strings.Contains(text, "--data ") { // the servers of the other document are none of its
				text = "env -u STEPBOARD_REDIS__ADDRS -u STEPBOARD_POSTGRES__DSN -u STEPBOARD_POSTGRES__AUTO_MIGRATE " + text
			}
			shell.Do(text)
			_, status := shell.Do("wait $!")
			said := shell.Stderr()[before:]
			if status != 1 || !strings.Contains(said, "http.addr") || !strings.Contains(said, taken.Addr().String()) || !strings.Contains(said, "address already in use") {
				t.Errorf("%s:%d: %s: status %d, and the terminal shows only %q", doc, c.number, c.text, status, said)
			}
		}
		if shown != 1 {
			t.Errorf("%s starts %d services", doc, shown)
		}
	}
}
