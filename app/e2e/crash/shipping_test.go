package crash_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// A process that ships its folder, a new one or a restored one, is killed at each step of that. The next one goes on,
// in the same generation unless it had only begun one. Then the disk is lost: what is restored has everything that was
// acknowledged a second before.
func TestShippingKilledAtEachStep(t *testing.T) {
	t.Parallel()
	const users, restored = 4, " after a restore"
	steps := testenv.Failpoints(t, "shipping")
	for _, step := range []string{"shipping.claimed", "shipping.spooled", "shipping.collected", "shipping.shipped"} {
		steps = append(steps, step+restored)
	}
	for _, name := range testenv.Forms(t, 0, steps) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step, isRestored := strings.CutSuffix(name, restored)
			dir, to := filepath.Join(t.TempDir(), "data"), "file://"+filepath.Join(t.TempDir(), "copies")
			settings := []string{
				"--auth.hs256_secret=" + harness.Secret, "--boards=[{" + harness.Steps + "}]", "--backup.to=" + to, "--backup.interval=100ms",
				"--limits.user_per_minute=0", "--limits.address_per_minute=0",
			}
			later := settings
			restore := func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				stdout, stderr, status := testenv.Run(t, "restore", "--from="+to, "--data="+dir)
				harness.Outcome{Status: status, Stdout: stdout, Stderr: stderr}.Succeeds(t)
			}
			if step == "shipping.joined" || isRestored { // that needs an hour that is over
				p := testenv.ServeFolder(t, dir, settings...)
				u := harness.StartUploads(t, http.StatusOK, p.URL, harness.Today(), users)
				u.AwaitMore(t, 20)
				u.End()
				awaitShipped(t, p)
				p.Stop()
				if isRestored {
					restore()
				} else {
					later = append(later, "--clock.offset=1h")
				}
			}
			p := testenv.ServeFolderUntil(t, step, dir, later...)
			var u *harness.Uploads
			if p.URL != "" {
				u = harness.StartUploads(t, http.StatusOK, p.URL, harness.Today(), users)
			}
			p.Killed()
			if u != nil {
				u.End()
			}
			next := testenv.ServeFolder(t, dir, later...)
			v := harness.StartUploads(t, http.StatusOK, next.URL, harness.Today(), users)
			v.AwaitMore(t, 20)
			v.End()
			awaitShipped(t, next)
			generation, _ := harness.Metric(t, next.Process, "stepboard_backup_generation")
			want := 1.0
			if isRestored {
				want++
			}
			if step == "shipping.claimed" || step == "shipping.spooled" {
				want++
			}
			if generation != want {
				t.Errorf("it is generation %v, not %v: %s", generation, want, next.Log())
			}
			next.Kill()
			restore()
			last := testenv.ServeFolder(t, dir, append(later, "--backup.to=")...)
			for n := range users {
				user := testenv.ID(n + 1)
				want := v.Accepted(user)
				if u != nil {
					want = max(want, u.Accepted(user))
				}
				var me struct{ Score int64 }
				text := harness.Call(t, last.Process, harness.Token(t, user, ""), "GET", "/v1/boards/steps/me?date="+v.Date, "", http.StatusOK)
				if err := json.Unmarshal([]byte(text), &me); err != nil || me.Score < want {
					t.Errorf("user %s has %s, and %d was acknowledged", user, text, want)
				}
			}
		})
	}
}

// awaitShipped waits until everything is shipped that was committed before the call.
func awaitShipped(t *testing.T, p *testenv.Command) {
	t.Helper()
	began := time.Now()
	testenv.Eventually(t, "everything is shipped", func() bool {
		whole, _ := harness.Metric(t, p.Process, "stepboard_backup_whole")
		behind, _ := harness.Metric(t, p.Process, "stepboard_backup_behind_seconds")
		return whole == 1 && time.Since(began).Seconds() > behind
	})
}
