//go:build !race

package corrections_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/corrections"
)

// ledgerModel holds the counts of a board without days, and which corrections hold.
type ledgerModel struct {
	*fixture
	t         *testing.T
	rng       *rand.Rand
	bucket    *models.Bucket
	processes []*process
	counted   []counted
	held      map[models.RowID]corrections.Entry
}

// counted is an increment.
type counted struct {
	user  models.RowID
	delta int64
	at    time.Time
}

// Whatever several processes count and correct in whatever order, some of which learn late,
// and whatever Redis forgets, an event, its archive and a rolling board have in the end what
// was counted, or the corrections that hold. A failing seed is part of the test's name.
func TestCorrectedEventsAgreeWithAModel(t *testing.T) {
	t.Parallel()
	run := func(name string, env func(testing.TB) *testenv.Env, seeds uint64) {
		for seed := range seeds {
			for _, board := range []string{"gifts", "active", "laps"} {
				t.Run(fmt.Sprintf("%s, %s, seed %d", name, board, seed), func(t *testing.T) {
					t.Parallel()
					runLedgerModel(t, env(t), board, seed)
				})
			}
		}
	}
	run("local", testenv.Local, 20)
	run("real", testenv.Real, 2)
}

func runLedgerModel(t *testing.T, env *testenv.Env, board string, seed uint64) {
	t.Helper()
	f := newLedgerFixture(t, env)
	gifts := f.only("gifts")
	laps := models.Board{
		Name: "laps", Kind: models.KindEvent, TimeZone: "UTC", MaxScore: 100_000, Shards: 2, Global: models.AudienceUsers,
		StartsAt: &gifts.StartsAt, EndsAt: &gifts.EndsAt, Takes: models.TakesBest, Order: models.OrderLow,
	}
	testenv.Must(f.catalog.Definitions.Add(t.Context(), laps, false))
	m := &ledgerModel{
		fixture: f, t: t, rng: rand.New(rand.NewPCG(seed, 23)), bucket: f.only(board),
		processes: []*process{f.process, f.newProcess(), f.newProcess()}, held: make(map[models.RowID]corrections.Entry),
	}
	for range 60 {
		f.later(time.Duration(m.rng.IntN(5)) * time.Minute)
		m.step()
	}
	m.drain()
	f.apply()
	if n := f.apply(); n != 0 {
		t.Errorf("a second run of the job has changed %d entries", n)
	}
	m.check("in Redis", f.shown)
	if board == "active" {
		if _, drifted, err := f.boards.Drift(t.Context(), m.bucket, 10); err != nil || drifted != 0 {
			t.Errorf("%d sums are wrong, %v", drifted, err)
		}
		return
	}
	archived := func(b *models.Bucket, user models.RowID) int64 {
		return points(b, testenv.Must(f.archive.Composites(t.Context(), b, []models.RowID{user}))[0])
	}
	f.archiveDay(m.bucket)
	m.check("in the archive", archived)
	for range 3 {
		m.change(m.user())
	}
	f.archiveDay(m.bucket)
	m.check("after a further run", archived)
	for user := range m.held {
		m.change(user)
	}
	f.archiveDay(m.bucket)
	m.check("all lifted", archived)
}

func (m *ledgerModel) process() *process { return m.processes[m.rng.IntN(len(m.processes))] }

func (m *ledgerModel) user() models.RowID { return models.RowID(1 + m.rng.IntN(modelUsers)) }

// step lets one of the processes do something.
func (m *ledgerModel) step() {
	switch m.rng.IntN(12) {
	case 0, 1, 2, 3, 4:
		c := counted{m.user(), int64(1 + m.rng.IntN(500)), m.env.Clock.Now()}
		id := fmt.Sprint(len(m.counted))
		m.counted = append(m.counted, c)
		for range 1 + m.rng.IntN(2) { // it may be sent again, to another process
			m.process().add(m.bucket.Board, c.user, c.delta, id)
		}
	case 5, 6:
		m.change(m.user())
	case 7:
		m.process().refresh()
	case 8:
		m.process().apply()
	case 9:
		m.process().reconcile()
	case 10:
		m.drain()
	default:
		m.forget()
		m.process().reconcile()
	}
}

func (m *ledgerModel) drain() {
	m.t.Helper()
	if _, err := m.boards.Drain(m.t.Context(), m.bucket); err != nil {
		m.t.Fatal(err)
	}
}

// change makes a correction, or lifts the one that holds.
func (m *ledgerModel) change(user models.RowID) {
	p := m.process()
	if c, ok := m.held[user]; ok {
		p.lift(c.ID)
		delete(m.held, user)
		return
	}
	request := on(m.bucket.Board, exclude(user, 0))
	if total := m.total(user); m.bucket.WindowHours == 0 && total > 0 && m.rng.IntN(2) == 0 {
		request = on(m.bucket.Board, set(user, 0, m.rng.Int64N(total+1)))
		if m.bucket.Best { // a correction may only make a lap slower
			request = on(m.bucket.Board, set(user, 0, m.bucket.MaxScore-m.rng.Int64N(m.bucket.MaxScore-total+1)))
		}
	}
	m.held[user] = p.create(request)
	shown := []models.Composite{m.composite(m.bucket, 100_000)}
	p.rules.Show(m.bucket, []models.RowID{user}, shown)
	if got, want := points(m.bucket, shown[0]), m.want(user); m.env.Clock.Now().Before(m.bucket.ColdAt) && got != want {
		m.t.Errorf("user %d: the process shows %d, want %d", user, got, want)
	}
}

// total returns what is counted for a user: the sum or the lowest of the increments; 0 for none.
func (m *ledgerModel) total(user models.RowID) (total int64) {
	first := models.HourOf(m.env.Clock.Now()) - models.Hour(m.bucket.WindowHours) + 1
	for _, c := range m.counted {
		switch {
		case c.user != user, m.bucket.WindowHours > 0 && models.HourOf(c.at) < first:
		case m.bucket.Best && total > 0:
			total = min(total, c.delta)
		default:
			total += c.delta
		}
	}
	return total
}

// want returns the score that a user must have in the end; -1 for none.
func (m *ledgerModel) want(user models.RowID) int64 {
	total := m.total(user)
	switch c, ok := m.held[user]; {
	case ok && c.Kind == models.CorrectionExclude:
		return -1
	case ok:
		return *c.Score
	case total == 0:
		return -1
	default:
		return total
	}
}

func (m *ledgerModel) check(where string, got func(b *models.Bucket, user models.RowID) int64) {
	m.t.Helper()
	for user := models.RowID(1); user <= modelUsers; user++ {
		if got, want := got(m.bucket, user), m.want(user); got != want {
			m.t.Errorf("user %d has %d %s, want %d", user, got, where, want)
		}
	}
}
