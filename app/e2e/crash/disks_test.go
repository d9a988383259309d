package crash_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// disks is a service on a data folder whose disk is lost again and again, and what must be left of it.
type disks struct {
	t        *testing.T
	dir, to  string
	settings []string
	p        *testenv.Command

	mu sync.Mutex
	// accepted are the totals that each user was promised, and when. Later totals are larger.
	accepted map[models.UserID][]promise
	// fine is when the service was last asked whether it copies, and said so; zero before.
	fine time.Time
	stop chan struct{}
	wg   sync.WaitGroup

	restored string // what the last restore has said
}

type promise struct {
	at    time.Time
	total int64
}

const (
	diskInterval = 200 * time.Millisecond
	// diskLate is how old what was promised may be that is lost, at a moment at which the service says that it copies:
	// what it says may be a second old.
	diskLate = diskInterval + 500*time.Millisecond + time.Second
)

func (d *disks) serve() { d.p = testenv.ServeFolder(d.t, d.dir, d.settings...) }

// load uploads from a round's first total on, and asks whether the service copies, until end.
func (d *disks) load(round int64) {
	d.stop = make(chan struct{})
	for n := range 4 {
		user := testenv.ID(n + 1)
		bearer, total := harness.Token(d.t, user, ""), round*1000
		d.each(func(client *http.Client) bool {
			total++
			status, _, err := harness.Request(d.t.Context(), client, bearer, "POST", d.p.URL+"/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, harness.Today(), total))
			if err != nil || status != http.StatusOK {
				return err == nil
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			d.accepted[user] = append(d.accepted[user], promise{time.Now(), total})
			return true
		})
	}
	d.each(func(client *http.Client) bool {
		asked := time.Now()
		copies, err := d.copies(client, d.p)
		if copies {
			d.mu.Lock()
			d.fine = asked
			d.mu.Unlock()
		}
		return err == nil
	})
}

// copies asks a service whether it copies.
func (d *disks) copies(client *http.Client, p *testenv.Command) (bool, error) {
	status, text, err := harness.Request(d.t.Context(), client, "", "GET", p.URL+"/readyz", "")
	return err == nil && status == http.StatusOK && !strings.Contains(text, `"backup"`), err
}

func (d *disks) each(call func(*http.Client) (more bool)) {
	d.wg.Go(func() {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for call(client) {
			select {
			case <-d.stop:
				return
			case <-time.After(harness.Pace):
			}
		}
	})
}

// lose kills the service, and loses the folder.
func (d *disks) lose() {
	d.p.Kill()
	close(d.stop)
	d.wg.Wait()
	if err := os.RemoveAll(d.dir); err != nil {
		d.t.Fatal(err)
	}
}

// restore restores the folder, and returns false if nothing had to be there.
func (d *disks) restore() bool {
	stdout, stderr, status := testenv.Run(d.t, "restore", "--from="+d.to, "--data="+d.dir, "--no-erasures")
	if status != 0 && !d.fine.IsZero() {
		d.t.Fatalf("the service copied at %v, and nothing can be restored: %s", d.fine, stderr)
	}
	d.restored = stdout
	return status == 0
}

// check compares what is there with what was promised for long enough when the service last said that it copies.
func (d *disks) check() {
	for user, list := range maps.All(d.accepted) {
		want := int64(0)
		for _, p := range list {
			if !p.at.After(d.fine.Add(-diskLate)) {
				want = p.total
			}
		}
		var me struct{ Score int64 }
		text := harness.Call(d.t, d.p.Process, harness.Token(d.t, user, ""), "GET", "/v1/boards/steps/me?date="+harness.Today(), "", http.StatusOK)
		if err := json.Unmarshal([]byte(text), &me); err != nil || me.Score < want {
			d.t.Fatalf("user %s has %s, and %d was promised by %v, %v before the service said that it copies; %s", user, text, want, d.fine.Add(-diskLate), diskLate, d.restored)
		}
	}
}

// await waits until a service says that it copies, or that it does not.
func (d *disks) await(p *testenv.Command, copies bool) {
	testenv.Eventually(d.t, fmt.Sprintf("it copies: %v", copies), func() bool {
		got, err := d.copies(http.DefaultClient, p)
		return err == nil && got == copies
	})
}

// awaitAccepted waits until so many more totals are accepted.
func (d *disks) awaitAccepted(more int) {
	count := func() (n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, list := range d.accepted {
			n += len(list)
		}
		return n
	}
	before := count()
	testenv.Eventually(d.t, "totals are accepted", func() bool { return count() >= before+more })
}

// trouble does something to the target while the service runs.
func (d *disks) trouble(kind int) {
	aside := d.to[len("file://"):] + ".aside"
	path := d.to[len("file://"):]
	move := func(from, to string) {
		if err := os.Rename(from, to); err != nil {
			d.t.Fatal(err)
		}
	}
	switch kind {
	case 0: // the disk is taken away, and comes back
		move(path, aside)
		d.await(d.p, false)
		move(aside, path)
	case 1: // it leaves the folder below, in which another service begins
		move(path, aside)
		other := testenv.ServeFolder(d.t, filepath.Join(d.t.TempDir(), "other"), d.settings...)
		d.await(other, true)
		other.Stop()
		d.await(d.p, false)
		if err := os.RemoveAll(path); err != nil {
			d.t.Fatal(err)
		}
		move(aside, path)
	case 2: // it is emptied on purpose
		if err := os.RemoveAll(path); err != nil {
			d.t.Fatal(err)
		}
		d.await(d.p, false)
		d.mu.Lock()
		d.fine = time.Time{}
		d.mu.Unlock()
		if err := os.Mkdir(path, 0o700); err != nil {
			d.t.Fatal(err)
		}
		if stdout, stderr, status := testenv.Run(d.t, "backups", "begin", d.to); status != 0 {
			d.t.Fatal(stdout, stderr)
		}
		d.await(d.p, true)
	}
}

// Rounds of load, in which the disk of the data folder is lost at any moment from the first second on, and what
// is copied to is taken away, exchanged or emptied, also at a start. As long as the service says that it copies,
// nothing is lost that was acknowledged an interval and a half before.
func TestDisksAreLost(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rng := randomly(t)
	d := &disks{t: t, dir: filepath.Join(root, "data"), to: "file://" + filepath.Join(root, "copies"), accepted: make(map[models.UserID][]promise)}
	d.settings = []string{
		"--auth.hs256_secret=" + harness.Secret, "--boards=[{" + harness.Steps + "}]", "--backup.to=" + d.to, "--backup.interval=" + diskInterval.String(),
		"--limits.user_per_minute=0", "--limits.address_per_minute=0",
	}
	for round := range int64(testenv.Rounds(5, 90)) {
		kind := rng.IntN(8)
		missing := round > 0 && kind == 3
		if missing { // at the start
			if err := os.Rename(filepath.Join(root, "copies"), filepath.Join(root, "aside")); err != nil {
				t.Fatal(err)
			}
		}
		d.serve()
		if round > 0 {
			d.check()
		}
		d.load(round + 1)
		if kind < 3 && round > 0 {
			d.await(d.p, true)
			d.trouble(kind)
		}
		d.awaitAccepted(rng.IntN(2000))
		if missing {
			if copies, _ := d.copies(http.DefaultClient, d.p); copies {
				t.Error("it copies to a folder that is not there")
			}
		}
		d.lose()
		if missing {
			if err := os.Rename(filepath.Join(root, "aside"), filepath.Join(root, "copies")); err != nil {
				t.Fatal(err)
			}
		}
		if !d.restore() {
			clear(d.accepted)
		}
	}
	d.serve()
	d.check()
	if d.fine.IsZero() {
		t.Error("it never said that it copies")
	}
}
