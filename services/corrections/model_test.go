package corrections_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/corrections"
)

// model is what has happened, as one observer of all processes sees it.
type model struct {
	*fixture
	t         *testing.T
	rng       *rand.Rand
	bucket    *models.Bucket
	processes []*process
	// reported is the best that each user has reported, and held the correction that holds.
	reported map[models.RowID]models.Composite
	held     map[models.RowID]corrections.Entry
}

const modelUsers = 4

// Whatever several processes do in whatever order, some of which learn of corrections late,
// the board and the archive have in the end what was reported, or the correction that
// holds. A failing seed is part of the test's name.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("embedded, seed %d", seed), func(t *testing.T) {
			t.Parallel()
			runModel(t, testenv.Embedded(t), seed)
		})
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("real, seed %d", seed), func(t *testing.T) {
			t.Parallel()
			runModel(t, testenv.Real(t), seed)
		})
	}
}

func runModel(t *testing.T, env *testenv.Env, seed uint64) {
	t.Helper()
	env.Config.Boards[0].Shards = 1 + int(seed%2)
	f := newFixture(t, env)
	m := &model{
		fixture: f, t: t, rng: rand.New(rand.NewPCG(seed, 17)), bucket: f.today(),
		processes: []*process{f.process, f.newProcess(), f.newProcess()},
		reported:  make(map[models.RowID]models.Composite), held: make(map[models.RowID]corrections.Entry),
	}
	for range 60 {
		f.later(time.Second)
		m.step()
	}
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

// step lets one of the processes do something.
func (m *model) step() {
	switch m.rng.IntN(8) {
	case 0, 1, 2, 3:
		m.report()
	case 4:
		m.change()
	case 5, 6:
		m.process().refresh()
	default:
		m.process().apply()
	}
}

// report reports a total of a user by a process that may know of no correction.
func (m *model) report() {
	user, points := m.user(), int64(1+m.rng.IntN(50_000))
	m.process().raise(m.bucket, user, points)
	m.reported[user] = max(m.reported[user], m.composite(m.bucket, points))
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
	if points(m.bucket, m.reported[user]) > 0 && m.env.Clock.Now().Before(m.bucket.EndsAt) {
		requests = append(requests, set(user, m.bucket.Day, m.rng.Int64N(points(m.bucket, m.reported[user]))))
	}
	m.held[user] = p.create(requests[m.rng.IntN(len(requests))])
	if !m.env.Clock.Now().Before(m.bucket.ColdAt) {
		return
	}
	// The process never shows the score again.
	shown := []models.Composite{m.reported[user]}
	p.corrections.Correct(m.bucket, []models.RowID{user}, shown)
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
