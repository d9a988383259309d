//go:build !race

package corrections_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/servicetest"
)

// model holds everything that all processes have done.
type model struct {
	*fixture
	t         *testing.T
	rng       *rand.Rand
	bucket    *models.Bucket
	processes []*process
	// queue has all reports. Any of them may be delivered again, to any process, and all of
	// them are when Redis may have lost some. reported is the best of each user.
	queue    []models.Raise
	reported map[models.RowID]models.Composite
	held     map[models.RowID]corrections.Entry // the correction that holds
	// older is a former content of Redis, and lost reports that Redis may lack reports.
	older map[string][]redis.Z
	lost  bool
}

const modelUsers = 4

// Whatever several processes do in whatever order, some of which learn of corrections late or
// were stopped before the day was over, whatever a queue delivers again, and whatever Redis
// forgets or has back from an earlier time, the board and the archive have in the end what was
// reported, or the correction that holds. A failing seed is part of the test's name.
func TestCorrectionsAgreeWithAModel(t *testing.T) {
	t.Parallel()
	run := func(name string, env func(testing.TB) *testenv.Env, seeds uint64) {
		for seed := range seeds {
			for _, zone := range []string{"Asia/Shanghai", models.LocalZone} {
				t.Run(fmt.Sprintf("%s, %s, seed %d", name, zone, seed), func(t *testing.T) {
					t.Parallel()
					env := env(t)
					env.Config.Boards[0].TimeZone = zone
					runModel(t, env, seed)
				})
			}
		}
	}
	run("local", testenv.Local, 30)
	run("real", testenv.Real, 3)
}

func runModel(t *testing.T, env *testenv.Env, seed uint64) {
	t.Helper()
	env.Config.Boards[0].Shards = 1 + int(seed%2)
	if seed%3 == 0 {
		env.Config.Boards[0].Order = string(models.OrderLow)
	}
	f := newFixture(t, env)
	bucket, stopped := f.today(), f.newProcess()
	// What it writes was decided when the day was not cold, however late it goes on.
	stopped.boards = servicetest.Entries(env, func() time.Time { return bucket.StartsAt }, stopped.rules)
	m := &model{
		fixture: f, t: t, rng: rand.New(rand.NewPCG(seed, 17)), bucket: bucket,
		processes: []*process{f.process, f.newProcess(), f.newProcess(), stopped},
		reported:  make(map[models.RowID]models.Composite), held: make(map[models.RowID]corrections.Entry),
	}
	for range 60 {
		f.later(time.Second)
		m.step()
	}
	m.replay()
	for range 2 { // the second run finds nothing
		f.apply()
	}
	m.checkBoard()
	for range 5 { // reports between the last run of the job and the archival
		f.later(time.Second)
		m.report()
	}
	f.archiveDay(m.bucket)
	m.checkArchive("archived")
	m.goBack()
	m.replay()
	f.archiveDay(m.bucket)
	m.checkArchive("after Redis went back")
	for range 3 {
		m.report() // too late, by processes of which some know nothing
		m.change()
	}
	f.archiveDay(m.bucket)
	m.checkArchive("after a further run")
	for user := range m.held {
		m.change1(user)
	}
	f.archiveDay(m.bucket)
	m.checkArchive("all lifted")
}

func (m *model) process() *process { return m.processes[m.rng.IntN(len(m.processes))] }

func (m *model) user() models.RowID { return models.RowID(1 + m.rng.IntN(modelUsers)) }

// step lets one of the processes do something, or something happen to Redis.
func (m *model) step() {
	switch m.rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6:
		m.report()
	case 7, 8:
		m.change()
	case 9, 10, 11, 12:
		m.process().refresh()
	case 13, 14:
		m.process().apply()
	case 15:
		if len(m.queue) > 0 {
			m.deliver(m.queue[m.rng.IntN(len(m.queue))])
		}
	case 16:
		m.older = m.scores()
	case 17:
		m.goBack()
	default:
		m.replay()
	}
}

// report reports a total of a user by a process that may know of no correction.
func (m *model) report() {
	user, points := m.user(), int64(1+m.rng.IntN(50_000))
	r := models.Raise{Bucket: m.bucket, Entry: models.Entry{User: user, Composite: m.composite(m.bucket, points)}}
	m.queue = append(m.queue, r)
	m.reported[user] = max(m.reported[user], r.Composite)
	m.deliver(r)
}

// deliver delivers a report to one of the processes.
func (m *model) deliver(r models.Raise) {
	m.t.Helper()
	if errs := m.process().boards.Raise(m.t.Context(), []models.Raise{r}); errs != nil {
		m.t.Fatal(errs)
	}
}

// goBack makes Redis have what it had at an earlier time; nothing at first.
func (m *model) goBack() {
	m.restore(m.older)
	m.lost = true
}

// replay lets one of the processes apply the whole queue again after a loss, as recovery and
// the command rebuild do.
func (m *model) replay() {
	m.t.Helper()
	if !m.lost {
		return
	}
	if _, err := m.process().boards.RaiseAll(m.t.Context(), m.queue); err != nil {
		m.t.Fatal(err)
	}
	m.lost = false
}

// change makes a correction, or lifts the one that holds.
func (m *model) change() { m.change1(m.user()) }

func (m *model) change1(user models.RowID) {
	p := m.process()
	if c, ok := m.held[user]; ok {
		p.lift(c.ID)
		delete(m.held, user)
		return
	}
	requests := []corrections.Request{exclude(user, m.bucket.Day)}
	if m.rng.IntN(2) == 0 && m.env.Clock.Now().Before(m.bucket.EndsAt) {
		requests[0] = excludeFromNow(user)
	}
	// Redis may have less than was reported after a loss, and a set score must not be better.
	if !m.lost && m.reported[user] != 0 && m.env.Clock.Now().Before(m.bucket.EndsAt) {
		best := m.bucket.Points(points(m.bucket, m.reported[user]))
		requests = append(requests, set(user, m.bucket.Day, m.bucket.Score(models.Points(m.rng.Int64N(int64(best)+1)))))
	}
	m.held[user] = p.create(requests[m.rng.IntN(len(requests))])
	if !m.env.Clock.Now().Before(m.bucket.ColdAt) {
		return
	}
	// The process never shows the score again.
	shown := []models.Composite{m.reported[user]}
	p.rules.Show(m.bucket, []models.RowID{user}, shown)
	if got, want := points(m.bucket, shown[0]), m.want(user); got != want {
		m.t.Errorf("user %d: the process shows %d, want %d", user, got, want)
	}
}

// want returns the score that a user must have in the end; -1 for none.
func (m *model) want(user models.RowID) int64 {
	c, ok := m.held[user]
	switch {
	case !ok:
		return points(m.bucket, m.reported[user])
	case c.Kind == models.CorrectionSet:
		return *c.Score
	default:
		return -1
	}
}

func (m *model) checkBoard() {
	m.t.Helper()
	for user := models.RowID(1); user <= modelUsers; user++ {
		if got, want := m.shown(m.bucket, user), m.want(user); got != want {
			m.t.Errorf("user %d: the board has %d, want %d", user, got, want)
		}
	}
}

func (m *model) checkArchive(when string) {
	m.t.Helper()
	users := []models.RowID{1, 2, 3, 4}
	got, err := m.archive.Composites(m.t.Context(), m.bucket, users)
	if err != nil {
		m.t.Fatal(err)
	}
	for i, user := range users {
		if want := m.want(user); points(m.bucket, got[i]) != want {
			m.t.Errorf("%s, user %d: the archive has %d, want %d", when, user, points(m.bucket, got[i]), want)
		}
		if _, corrected := m.held[user]; !corrected && got[i] != m.reported[user] {
			m.t.Errorf("%s, user %d: the archive has another time than was reported", when, user)
		}
	}
}
