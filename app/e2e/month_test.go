package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// monthDays is the number of days in the step counts.
const monthDays = 31

// month uploads the real step counts to the service, day by day.
type month struct {
	t       *testing.T
	env     *testenv.Env
	cfg     config.Config
	zone    *time.Location
	client  *http.Client
	service string // tokens of a backend and an administrator
	admin   string
	phones  map[int]string // token of each user who uploads by phone

	friends graph
	users   []int // ascending
	rows    map[int]string
	// walked holds the file's totals by day and walker; nil for a day without rows.
	walked [monthDays][]*dayScore
	// days holds, for each day, every user's best upload and when it was accepted.
	days [monthDays]map[int]dayScore
}

func newMonth(t *testing.T) *month {
	t.Helper()
	m := &month{
		t: t, env: testenv.RealConfig(t), zone: testenv.Must(time.LoadLocation("Asia/Shanghai")),
		client: newClient(), service: harness.Token(t, "1", auth.ScopeService), admin: harness.Token(t, "1", auth.ScopeAdmin),
		phones: make(map[int]string), friends: readGraph(t),
	}
	t.Cleanup(m.client.CloseIdleConnections)
	m.users = slices.Sorted(maps.Keys(m.friends))
	for _, user := range m.users {
		if user%20 == 7 {
			m.phones[user] = harness.Token(t, testenv.ID(user), "")
		}
	}
	walkers := readWalkers(t, m.zone)
	for day := range monthDays {
		m.days[day] = make(map[int]dayScore)
		m.walked[day] = make([]*dayScore, len(walkers))
		for i, walker := range walkers {
			if d, ok := walker.day(m.start(day), m.start(day+1)); ok {
				m.walked[day][i] = &d
			}
		}
	}
	m.cfg = m.env.Config
	m.cfg.Auth.HS256Secret = harness.Secret
	return m
}

// start returns when a day begins; day 0 is the first of the step counts.
func (m *month) start(day int) time.Time { return time.Date(2016, 4, 12+day, 0, 0, 0, 0, m.zone) }

// date returns the date of a day.
func (m *month) date(day int) string { return m.start(day).Format(time.DateOnly) }

// steps returns a user's total of a day in the file; ok is false if it has
// none.
func (m *month) steps(user, day int) (score int, ok bool) {
	if day < 0 {
		return 0, false
	}
	d := m.walked[day][(user-1)%len(m.walked[day])]
	if d == nil {
		return 0, false
	}
	return d.score, true
}

// setClock sets the clock of the processes that are started next.
func (m *month) setClock(to time.Time) { m.cfg.Clock.Offset = time.Until(to).Round(time.Millisecond) }

// run runs a command of the program with the settings, and returns its output.
func (m *month) run(args ...string) string {
	m.t.Helper()
	return mustRun(m.t, append(args, testenv.Flags(m.cfg)...)...)
}

// call makes a request that must succeed, and decodes the answer.
func (m *month) call(bearer, method, url, body string, into any) {
	status, text, err := harness.Request(m.t.Context(), m.client, bearer, method, url, body)
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil || status != http.StatusOK {
		m.t.Errorf("%s %s: %d %s, %v", method, url, status, text, err)
	}
}

// totals returns how many users have a score on a day, and the sum of the
// scores.
func (m *month) totals(day int) (entries, sum int) {
	for _, d := range m.days[day] {
		sum += d.score
	}
	return len(m.days[day]), sum
}

// byCommand archives the day that is due with the command, in one of its two
// forms.
func (m *month) byCommand(due int) {
	m.t.Helper()
	var args []string
	if due%2 == 0 {
		args = []string{"--board", "steps", "--bucket", m.date(due)}
	}
	entries, sum := m.totals(due)
	said := m.run(append([]string{"archive"}, args...)...)
	want := fmt.Sprintf("steps %s: run 1 moved %d entries; the archive holds %d, sum of scores %d, in ", m.date(due), entries, entries, sum)
	if !strings.HasPrefix(said, want) || strings.Count(said, "\n") != 1 {
		m.t.Errorf("archive printed %q, want %q", said, want)
	}
	if said := m.run("archive"); said != "nothing is due\n" {
		m.t.Errorf("archive again printed %q", said)
	}
}

// monthRun is a run of the archive as the API shows it.
type monthRun struct {
	Board, Bucket, State, Error string
	Run, Attempts               int
	Moved, Entries              int
	ScoreSum                    int `json:"score_sum"`
}

// runs returns the runs of the archive, newest first.
func (m *month) runs(url string) []monthRun {
	var answer struct{ Runs []monthRun }
	m.call(m.admin, "GET", url+"/v1/admin/archives?limit=200", "", &answer)
	return answer.Runs
}

// wantRuns returns the expected runs when all days up to last are archived.
func (m *month) wantRuns(last int) []monthRun {
	var want []monthRun
	for day := last; day >= 0; day-- {
		entries, sum := m.totals(day)
		want = append(want, monthRun{
			Board: "steps", Bucket: m.start(day).Format("20060102"), State: "complete",
			Run: 1, Attempts: 1, Moved: entries, Entries: entries, ScoreSum: sum,
		})
	}
	return want
}

// hotDays is how many days after its own a day stays in Redis.
const hotDays = 3

// runDay starts the service in the evening of a day. The service archives the
// day that is due, unless the command has done so, and takes the day's uploads.
// It is left running.
func (m *month) runDay(day int) *testenv.Process {
	m.t.Helper()
	m.setClock(m.start(day).Add(21*time.Hour + time.Duration(day)*4*time.Minute))
	due := day - hotDays - 1
	if slices.Contains([]int{5, 14, 20, 26}, due) {
		m.byCommand(due)
	}
	p := testenv.Serve(m.t, m.cfg)
	m.upload(p.URL, day)
	var runs []monthRun
	testenv.Eventually(m.t, "the archive has what is due", func() bool {
		// A run is complete before its keys are deleted; the job ends after that.
		ended, _ := harness.Metric(m.t, p, `stepboard_job_duration_seconds_count{job="archive"}`)
		runs = m.runs(p.URL)
		return ended > 0 && len(runs) > due && !slices.ContainsFunc(runs, func(r monthRun) bool { return r.State == "running" })
	})
	if want := m.wantRuns(due); !slices.Equal(runs, want) {
		m.t.Fatalf("on %s the runs are %+v, want %+v", m.date(day), runs, want)
	}
	return p
}

// A month of real step counts: every day has uploads by phones and by a
// backend, early, late, repeated and too low, and every night a day is
// archived. In the end every user's history is the brute-force one, and so is every user's
// ranking of one of five hot and archived days.
func TestAMonthOfTheRealGraph(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	m := newMonth(t)
	m.run("migrate", "up")
	edges := testenv.RealData(t, "ego-facebook-edges.txt")
	mustRun(t, append([]string{"import", "friends", edges, "--offset", "1"}, testenv.Flags(m.cfg)...)...)
	m.rows = rowTexts(t, m.cfg.Postgres.DSN)
	for day := range monthDays - 1 {
		m.runDay(day).Stop()
	}
	last := monthDays - 1
	p := m.runDay(last)
	m.checkUploads()
	m.checkRedis(last)
	checked := []struct {
		day    int
		source models.Source
		final  bool
	}{
		{0, models.SourceArchive, true},
		{18, models.SourceArchive, true}, // the last of April
		{last - 4, models.SourceArchive, true},
		{last - hotDays, models.SourceHot, true},
		{last - lateDays, models.SourceHot, false},
	}
	for i, c := range checked {
		// Each user asks for one of the days.
		asked := rankedDay{m.date(c.day), c.source, c.final}
		checkRankings(t, p.URL, asked, everyNth(m.users, len(checked), i), m.friends, m.days[c.day], m.rows)
	}
	m.checkHistories(p.URL, last)
	p.Stop()
}

// lateDays is how many days after its own a day takes uploads.
const lateDays = 2

// checkUploads compares the uploads with the file.
func (m *month) checkUploads() {
	m.t.Helper()
	for day := range monthDays {
		for _, user := range m.users {
			score, walked := m.steps(user, day)
			if sent, ok := m.days[day][user]; ok != walked || sent.score != score {
				m.t.Fatalf("user %d has sent %+v for %s, and walked %d", user, sent, m.date(day), score)
			}
		}
	}
}

// checkRedis expects the keys of the hot days in Redis, and no other boards.
func (m *month) checkRedis(today int) {
	m.t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: m.cfg.Redis.Addrs[0]})
	defer func() {
		if err := rdb.Close(); err != nil {
			m.t.Error(err)
		}
	}()
	keys, err := rdb.Keys(m.t.Context(), m.cfg.Redis.KeyPrefix+"board:*").Result()
	if err != nil {
		m.t.Fatal(err)
	}
	var want []string
	for day := today - hotDays; day <= today; day++ {
		want = append(want, m.cfg.Redis.KeyPrefix+"board:{steps.00}:"+m.start(day).Format("20060102"))
	}
	slices.Sort(keys)
	if !slices.Equal(keys, want) {
		m.t.Errorf("Redis holds %q, want %q", keys, want)
	}
}

// histories returns every user's history by brute force.
func (m *month) histories(today int) map[int][]historyEntry {
	histories := make(map[int][]historyEntry)
	for day := monthDays - 1; day >= 0; day-- {
		source := models.SourceArchive
		if day >= today-hotDays {
			source = models.SourceHot
		}
		everybody := bruteForce(m.users[0], m.users[1:], m.days[day], m.rows)
		for i, r := range everybody {
			histories[r.user] = append(histories[r.user], historyEntry{
				m.date(day), r.score, models.TimestampOf(r.reachedAt), i + 1, len(everybody), source,
			})
		}
	}
	return histories
}

// checkHistories compares every user's history with the brute-force one.
func (m *month) checkHistories(url string, today int) {
	histories := m.histories(today)
	inParallel(len(m.users), func(i int) {
		user := m.users[i]
		var answer struct {
			Entries []historyEntry
			Partial *bool
		}
		m.call(harness.Token(m.t, testenv.ID(user), ""), "GET",
			fmt.Sprintf("%s/v1/boards/steps/history?from=%s&to=%s", url, m.date(0), m.date(monthDays-1)), "", &answer)
		if answer.Partial == nil || *answer.Partial || !slices.Equal(answer.Entries, histories[user]) {
			m.t.Errorf("user %d: history %+v, want %+v", user, answer, histories[user])
		}
	})
}
