package crash_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/backups/backupstest"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// disks is a service on a data folder whose disk is lost again and again, and what must be left of it.
type disks struct {
	t       *testing.T
	dir, to string
	// target are the settings of what is copied to, and settings all.
	target, settings []string
	p                *testenv.Command
	// troubles happen to the target while the service runs, and missing to one that is not there at a start, until the
	// returned function is called.
	troubles []func()
	missing  func() (back func())

	mu sync.Mutex
	// accepted are the totals that each user was promised, and when. Later totals are larger.
	accepted map[models.UserID][]promise
	// fine is when the service was last asked whether it copies, and said so; zero before.
	fine time.Time
	// copied says that it ever said so.
	copied bool
	stop   chan struct{}
	wg     sync.WaitGroup

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
			d.fine, d.copied = asked, true
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
	stdout, stderr, status := testenv.Run(d.t, append([]string{"restore", "--from=" + d.to, "--data=" + d.dir, "--no-erasures"}, d.target...)...)
	if status != 0 && !d.fine.IsZero() {
		d.t.Fatalf("the service copied at %v, and nothing can be restored: %s", d.fine, stderr)
	}
	d.restored = stdout
	return status == 0
}

// check compares what is there with what was promised for long enough when the service last said that it copies. It forgets
// what was lost otherwise: a later answer does not speak of it.
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
		d.accepted[user] = slices.DeleteFunc(list, func(p promise) bool { return p.total > me.Score })
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

// newDisks returns a service on a data folder that copies to a target.
func newDisks(t *testing.T, to string, target ...string) *disks {
	t.Helper()
	d := &disks{
		t: t, dir: filepath.Join(t.TempDir(), "data"), to: to, target: target, accepted: make(map[models.UserID][]promise),
	}
	d.settings = append([]string{
		"--auth.hs256_secret=" + harness.Secret, "--boards=[{" + harness.Steps + "}]", "--backup.to=" + to, "--backup.interval=" + diskInterval.String(),
		"--limits.user_per_minute=0", "--limits.address_per_minute=0",
	}, target...)
	return d
}

// beginAnew says that copies begin anew at a target that somebody has emptied.
func (d *disks) beginAnew() {
	d.await(d.p, false)
	d.mu.Lock()
	d.fine = time.Time{}
	d.mu.Unlock()
	if stdout, stderr, status := testenv.Run(d.t, append([]string{"backups", "begin", d.to}, d.target...)...); status != 0 {
		d.t.Fatal(stdout, stderr)
	}
	d.await(d.p, true)
}

// rounds lets the disk be lost so often.
func (d *disks) rounds(n int) {
	rng := randomly(d.t)
	for round := range int64(n) {
		// The last kinds do nothing: mostly the target is there.
		kind := rng.IntN(len(d.troubles) + 4)
		missing, back := round > 0 && kind == len(d.troubles), func() {}
		if missing {
			back = d.missing()
		}
		d.serve()
		if round > 0 {
			d.check()
		}
		d.load(round + 1)
		if kind < len(d.troubles) && round > 0 {
			d.await(d.p, true)
			d.troubles[kind]()
		}
		d.awaitAccepted(rng.IntN(2000))
		if missing {
			if copies, _ := d.copies(http.DefaultClient, d.p); copies {
				d.t.Error("it copies to a target that is not there")
			}
		}
		d.lose()
		back()
		if !d.restore() {
			clear(d.accepted)
		}
	}
	d.serve()
	d.check()
	if !d.copied {
		d.t.Error("it never said that it copies")
	}
	d.p.Stop()
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// Rounds of load, in which the disk of the data folder is lost at any moment from the first second on, and the disk
// that is copied to is taken away, exchanged, emptied, full or slow, or not there at a start. As long as the service says that
// it copies, nothing is lost that was acknowledged an interval and a half before.
func TestDisksAreLost(t *testing.T) {
	onDisk(t, func(t *testing.T, disk string) {
		mount(t, disk, "-t", "tmpfs", "-o", "size=64m", "tmpfs")
		path, aside := filepath.Join(disk, "copies"), filepath.Join(disk, "aside")
		d := newDisks(t, "file://"+path)
		away := func() (back func()) {
			rename(t, path, aside)
			return func() { rename(t, aside, path) }
		}
		d.missing = away
		d.troubles = []func(){
			func() { // it is taken away, and comes back
				back := away()
				d.await(d.p, false)
				back()
			},
			func() { // it leaves the folder below, in which another service begins
				back := away()
				other := testenv.ServeFolder(t, filepath.Join(t.TempDir(), "other"), d.settings...)
				d.await(other, true)
				other.Stop()
				d.await(d.p, false)
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				back()
			},
			func() { // it is emptied on purpose
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
				d.await(d.p, false)
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
				d.beginAnew()
			},
			func() { // it is full
				makeRoom := fillDisk(t, disk)
				d.await(d.p, false)
				makeRoom()
			},
			func() { // each object takes longer than one may wait for it
				needStrace(t)
				fast := inject(t, d.p, "linkat", "delay_enter=2s")
				d.await(d.p, false)
				fast(syscall.SIGINT)
			},
		}
		d.rounds(testenv.Rounds(5, 90))
	})
}

// Likewise, with S3 that refuses, loses answers, answers late, or is emptied.
func TestSoakDisksAreLostBesideS3(t *testing.T) {
	t.Parallel()
	s3 := backupstest.NewS3(t)
	o := s3.Options("steps")
	d := newDisks(t, o.To, "--backup.endpoint="+o.Endpoint, "--backup.region="+o.Region, "--backup.access_key="+o.AccessKey, "--backup.secret_key="+o.SecretKey)
	d.missing = s3.Hold
	for _, faults := range []backupstest.Faults{{Refuse: 1 << 30}, {LoseAnswers: 20}, {ListsLate: true}} {
		d.troubles = append(d.troubles, func() {
			s3.Fail(faults)
			defer s3.Fail(backupstest.Faults{})
			if faults.Refuse > 0 {
				d.await(d.p, false)
			} else {
				d.awaitAccepted(500)
			}
		})
	}
	d.troubles = append(d.troubles, func() {
		release := s3.Hold()
		d.await(d.p, false)
		release()
	}, func() {
		target := s3.Target(t, "steps")
		for _, object := range testenv.Must(target.List(t.Context(), "")) {
			testenv.Must(0, target.Delete(t.Context(), object.Name))
		}
		d.beginAnew()
	})
	d.rounds(testenv.Rounds(4, 60))
}

// A process whose target hangs ends in an orderly way all the same, and keeps what it could not copy.
func TestATargetThatHangs(t *testing.T) {
	needStrace(t)
	t.Parallel()
	d := newDisks(t, "file://"+filepath.Join(t.TempDir(), "copies"))
	d.serve()
	d.await(d.p, true)
	goesOn := inject(t, d.p, "linkat", "delay_enter=600s") // longer than the test may take
	d.load(1)
	d.await(d.p, false)
	close(d.stop)
	d.wg.Wait()
	if err := syscall.Kill(d.p.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// Its thread that hangs stays until the system lets it go; all else has ended then.
	testenv.Eventually(t, "the process has ended", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.p.PID()))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	goesOn(syscall.SIGKILL) // it has not noticed that the thread is dead
	if status := d.p.Interrupt(); status != 0 {
		t.Errorf("status %d: %s", status, d.p.Log())
	}
	d.serve()
	d.await(d.p, true)
	d.p.Kill()
	if err := os.RemoveAll(d.dir); err != nil {
		t.Fatal(err)
	}
	d.fine = time.Now()
	d.restore()
	d.serve()
	d.check()
}
