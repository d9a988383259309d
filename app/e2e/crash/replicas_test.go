package crash_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// pair is two processes of one role, of which one may die at a time.
type pair struct {
	start func() *testenv.Process
	now   [2]*testenv.Process
	// dead are those that were killed, and when.
	dead map[*testenv.Process]time.Time
}

func newPair(start func() *testenv.Process) *pair {
	return &pair{start: start, now: [2]*testenv.Process{start(), start()}, dead: make(map[*testenv.Process]time.Time)}
}

// Two processes of each role on a cluster, where one after another dies at
// random: nothing that was acknowledged is missing in the end, every cold day
// is in the archive, and no job ran twice at once.
func TestSoakTwoOfEachRole(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env := testenv.RealOn(t, cluster.Use)
	env.Config.Auth.HS256Secret = harness.Secret
	boards := giftBoards(16)
	start := func(role string) func() *testenv.Process {
		flags := harness.Role(role, boards, "--jobs.archive_cron=@every 1s", "--log.level=debug")
		return func() *testenv.Process { return testenv.Serve(t, env.Config, flags...) }
	}
	api := newPair(start("api"))
	crews := []*pair{api, newPair(start("consumer")), newPair(start("jobs"))}
	jobs := crews[2]
	befriend(t, env, api.now[0].URL)
	harness.AwaitDrained(t, api.now[0])
	g, s, a := startGivers(t, api.now[0].URL), startSteppers(t, api.now[0].URL, brokenCalls), newColdDays(t, env)
	call := func(p *testenv.Process) { g.to(p.URL); s.to(p.URL) }
	kills, began := 0, time.Now()
	for ; kills < 6 || (os.Getenv("SOAK") != "" && time.Since(began) < 2*time.Minute); kills++ {
		a.write()
		g.progress(rand.Int64N(20))
		s.progress(rand.Int64N(200))
		// The first rounds kill one of each.
		crew, i := crews[kills%len(crews)], rand.IntN(2)
		if kills >= len(crews) {
			crew = crews[rand.IntN(len(crews))]
		}
		dying, other := crew.now[i], api.now[1-i]
		call(other)
		if crew == api && rand.IntN(2) == 0 { // with calls under way, which break off
			call(dying)
			g.progress(1)
		}
		crew.dead[dying] = time.Now()
		dying.Kill()
		call(other)
		g.progress(10)
		s.progress(50)
		crew.now[i] = crew.start()
	}
	g.end()
	s.end()
	t.Logf("%d kills in %v; %d increments, %d other calls, %d and %d of them refused or broken off",
		kills, time.Since(began), g.done.Load(), s.done.Load(), g.refused.Load(), s.refused.Load())
	harness.AwaitDrained(t, api.now[0])
	s.check(env)
	g.check(env.Stores, env.Keys)
	a.check()
	for _, crew := range crews {
		for _, p := range crew.now {
			if status := p.Stop(); status != 0 {
				t.Errorf("stopped with status %d: %s", status, p.Log())
			}
		}
	}
	jobs.checkJobs(t)
}

// jobRun is one run of a job by one process.
type jobRun struct {
	process    *testenv.Process
	begin, end time.Time
}

// checkJobs reads from the logs of job runners when which job ran.
func (p *pair) checkJobs(t *testing.T) {
	t.Helper()
	runs := make(map[string][]jobRun)
	for process := range maps.Keys(p.dead) {
		readRuns(t, process, p.dead[process], runs)
	}
	for _, process := range p.now {
		readRuns(t, process, time.Now(), runs)
	}
	for _, name := range []string{"archive", "friends", "reconcile", "roll", "purge"} {
		if len(runs[name]) < 2 {
			t.Errorf("%s ran %d times", name, len(runs[name]))
		}
	}
	for name, list := range runs {
		t.Logf("%s ran %d times", name, len(list))
		for i, one := range list {
			for _, two := range list[:i] {
				if one.begin.Before(two.end) && two.begin.Before(one.end) {
					t.Errorf("%s ran twice at once: %v to %v and %v to %v", name, one.begin, one.end, two.begin, two.end)
				}
			}
		}
	}
}

// readRuns reads from a process's log when it ran which job. What it had not
// ended when it died or stopped ended then.
func readRuns(t *testing.T, process *testenv.Process, ended time.Time, runs map[string][]jobRun) {
	t.Helper()
	under := make(map[string]time.Time)
	for text := range strings.Lines(process.Log()) {
		var line struct {
			Time     time.Time
			Msg, Job string
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		switch line.Msg {
		case "job begins":
			under[line.Job] = line.Time
		case "job ends":
			runs[line.Job] = append(runs[line.Job], jobRun{process, under[line.Job], line.Time})
			delete(under, line.Job)
		}
	}
	for name, begin := range under {
		runs[name] = append(runs[name], jobRun{process, begin, ended})
	}
}
