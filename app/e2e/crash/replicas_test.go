package crash_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// pair is two processes of one role, of which one may be killed at a time.
type pair struct {
	start   func() *testenv.Process
	running [2]*testenv.Process
	// killed holds the time at which each of the others was killed.
	killed map[*testenv.Process]time.Time
}

func newPair(start func() *testenv.Process) *pair {
	return &pair{start: start, running: [2]*testenv.Process{start(), start()}, killed: make(map[*testenv.Process]time.Time)}
}

// Two processes of each role run on a cluster, and one after another is killed
// at random. In the end no acknowledged update is missing, every cold day is in
// the archive, and no job ran twice at once.
func TestSoakTwoOfEachRole(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	env := harness.RealOn(t, cluster.Use)
	boards := giftBoards(16)
	start := func(role string) func() *testenv.Process {
		flags := harness.Role(role, boards, "--jobs.archive_cron=@every 1s", "--log.level=debug")
		return func() *testenv.Process { return testenv.Serve(t, env.Config, flags...) }
	}
	api := newPair(start("api"))
	roles := []*pair{api, newPair(start("consumer")), newPair(start("jobs"))}
	jobs := roles[2]
	befriend(t, api.running[0].URL)
	harness.AwaitDrained(t, api.running[0])
	g, s, a := startGivers(t, api.running[0].URL), startSteppers(t, api.running[0].URL, allowBroken), newColdDays(t, env)
	call := func(p *testenv.Process) { g.redirect(p.URL); s.redirect(p.URL) }
	kills, began := 0, time.Now()
	for ; kills < 6 || (testenv.AllForms() && time.Since(began) < 2*time.Minute); kills++ {
		a.write()
		g.awaitMore(rand.Int64N(20))
		s.awaitMore(rand.Int64N(200))
		// The first rounds kill one process of each role.
		role, i := roles[kills%len(roles)], rand.IntN(2)
		if kills >= len(roles) {
			role = roles[rand.IntN(len(roles))]
		}
		dying, other := role.running[i], api.running[1-i]
		call(other)
		if role == api && rand.IntN(2) == 0 { // its calls break off
			call(dying)
			g.awaitMore(1)
		}
		role.killed[dying] = time.Now()
		dying.Kill()
		call(other)
		g.awaitMore(10)
		s.awaitMore(50)
		role.running[i] = role.start()
	}
	g.end()
	s.end()
	t.Logf("%d kills in %v; %d increments, %d other calls, %d and %d of them refused or broken off",
		kills, time.Since(began), g.done.Load(), s.done.Load(), g.refused.Load(), s.refused.Load())
	harness.AwaitDrained(t, api.running[0])
	s.check(env)
	g.check(env.Stores, env.Keys)
	a.check()
	for _, role := range roles {
		for _, p := range role.running {
			p.Stop()
		}
	}
	jobs.checkJobs(t)
}

// jobRun is one run of a job by one process.
type jobRun struct {
	process    *testenv.Process
	begin, end time.Time
}

// checkJobs reads from the logs when each job ran, and expects no two runs of a
// job at once.
func (p *pair) checkJobs(t *testing.T) {
	t.Helper()
	runs := make(map[string][]jobRun)
	for process := range maps.Keys(p.killed) {
		readJobRuns(t, process, p.killed[process], runs)
	}
	for _, process := range p.running {
		readJobRuns(t, process, time.Now(), runs)
	}
	for _, name := range []string{"archive", "reconcile", "roll", "purge"} {
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

// readJobRuns reads from a process's log when it ran which job. A run without
// an end in the log ended with the process.
func readJobRuns(t *testing.T, process *testenv.Process, ended time.Time, runs map[string][]jobRun) {
	t.Helper()
	open := make(map[string]time.Time)
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
			open[line.Job] = line.Time
		case "job ends":
			runs[line.Job] = append(runs[line.Job], jobRun{process, open[line.Job], line.Time})
			delete(open, line.Job)
		}
	}
	for name, begin := range open {
		runs[name] = append(runs[name], jobRun{process, begin, ended})
	}
}
