package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/score"
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
	env.Config.Auth.HS256Secret = secret
	boards := giftBoards(16)
	start := func(role string) func() *testenv.Process {
		flags := only(role, boards, "--jobs.archive_cron=@every 1s", "--log.level=debug")
		return func() *testenv.Process { return testenv.Serve(t, env.Config, flags...) }
	}
	api := newPair(start("api"))
	crews := []*pair{api, newPair(start("consumer")), newPair(start("jobs"))}
	jobs := crews[2]
	befriend(t, env, api.now[0].URL)
	drained(t, api.now[0])
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
	drained(t, api.now[0])
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

// coldDays are days of long ago that turn up one after another, for jobs to
// archive.
type coldDays struct {
	t       testing.TB
	env     *testenv.Env
	catalog *catalog.Catalog
	store   *board.Store
	sums    map[string]int64 // by day
}

const coldUsers = 3000

func newColdDays(t testing.TB, env *testenv.Env) *coldDays {
	t.Helper()
	c := catalog.New(catalog.NewStore(env.Gorm), time.Now, env.Config.HotDays, env.Log)
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &coldDays{t: t, env: env, catalog: c, store: board.NewStore(env.Redis, env.Keys, time.Now), sums: make(map[string]int64)}
}

// write writes one more day.
func (c *coldDays) write() {
	c.t.Helper()
	day := noonDay - 100 - models.Date(len(c.sums))
	bucket, err := c.catalog.ForImport(c.t.Context(), testenv.Must(c.catalog.Board("steps")), day, time.Now())
	if err != nil {
		c.t.Fatal(err)
	}
	raises := make([]models.Raise, coldUsers)
	for i := range raises {
		points := rand.Int64N(20_000)
		c.sums[day.String()] += points
		composite := testenv.Must(score.Of(bucket).Encode(points, models.TimestampOf(bucket.StartsAt.Add(time.Hour))))
		raises[i] = models.Raise{Bucket: bucket, Entry: models.Entry{User: models.UserID(i + 1), Composite: composite}}
	}
	for _, err := range c.store.Raise(c.t.Context(), raises) {
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// check waits until all of each day is in the archive. A run of the job that
// began while a day was written has archived a part of it, which the next run
// completes.
func (c *coldDays) check() {
	c.t.Helper()
	got, partly := make(map[string]int64), make(map[string]string)
	defer func() {
		if len(partly) > 0 || len(got) < len(c.sums) {
			c.t.Errorf("%d of %d days are in the archive, of these in part, as rows, users, ranks, last rank: %v", len(got), len(c.sums), partly)
		}
	}()
	whole := fmt.Sprint(coldUsers, coldUsers, coldUsers, coldUsers)
	testenv.Eventually(c.t, "all days are in the archive", func() bool {
		rows, err := c.env.Pool.Query(c.t.Context(), `
			SELECT day::text, count(*), count(DISTINCT user_id), count(DISTINCT rank), max(rank), sum(score)::bigint FROM archived_scores GROUP BY day`)
		if err != nil {
			c.t.Fatal(err)
		}
		defer rows.Close()
		clear(got)
		clear(partly)
		for rows.Next() {
			var day string
			var n, users, ranks, last, sum int64
			if err := rows.Scan(&day, &n, &users, &ranks, &last, &sum); err != nil {
				c.t.Fatal(err)
			}
			if counts := fmt.Sprint(n, users, ranks, last); counts != whole {
				partly[day] = counts
			}
			got[day] = sum
		}
		return rows.Err() == nil && len(got) == len(c.sums) && len(partly) == 0
	})
	if diff := cmp.Diff(c.sums, got); diff != "" {
		c.t.Errorf("sums of scores by day -written +archived:\n%s", diff)
	}
}
