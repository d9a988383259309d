package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
)

// monthDays is how many days the step counts have.
const monthDays = 31

// month is the real step counts on their way through the service, day by day.
type month struct {
	t       *testing.T
	env     *testenv.Env
	cfg     config.Config
	zone    *time.Location
	client  *http.Client
	service string // tokens
	admin   string
	phones  map[int]string // token of each user who uploads by phone

	friends graph
	users   []int // ascending
	// walked is the file's totals: by day, then walker; nil without any row.
	walked [monthDays][]*dayScore
	// days is what must come out: what each user's upload was and when it was
	// accepted.
	days [monthDays]map[int]dayScore
}

func newMonth(t *testing.T) *month {
	t.Helper()
	w := &month{
		t: t, env: testenv.RealConfig(t), zone: testenv.Must(time.LoadLocation("Asia/Shanghai")),
		client: newClient(), service: harness.Token(t, 1, auth.ScopeService), admin: harness.Token(t, 1, auth.ScopeAdmin),
		phones: make(map[int]string), friends: readGraph(t),
	}
	t.Cleanup(w.client.CloseIdleConnections)
	w.users = slices.Sorted(maps.Keys(w.friends))
	for _, user := range w.users {
		if user%20 == 7 {
			w.phones[user] = harness.Token(t, models.UserID(user), "")
		}
	}
	walkers := readWalkers(t, w.zone)
	for day := range monthDays {
		w.days[day] = make(map[int]dayScore)
		w.walked[day] = make([]*dayScore, len(walkers))
		for i, walker := range walkers {
			if d, ok := walker.day(w.start(day), w.start(day+1)); ok {
				w.walked[day][i] = &d
			}
		}
	}
	w.cfg = w.env.Config
	w.cfg.Auth.HS256Secret = harness.Secret
	return w
}

// start is when a day begins; day 0 is the first of the step counts.
func (w *month) start(day int) time.Time { return time.Date(2016, 4, 12+day, 0, 0, 0, 0, w.zone) }

func (w *month) date(day int) string { return w.start(day).Format(time.DateOnly) }

// steps is a user's total for a day in the file; ok is false where there is
// none.
func (w *month) steps(user, day int) (score int, ok bool) {
	if day < 0 {
		return 0, false
	}
	d := w.walked[day][(user-1)%len(w.walked[day])]
	if d == nil {
		return 0, false
	}
	return d.score, true
}

// setClock sets the clock of the processes that are started from now on.
func (w *month) setClock(to time.Time) { w.cfg.Clock.Offset = time.Until(to).Round(time.Millisecond) }

// run runs a command of the program, with the settings, and answers what it
// printed.
func (w *month) run(args ...string) string {
	w.t.Helper()
	return mustRun(w.t, append(args, testenv.Flags(w.cfg)...)...)
}

// call makes a request that succeeds, and reads the answer.
func (w *month) call(bearer, method, url, body string, into any) {
	status, text, err := harness.Request(w.t.Context(), w.client, bearer, method, url, body)
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil || status != http.StatusOK {
		w.t.Errorf("%s %s: %d %s, %v", method, url, status, text, err)
	}
}

// totals is how many have a score on a day, and their sum.
func (w *month) totals(day int) (entries, sum int) {
	for _, d := range w.days[day] {
		sum += d.score
	}
	return len(w.days[day]), sum
}

// byCommand archives the day that is due by the command, in its two forms.
func (w *month) byCommand(due int) {
	w.t.Helper()
	var args []string
	if due%2 == 0 {
		args = []string{"--board", "steps", "--bucket", w.date(due)}
	}
	entries, sum := w.totals(due)
	said := w.run(append([]string{"archive"}, args...)...)
	want := fmt.Sprintf("steps %s: run 1 moved %d entries; the archive holds %d, sum of scores %d, in ", w.date(due), entries, entries, sum)
	if !strings.HasPrefix(said, want) || strings.Count(said, "\n") != 1 {
		w.t.Errorf("archive printed %q, want %q", said, want)
	}
	if said := w.run("archive"); said != "nothing is due\n" {
		w.t.Errorf("archive again printed %q", said)
	}
}

// monthRun is a run of the archive, as an administrator is told.
type monthRun struct {
	Board, Bucket, State, Error string
	Run, Attempts               int
	Moved, Entries              int
	ScoreSum                    int `json:"score_sum"`
}

// runs lists the runs of the archive, newest first.
func (w *month) runs(url string) []monthRun {
	var answer struct{ Runs []monthRun }
	w.call(w.admin, "GET", url+"/v1/admin/archives?limit=200", "", &answer)
	return answer.Runs
}

// wantRuns is the runs that there must be when the given day is archived.
func (w *month) wantRuns(last int) []monthRun {
	var want []monthRun
	for day := last; day >= 0; day-- {
		entries, sum := w.totals(day)
		want = append(want, monthRun{
			Board: "steps", Bucket: w.start(day).Format("20060102"), State: "complete",
			Run: 1, Attempts: 1, Moved: entries, Entries: entries, ScoreSum: sum,
		})
	}
	return want
}

// hotDays is how many days after its own a day stays in Redis.
const hotDays = 3

// runDay lets a day pass: the service starts in its evening, archives what is
// due unless the command has done so, and takes the uploads. It goes on
// running.
func (w *month) runDay(day int) *testenv.Process {
	w.t.Helper()
	w.setClock(w.start(day).Add(21*time.Hour + time.Duration(day)*4*time.Minute))
	due := day - hotDays - 1
	if slices.Contains([]int{5, 14, 20, 26}, due) {
		w.byCommand(due)
	}
	p := testenv.Serve(w.t, w.cfg)
	w.upload(p.URL, day)
	var runs []monthRun
	testenv.Eventually(w.t, "the archive has what is due", func() bool {
		// A run is complete before its keys are dropped; the job ends after that.
		ended, _ := harness.Metric(w.t, p, `stepboard_job_duration_seconds_count{job="archive"}`)
		runs = w.runs(p.URL)
		return ended > 0 && len(runs) > due && !slices.ContainsFunc(runs, func(r monthRun) bool { return r.State == "running" })
	})
	if want := w.wantRuns(due); !slices.Equal(runs, want) {
		w.t.Fatalf("on %s the runs are %+v, want %+v", w.date(day), runs, want)
	}
	return p
}

func (w *month) stop(p *testenv.Process) {
	w.t.Helper()
	if status := p.Stop(); status != 0 {
		w.t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}

// A month of real steps: every day its uploads, of phones and of a backend,
// early, late, again and too low; every night a day on its way to the archive.
// In the end every user's rankings and every user's history are the brute-force
// ones, wherever a day is by then.
func TestAMonthOfTheRealGraph(t *testing.T) {
	t.Parallel()
	w := newMonth(t)
	w.run("migrate", "up")
	edges := testenv.Must(filepath.Abs(filepath.Join(data, "ego-facebook-edges.txt")))
	mustRun(t, append([]string{"import", "friends", edges, "--offset", "1"}, testenv.Flags(w.cfg)...)...)
	for day := range monthDays - 1 {
		w.stop(w.runDay(day))
	}
	last := monthDays - 1
	p := w.runDay(last)
	w.checkUploads()
	w.checkRedis(last)
	for day, asked := range map[int]rankedDay{
		0:               {source: models.SourceArchive, final: true},
		18:              {source: models.SourceArchive, final: true}, // the last of April
		last - 4:        {source: models.SourceArchive, final: true},
		last - hotDays:  {source: models.SourceHot, final: true},
		last - lateDays: {source: models.SourceHot, final: false},
	} {
		asked.date = w.date(day)
		checkRankings(t, p.URL, asked, w.friends, w.days[day])
	}
	w.checkHistories(p.URL, last)
	w.stop(p)
}

// lateDays is how many days after its own a day takes uploads.
const lateDays = 2

// checkUploads compares what was uploaded with the file.
func (w *month) checkUploads() {
	w.t.Helper()
	for day := range monthDays {
		for _, user := range w.users {
			score, walked := w.steps(user, day)
			if sent, ok := w.days[day][user]; ok != walked || sent.score != score {
				w.t.Fatalf("user %d has sent %+v for %s, and walked %d", user, sent, w.date(day), score)
			}
		}
	}
}

// checkRedis expects the hot days in Redis, and nothing of the others.
func (w *month) checkRedis(today int) {
	w.t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: w.cfg.Redis.Addrs[0]})
	defer func() {
		if err := rdb.Close(); err != nil {
			w.t.Error(err)
		}
	}()
	keys, err := rdb.Keys(w.t.Context(), w.cfg.Redis.KeyPrefix+"board:*").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	var want []string
	for day := today - hotDays; day <= today; day++ {
		want = append(want, w.cfg.Redis.KeyPrefix+"board:{steps.00}:"+w.start(day).Format("20060102"))
	}
	slices.Sort(keys)
	if !slices.Equal(keys, want) {
		w.t.Errorf("Redis holds %q, want %q", keys, want)
	}
}

// histories is every user's days, by brute force.
func (w *month) histories(today int) map[int][]historyEntry {
	histories := make(map[int][]historyEntry)
	for day := monthDays - 1; day >= 0; day-- {
		source := models.SourceArchive
		if day >= today-hotDays {
			source = models.SourceHot
		}
		everybody := bruteForce(w.users[0], w.users[1:], w.days[day])
		for i, r := range everybody {
			histories[r.user] = append(histories[r.user], historyEntry{
				w.date(day), r.score, models.TimestampOf(r.reachedAt), i + 1, len(everybody), source,
			})
		}
	}
	return histories
}

// checkHistories compares every user's history with the brute-force one.
func (w *month) checkHistories(url string, today int) {
	histories := w.histories(today)
	inParallel(len(w.users), func(i int) {
		user := w.users[i]
		var answer struct {
			Entries []historyEntry
			Partial *bool
		}
		w.call(harness.Token(w.t, models.UserID(user), ""), "GET",
			fmt.Sprintf("%s/v1/boards/steps/history?from=%s&to=%s", url, w.date(0), w.date(monthDays-1)), "", &answer)
		if answer.Partial == nil || *answer.Partial || !slices.Equal(answer.Entries, histories[user]) {
			w.t.Errorf("user %d: history %+v, want %+v", user, answer, histories[user])
		}
	})
}
