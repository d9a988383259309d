package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/backups"
	"stepboard/internal/backups/backupstest"
	"stepboard/internal/testenv"
)

// copyTarget is a target of copies, and how a command reaches it.
type copyTarget struct {
	backups.Target
	address string
	flags   []string
}

// copyTargets returns an empty target of each kind.
func copyTargets(t *testing.T) map[string]copyTarget {
	t.Helper()
	s3 := backupstest.NewS3(t)
	o := s3.Options("steps")
	folder := "file://" + filepath.Join(t.TempDir(), "copies")
	return map[string]copyTarget{
		"S3": {s3.Target(t, "steps"), o.To, []string{
			"--backup.endpoint=" + o.Endpoint, "--backup.region=" + o.Region, "--backup.access_key=" + o.AccessKey, "--backup.secret_key=" + o.SecretKey,
		}},
		"folder": {testenv.Must(backups.Open(config.Backup{To: folder})), folder, nil},
	}
}

// on runs a command on a data folder with the target's keys.
func (c copyTarget) on(t *testing.T, dir string, args ...string) harness.Outcome {
	t.Helper()
	return onFolder(t, dir, append(args, c.flags...)...)
}

// began is the time of the first state of copies.
var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// shippedHistory is a data folder with successive backups of its database.
type shippedHistory struct {
	dir    string
	states [][]byte
	key    string // of an upload address of user 11, which is revoked before the last state
}

// newShippedHistory makes a folder in which user 9 gets the friends 10 and 11, then 12, and then 10 is erased
// and the upload address of 11 revoked. Another user, 13, who befriends 9 with 12, is erased after the
// last state.
func newShippedHistory(t *testing.T) (h shippedHistory) {
	t.Helper()
	h.dir = t.TempDir()
	state := func() { h.states = append(h.states, testenv.Must(os.ReadFile(backUp(t, h.dir)))) }
	p := testenv.ServeFolder(t, h.dir)
	onFolder(t, h.dir, "import", "friends", file(t, "9 10\n9 11\n9 13\n")).Succeeds(t)
	added := strings.Fields(onFolder(t, h.dir, "upload-address", "add", "--user=11").Succeeds(t))
	h.key = strings.TrimPrefix(added[1], "/v1/in/")
	state()
	onFolder(t, h.dir, "import", "friends", file(t, "9 12\n")).Succeeds(t)
	state()
	erase(t, h.dir, p, "10")
	onFolder(t, h.dir, "upload-address", "revoke", added[0], "--user=11").Succeeds(t)
	state()
	erase(t, h.dir, p, "13")
	p.Stop()
	return h
}

// shipTo writes the history to a target, as the first generation with a state a minute, since began.
func (h shippedHistory) shipTo(t *testing.T, target backups.Target) {
	t.Helper()
	c := backupstest.NewChain(t, target, 1, 4096, began, h.states[0])
	c.Full()
	for i, state := range h.states[1:] {
		c.Commit(began.Add(time.Duration(i+1)*time.Minute), state)
	}
}

// expectFriends expects friends of user 9 in a folder, and that the upload address of user 11 works or
// was revoked.
func (h shippedHistory) expectFriends(t *testing.T, dir string, address int, want ...string) {
	t.Helper()
	p := testenv.ServeFolder(t, dir)
	defer p.Stop()
	text := friendsOn(t, dir, p, "9")
	for _, user := range []string{"10", "11", "12", "13"} {
		if has := strings.Contains(text, `"`+user+`"`); has != strings.Contains(strings.Join(want, " "), user) {
			t.Errorf("the friends are %s, not %v", text, want)
		}
	}
	if status := post(t, p.URL+"/v1/in/"+h.key, "steps=5&date="+harness.Today()); status != address {
		t.Errorf("the upload address is answered with %d, not %d", status, address)
	}
}

// post sends a form and returns the status of the answer.
func post(t *testing.T, url, form string) int {
	t.Helper()
	r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(form)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// A database is made of its copies elsewhere, the newest or that of an earlier moment. Nobody comes back
// who was erased later, and no upload address that was revoked, as far as the newest copy or the folder's
// own database has it.
func TestRestoreFromCopies(t *testing.T) {
	t.Parallel()
	h := newShippedHistory(t)
	minute := func(n int) string { return began.Add(time.Duration(n) * time.Minute).Format(time.RFC3339) }
	for name, target := range copyTargets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			target.on(t, dir, "restore", "--from="+target.address).Fails(t, 1, target.address+" has no complete copy of a database")
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a restore of nothing leaves a folder, %v", err)
			}
			h.shipTo(t, target)

			restore := func(dir string, erased int, at, as string, more ...string) {
				t.Helper()
				args := append([]string{"restore", "--from=" + target.address}, more...)
				if at != "" {
					args = append(args, "--at="+at)
				}
				printed := target.on(t, dir, args...).Succeeds(t)
				want := fmt.Sprintf("%s was restored to data folder %s; %d users are erased again\nIt is the database as of %s, of generation 1.\n", target.address, dir, erased, as)
				if !strings.HasPrefix(printed, want) {
					t.Errorf("it prints %s, not %s", printed, want)
				}
				if has := strings.Contains(printed, "There is no "+filepath.Join(dir, "secret")); has == strings.Contains(files(t, dir), "secret") {
					t.Errorf("of the secret it prints %s", printed)
				}
			}
			restore(dir, 0, "", minute(2))
			h.expectFriends(t, dir, http.StatusUnauthorized, "11", "12", "13")
			at := filepath.Join(t.TempDir(), "at")
			restore(at, 1, "2026-11-20T20:01:30+08:00", minute(1))
			h.expectFriends(t, at, http.StatusUnauthorized, "11", "12", "13")
			restore(at, 1, minute(0), minute(0))
			h.expectFriends(t, at, http.StatusUnauthorized, "11", "13")

			// The folder's own database knows of an erasure that was not copied any more.
			own := filepath.Join(t.TempDir(), "own")
			if err := os.CopyFS(own, os.DirFS(h.dir)); err != nil {
				t.Fatal(err)
			}
			restore(own, 2, minute(0), minute(0))
			h.expectFriends(t, own, http.StatusUnauthorized, "11")
			restore(own, 1, "", minute(2))
			h.expectFriends(t, own, http.StatusUnauthorized, "11", "12")
			target.on(t, own, "restore", "--from="+target.address, "--at=2026-11-20T11:59:59Z").Fails(t, 1, "later: of 2026-11-20T12:00:00")
			h.expectFriends(t, own, http.StatusUnauthorized, "11", "12")
		})
	}
}

// If the newest copy can't be read, or is another service's, nobody knows who was erased since.
func TestRestoreWithoutTheNewestCopy(t *testing.T) {
	t.Parallel()
	h := newShippedHistory(t)
	other := t.TempDir()
	testenv.ServeFolder(t, other).Stop()
	another := testenv.Must(os.ReadFile(backUp(t, other)))
	at := "--at=" + began.Format(time.RFC3339)
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, c copyTarget)
		want  string
	}{
		"damaged": {func(t *testing.T, c copyTarget) {
			path := filepath.Join(strings.TrimPrefix(c.address, "file://"), backups.Place{Number: 1, ID: backupstest.ID}.Each(3))
			text := testenv.Must(os.ReadFile(path))
			text[len(text)/2]++
			if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, text, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, "can't be read: "},
		"another service's": {func(t *testing.T, c copyTarget) {
			backupstest.NewChain(t, c, 2, 4096, began.Add(time.Hour), another).Full()
		}, "is another service's, or a new one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, dir := copyTargets(t)["folder"], filepath.Join(t.TempDir(), "data")
			h.shipTo(t, target)
			tt.spoil(t, target)
			from := "--from=" + target.address
			target.on(t, dir, "restore", from, at).Fails(t, 1, "nobody knows who was erased since 2026-11-20T12:00:00Z, as the newest copy of "+target.address, tt.want, "--no-erasures")
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a restore that was refused leaves a folder, %v", err)
			}
			target.on(t, dir, "restore", from, at, "--no-erasures").Succeeds(t)
			h.expectFriends(t, dir, http.StatusOK, "10", "11", "13")
		})
	}
}

// What does not name copies is refused, and the folder is as it was.
func TestRestoresThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testenv.ServeFolder(t, dir).Stop()
	before := testenv.Must(os.ReadFile(filepath.Join(dir, "stepboard.db")))
	s3 := backupstest.NewS3(t)
	keys := []string{"--backup.endpoint=" + s3.Options("").Endpoint, "--backup.region=a", "--backup.access_key=a", "--backup.secret_key=hunter22"}
	for _, tt := range []struct {
		status int
		want   string
		args   []string
	}{
		{2, "name a file, or with --from where the database was copied to", nil},
		{2, "name a file, or with --from", []string{"file", "--from=file:///nix"}},
		{2, "--at is for --from", []string{"file", "--at=2026-11-20T12:00:00Z"}},
		{2, "is no time with its zone", []string{"--from=file:///nix", "--at=2026-11-20"}},
		{1, "--from: ", []string{"--from=/nix"}},
		{1, "--from: ", []string{"--from=s3://key:hunter22@bucket/steps"}},
		{1, "/nix/stepboard", []string{"--from=file:///nix/stepboard"}},
		{1, "nix", append(keys, "--from=s3://nix/steps")},
	} {
		onFolder(t, dir, append([]string{"restore"}, tt.args...)...).Fails(t, tt.status, tt.want)
	}
	if got := files(t, dir); got != "lock secret stepboard.db" || !bytes.Equal(testenv.Must(os.ReadFile(filepath.Join(dir, "stepboard.db"))), before) {
		t.Errorf("the folder has %s, or another database", got)
	}
}

// A restore that is interrupted leaves the folder as it was.
func TestAnInterruptedRestore(t *testing.T) {
	t.Parallel()
	s3 := backupstest.NewS3(t)
	o := s3.Options("steps")
	dir := filepath.Join(t.TempDir(), "data")
	defer s3.Hold()()
	c := testenv.Start(t, "restore", "--from="+o.To, "--data="+dir,
		"--backup.endpoint="+o.Endpoint, "--backup.region="+o.Region, "--backup.access_key="+o.AccessKey, "--backup.secret_key="+o.SecretKey)
	testenv.Eventually(t, "it has asked the target", func() bool { return s3.Requests(http.MethodGet) > 0 })
	if status := c.Interrupt(); status != 1 || !strings.Contains(c.Log(), "interrupted: the data folder is as it was before") {
		t.Errorf("interrupted: status %d, %s", status, c.Log())
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it leaves a folder, %v", err)
	}
}

// What a target has is listed, with what is missing, by backups and by a check of the settings.
func TestCopiesAreListed(t *testing.T) {
	t.Parallel()
	h := newShippedHistory(t)
	for name, target := range copyTargets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			check := func(want string) {
				t.Helper()
				printed := target.on(t, dir, "config", "check", "--connect", "--backup.to="+target.address).Succeeds(t)
				if !strings.Contains(printed, want) {
					t.Errorf("it prints %s, not %s", printed, want)
				}
			}
			check("backup.to answers, and has no full copy yet")
			if printed := target.on(t, dir, "backups", "--from="+target.address).Succeeds(t); printed != target.address+" has no copies\n" {
				t.Errorf("it prints %s", printed)
			}
			h.shipTo(t, target)
			backupstest.NewChain(t, target, 2, 4096, began.Add(time.Hour), h.states[0])
			check("the settings are good; of the copies in backup.to the database can be restored as of 2026-11-20T12:02:00Z")
			lines := strings.Split(target.on(t, dir, "backups", "--backup.to="+target.address).Succeeds(t), "\n")
			if len(lines) != 5 || !strings.HasPrefix(lines[1], "1\t2026-11-20T12:00:00Z\ttest\t2026-11-20T12:00:00Z\t2026-11-20T12:02:00Z\t1\t") ||
				!strings.HasPrefix(lines[2], "2\t2026-11-20T13:00:00Z\ttest\t-\t-\t0\t1\t") || lines[3] != "generation 2 lacks "+(backups.Place{Number: 2, ID: backupstest.ID}).Full(1) {
				t.Errorf("it prints %s", strings.Join(lines, "\n"))
			}
			target.on(t, dir, "restore", "--from="+target.address).Fails(t, 1, "nobody knows who was erased since generation 2 began, which has no full copy yet", "--no-erasures")
			printed := target.on(t, dir, "restore", "--from="+target.address, "--no-erasures").Succeeds(t)
			if !strings.Contains(printed, "Generation 2 has no full copy yet") {
				t.Errorf("it prints %s", printed)
			}
		})
	}
	onFolder(t, t.TempDir(), "backups").Fails(t, 1, "nothing is copied anywhere")
}

// A restore can be tried as docs/operations.md says.
func TestPractisedRestore(t *testing.T) {
	t.Parallel()
	h := newShippedHistory(t)
	target, dir := copyTargets(t)["S3"], filepath.Join(t.TempDir(), "practice")
	h.shipTo(t, target)
	text := string(testenv.Must(os.ReadFile("../../docs/operations.md")))
	ran := ""
	for _, block := range indented(text) {
		if !strings.HasPrefix(block.lines[0], "stepboard backups --from s3://") {
			continue
		}
		for _, line := range block.lines {
			if line == "" {
				continue
			}
			line = strings.NewReplacer("s3://steps-backup/stepboard", target.address, "/tmp/practice", dir).Replace(line)
			words := strings.Fields(line)[1:]
			ran += words[0] + " "
			if words[0] == "serve" {
				if line != "stepboard serve --data "+dir+" --http.addr 127.0.0.1:8090" { // which may be in use
					t.Errorf("the service is started by %s", line)
				}
				h.expectFriends(t, dir, http.StatusUnauthorized, "11", "12", "13")
				continue
			}
			if stdout, stderr, status := testenv.Run(t, append(words, target.flags...)...); status != 0 {
				t.Errorf("%s: status %d, %s%s", line, status, stdout, stderr)
			}
		}
	}
	if ran != "backups restore serve " {
		t.Errorf("the document shows %s", ran)
	}
}

// A service copies its folder while it is served. What it has acknowledged is there once the copies are not
// behind, also if the process is killed and the disk fails then, and restarts go on in the same generation.
func TestADiskThatFails(t *testing.T) {
	t.Parallel()
	for name, target := range copyTargets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			settings := append([]string{withSecret, "--backup.to=" + target.address, "--backup.interval=100ms"}, target.flags...)
			begin := func() *testenv.Command { return testenv.ServeFolder(t, dir, settings...) }
			befriend := func(pair string) {
				t.Helper()
				onFolder(t, dir, "import", "friends", file(t, pair+"\n")).Succeeds(t)
			}
			// copied waits until everything that was committed up to now is copied.
			copied := func(p *testenv.Command) {
				t.Helper()
				at := time.Now()
				testenv.Eventually(t, "everything is copied", func() bool {
					since := time.Since(at) // before the process says how far it is behind
					_, text := harness.Get(t, p.Process, "/metrics")
					behind := regexp.MustCompile(`(?m)^stepboard_backup_behind_seconds (\S+)$`).FindStringSubmatch(text)
					seconds := testenv.Must(strconv.ParseFloat(behind[1], 64))
					return strings.Contains(text, "\nstepboard_backup_whole 1\n") && seconds < since.Seconds()
				})
			}
			p := begin()
			befriend("9 10")
			copied(p)
			p.Stop()
			p = begin()
			befriend("9 11")
			copied(p)
			p.Kill()
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			printed := target.on(t, dir, "restore", "--from="+target.address).Succeeds(t)
			if !strings.Contains(printed, ", of generation 1.\n") {
				t.Errorf("it prints %s", printed)
			}
			p = testenv.ServeFolder(t, dir, settings...)
			defer p.Stop()
			text := harness.Call(t, p.Process, harness.Token(t, "9", ""), "GET", "/v1/friends", "", http.StatusOK)
			if !strings.Contains(text, `"10"`) || !strings.Contains(text, `"11"`) {
				t.Errorf("the friends are %s", text)
			}
			testenv.Eventually(t, "the restored folder begins a generation", func() bool {
				return strings.Contains(target.on(t, t.TempDir(), "backups", "--from="+target.address).Succeeds(t), "\n2\t")
			})
		})
	}
}
