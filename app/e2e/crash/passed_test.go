package crash_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// passing is a service on which ann wants to know who has passed her.
type passing struct {
	*outcomesRun
}

// upload uploads scores of today, by user.
func (w *passing) upload(p *testenv.Process, scores map[string]int) {
	w.t.Helper()
	var list []string
	for user, score := range scores {
		list = append(list, fmt.Sprintf(`{"user_id":%q,"date":%q,"score":%d}`, user, harness.Today(), score))
	}
	w.service(p, "POST", "/v1/boards/steps/scores/batch", `{"scores":[`+strings.Join(list, ",")+`]}`)
}

// choose lets ann be ahead of her friends, and want to know, where it is noon.
func (w *passing) choose(p *testenv.Process) {
	w.t.Helper()
	w.upload(p, map[string]int{"ann": 1000, "ben": 500, "cho": 400})
	w.service(p, "PUT", "/v1/users/ann/friends", `{"friend_ids":["ben","cho"]}`)
	zone := fmt.Sprintf("Etc/GMT%+d", time.Now().UTC().Hour()-12) // Etc/GMT+5 is UTC-5
	w.service(p, "PUT", "/v1/me/push?user_id=ann", fmt.Sprintf(`{"tell":["passed"],"time_zone":%q}`, zone))
	w.looked(p)
}

// looked waits until a look has begun that sees what was done before.
func (w *passing) looked(p *testenv.Process) {
	w.t.Helper()
	looks := func() int { return strings.Count(p.Log(), `"job":"passed"`) }
	before := looks()
	testenv.Eventually(w.t, "two looks have ended", func() bool { return looks() >= before+2 })
}

// rest lets a further friend pass ann, and expects that she was told so often in all.
func (w *passing) rest(p *testenv.Process, want int) {
	w.t.Helper()
	w.looked(p)
	w.upload(p, map[string]int{"cho": 3000})
	w.looked(p)
	told := func() (n int) {
		w.target.mu.Lock()
		defer w.target.mu.Unlock()
		for body, ids := range w.target.ids {
			if strings.Contains(body, `"rank.passed"`) {
				n += len(ids)
			}
		}
		return n
	}
	testenv.Eventually(w.t, "the notice arrives", func() bool { return told() >= want })
	p.Stop()
	if n := told(); n != want {
		w.t.Errorf("she was told %d times, want %d", n, want)
	}
}

// passedSteps are the steps of telling, and how often a user is told who is killed there: what was
// remembered and not written is lost.
var passedSteps = map[string]int{"passed.compared": 1, "passed.remembered": 0, "passed.noticed": 0, "passed.written": 1}

// A process is killed at each step of telling somebody who has passed. Nobody is told twice, nor of
// the next one within the hour: not even by a data folder's process, which forgets what it has seen.
func TestSoakPassedKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "passed")) {
		want, known := passedSteps[step]
		if !known {
			t.Errorf("what is told after %s?", step)
		}
		newRun := func(t *testing.T) (w *passing, flags []string) {
			t.Parallel()
			w = &passing{&outcomesRun{t: t, target: newTarget(t)}}
			w.target.calmDown()
			return w, append(w.target.flags(), "--passed.every=1s")
		}
		t.Run("real/"+step, func(t *testing.T) {
			w, flags := newRun(t)
			env := harness.Real(t)
			p := testenv.Serve(t, env.Config, flags...)
			w.choose(p)
			p.Stop()
			p = testenv.ServeUntil(t, step, env.Config, flags...)
			w.upload(p, map[string]int{"ben": 2000})
			p.Killed()
			env.Config.Clock.Offset = time.Minute // what the dead process has taken is free by then
			w.rest(testenv.Serve(t, env.Config, flags...), want)
		})
		if step != "passed.noticed" && step != "passed.written" {
			continue // the first look comes to it
		}
		t.Run("local/"+step, func(t *testing.T) {
			w, flags := newRun(t)
			flags = append(flags, "--auth.hs256_secret="+harness.Secret)
			dir := t.TempDir()
			p := testenv.ServeFolderUntil(t, step, dir, flags...)
			w.choose(p.Process)
			w.upload(p.Process, map[string]int{"ben": 2000})
			p.Killed()
			w.rest(testenv.ServeFolder(t, dir, append(flags, "--clock.offset=1m")...).Process, want)
		})
	}
}
