package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/ledger"
	"stepboard/services/score"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the event of the tests starts. It lasts for ten days.
var start = testenv.Noon.Add(-time.Hour)

// fixture holds a ledger with an event board, "gifts", and a rolling board of three
// hours, "active".
type fixture struct {
	t       *testing.T
	env     *testenv.Env
	catalog *catalog.Catalog
	boards  *board.Store
	store   *ledger.Store
	ledger  *ledger.Service
}

func newFixture(t *testing.T, env *testenv.Env, largest int64) *fixture {
	t.Helper()
	end := start.AddDate(0, 0, 10)
	p := &fixture{
		t: t, env: env, catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log),
		boards: board.NewStore(env.Redis, env.Keys, env.Clock.Now), store: ledger.NewStore(env.Gorm, env.Pool),
	}
	def := func(name string, kind models.Kind) models.Board {
		return models.Board{Name: name, Kind: kind, TimeZone: "Asia/Shanghai", MaxScore: largest, Shards: 2, Global: models.AudienceUsers}
	}
	gifts, active := def("gifts", models.KindEvent), def("active", models.KindRolling)
	gifts.StartsAt, gifts.EndsAt, active.WindowHours = &start, &end, 3
	if err := p.catalog.Definitions.Define(t.Context(), []models.Board{gifts, active}); err != nil {
		t.Fatal(err)
	}
	p.ledger = p.replica(p.boards, env.Clock.Now)
	return p
}

// replica returns the service of another process on the same stores.
func (p *fixture) replica(boards ledger.Boards, clock models.Clock) *ledger.Service {
	s := ledger.New(p.store, p.catalog.Buckets, boards, clock, p.env.Log)
	s.Start()
	p.t.Cleanup(s.Close)
	return s
}

func (p *fixture) add(board string, items ...ledger.Increment) []ledger.Result {
	p.t.Helper()
	results, err := p.ledger.Add(p.t.Context(), board, items)
	if err != nil {
		p.t.Fatal(err)
	}
	return results
}

func (p *fixture) bucket(board string) *models.Bucket {
	p.t.Helper()
	totals, err := p.catalog.Buckets.ForIncrement(p.t.Context(), board, p.env.Clock.Now())
	if err != nil && models.CodeOf(err) != models.CodeEventNotOpen {
		p.t.Fatal(err)
	}
	return totals.Bucket
}

// inRedis returns the entries of the current bucket in Redis.
func (p *fixture) inRedis(board string) map[models.RowID]string {
	p.t.Helper()
	return entriesOf(p, p.bucket(board))
}

func entriesOf(p *fixture, bucket *models.Bucket) map[models.RowID]string {
	p.t.Helper()
	w, err := p.boards.Window(p.t.Context(), bucket, board.Top, 0, 100_000)
	if err != nil {
		p.t.Fatal(err)
	}
	entries := make(map[models.RowID]string)
	for _, e := range w.Behind {
		points, at := score.Of(bucket).Decode(e.Composite)
		entries[e.User] = scoreAt(points, at)
	}
	return entries
}

func scoreAt(points int64, at models.Timestamp) string {
	return fmt.Sprintf("%d at %s", points, at.Time().Format("15:04:05.000"))
}

// totals returns the running totals of a board.
func (p *fixture) totals(board string) []models.ScoreTotal {
	p.t.Helper()
	var totals []models.ScoreTotal
	if err := p.env.Gorm.Where("board = ?", board).Order("user_id, total").Find(&totals).Error; err != nil {
		p.t.Fatal(err)
	}
	return totals
}

// events returns the stored increments of a board.
func (p *fixture) events(board string) []models.ScoreEvent {
	p.t.Helper()
	var events []models.ScoreEvent
	if err := p.env.Gorm.Where("board = ?", board).Order("event_id").Find(&events).Error; err != nil {
		p.t.Fatal(err)
	}
	return events
}

// checkTotals checks that every total is the sum of its increments, and
// that the total named like a windowed bucket is the sum of all.
func (p *fixture) checkTotals(board string) {
	p.t.Helper()
	bucket := p.bucket(board)
	type key struct {
		user  models.RowID
		total string
	}
	want := make(map[key]int64)
	for _, e := range p.events(board) {
		want[key{e.User, e.Total}] += e.Delta
		if bucket.WindowHours > 0 {
			want[key{e.User, bucket.Name}] += e.Delta
		}
	}
	got := make(map[key]int64)
	for _, t := range p.totals(board) {
		got[key{t.User, t.Total}] = t.Score
	}
	if !maps.Equal(want, got) {
		p.t.Errorf("the increments of %s add up to\n%v, the totals are\n%v", board, want, got)
	}
}

func brief(r ledger.Result) string {
	if r.Status == ledger.Rejected {
		return fmt.Sprintf("%s rejected %s", r.EventID, models.CodeOf(r.Err))
	}
	return fmt.Sprintf("%s %s %s", r.EventID, r.Status, scoreAt(r.Score, r.ReachedAt))
}

func briefs(results []ledger.Result) []string {
	list := make([]string, len(results))
	for i, r := range results {
		list[i] = brief(r)
	}
	return list
}

func inc(user models.RowID, delta int64, id string) ledger.Increment {
	return ledger.Increment{User: user, Delta: delta, EventID: id}
}

// Each increment of a call gets its own result.
func TestAdd(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, board := range []string{"gifts", "active"} {
			p := newFixture(t, env, 100)
			env.Clock.Set(testenv.Noon)
			var got []string
			call := func(items ...ledger.Increment) { got = append(got, briefs(p.add(board, items...))...) }
			call(inc(1, 5, "a"), inc(2, 7, "b"), inc(1, 3, "c"))
			env.Clock.Advance(2 * time.Second)
			call(
				inc(1, 5, "a"), inc(1, 6, "a"), inc(2, 5, "a"), // again; with other content
				inc(1, 10, "d"), inc(1, 10, "d"), inc(1, 11, "d"), // the same within one call
				inc(3, 100, "e"), inc(3, 1, "f"), // up to the largest, and above it
				inc(4, 101, "g"), inc(4, 4, "g"), inc(4, 4, "g"), // a rejected id is not stored
				inc(4, 97, "h"), inc(4, 97, "h"), inc(4, 96, "h"),
				inc(4, math.MaxInt64, "i"), inc(1, 82, "j"),
			)
			call(inc(3, 1, "f"), inc(4, 97, "e"), inc(3, 100, "e"))
			want := []string{
				"a applied 5 at 13:00:00.000", "b applied 7 at 13:00:00.000", "c applied 8 at 13:00:00.000",
				"a duplicate 5 at 13:00:00.000", "a rejected event_id_conflict", "a rejected event_id_conflict",
				"d applied 18 at 13:00:02.000", "d duplicate 18 at 13:00:02.000", "d rejected event_id_conflict",
				"e applied 100 at 13:00:02.000", "f rejected score_out_of_range",
				"g rejected score_out_of_range", "g applied 4 at 13:00:02.000", "g duplicate 4 at 13:00:02.000",
				"h rejected score_out_of_range", "h rejected score_out_of_range", "h applied 100 at 13:00:02.000",
				"i rejected score_out_of_range", "j applied 100 at 13:00:02.000",
				"f rejected score_out_of_range", "e rejected event_id_conflict", "e duplicate 100 at 13:00:02.000",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", board, diff)
			}
			p.checkTotals(board)
			if diff := cmp.Diff(map[models.RowID]string{
				1: "100 at 13:00:02.000", 2: "7 at 13:00:00.000", 3: "100 at 13:00:02.000", 4: "100 at 13:00:02.000",
			}, p.inRedis(board)); diff != "" {
				t.Errorf("%s in Redis (-want +got):\n%s", board, diff)
			}
			if s := p.ledger.Stats(); s.Applied.Load() != 8 || s.Duplicates.Load() != 4 || s.Rejected.Load() != 10 || s.Unraised.Load() != 0 {
				t.Errorf("%d applied, %d duplicates, %d rejected, %d unraised", s.Applied.Load(), s.Duplicates.Load(), s.Rejected.Load(), s.Unraised.Load())
			}
		}
	})
}

// Malformed increments are rejected one by one; the others are counted.
func TestMalformedIncrements(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Embedded(t), 100)
	bad := []ledger.Increment{
		inc(0, 1, "x"), inc(models.MaxRowID+1, 1, "x"), inc(1, 0, "x"), inc(1, -1, "x"), inc(1, math.MinInt64, "x"),
		inc(1, 1, ""), inc(1, 1, strings.Repeat("x", 65)), inc(1, 1, "a b"), inc(1, 1, "a\x7f"), inc(1, 1, "a\n"), inc(1, 1, "ä"),
	}
	good := []ledger.Increment{inc(models.MaxRowID, 1, "!"), inc(1, 1, "~"), inc(1, 1, strings.Repeat("x", 64))}
	for i, r := range p.add("gifts", slices.Concat(bad, good)...) {
		if i < len(bad) && (r.Status != ledger.Rejected || models.CodeOf(r.Err) != models.CodeValidationFailed || r.EventID != bad[i].EventID) {
			t.Errorf("%+v: %+v", bad[i], r)
		}
		if i >= len(bad) && r.Status != ledger.Applied {
			t.Errorf("%+v: %+v", good[i-len(bad)], r)
		}
	}
	if n := len(p.events("gifts")); n != len(good) {
		t.Errorf("%d increments are stored", n)
	}
}

// An event takes increments from its start to its end. Counted ones are duplicates
// at any later time.
func TestOutsideTheEvent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100)
		env.Clock.Set(start.Add(-time.Millisecond))
		var got []string
		call := func(items ...ledger.Increment) { got = append(got, briefs(p.add("gifts", items...))...) }
		call(inc(1, 5, "a"))
		env.Clock.Set(start)
		call(inc(1, 5, "a"))
		env.Clock.Set(start.AddDate(0, 0, 10).Add(-time.Millisecond))
		call(inc(1, 4, "b"))
		env.Clock.Set(start.AddDate(0, 0, 10))
		call(inc(1, 5, "a"), inc(1, 4, "b"), inc(1, 3, "b"), inc(1, 1, "c"), inc(1, 1, "c"))
		want := []string{
			"a rejected event_not_open", "a applied 5 at 12:00:00.000", "b applied 9 at 11:59:59.999",
			"a duplicate 5 at 12:00:00.000", "b duplicate 9 at 11:59:59.999", "b rejected event_id_conflict",
			"c rejected event_not_open", "c rejected event_not_open",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for board, want := range map[string]models.Code{"nix": models.CodeBoardNotFound, "steps": models.CodeBoardKind} {
			if board == "steps" {
				if err := p.catalog.Definitions.Define(t.Context(), env.Config.BoardDefinitions()); err != nil {
					t.Fatal(err)
				}
			}
			for _, items := range [][]ledger.Increment{{inc(1, 1, "x")}, nil} {
				if _, err := p.ledger.Add(t.Context(), board, items); models.CodeOf(err) != want {
					t.Errorf("%s: %v, want %s", board, err, want)
				}
			}
		}
	})
}

// A clock that is behind does not move the time of a total back.
func TestReachedAtNeverGoesBackwards(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100)
		for _, board := range []string{"gifts", "active"} {
			env.Clock.Set(testenv.Noon.Add(1500 * time.Millisecond))
			p.add(board, inc(1, 1, "a"))
			env.Clock.Set(testenv.Noon.Add(500 * time.Millisecond))
			got := brief(p.add(board, inc(1, 1, "b"))[0])
			want := map[string]string{"gifts": "b applied 2 at 13:00:01.500", "active": "b applied 2 at 13:00:01.000"}[board]
			if got != want {
				t.Errorf("%s: %s, want %s", board, got, want)
			}
		}
	})
}

// reference counts one increment after the other in memory.
type reference struct {
	largest int64
	window  models.Hour // 0 on an event board
	known   map[string]known
	totals  map[models.RowID]map[models.Hour]int64
	reached map[models.RowID]map[models.Hour]models.Timestamp
}

type known struct {
	increment ledger.Increment
	result    string
}

func (m *reference) add(i ledger.Increment, now time.Time) string {
	if first, ok := m.known[i.EventID]; ok {
		if first.increment != i {
			return i.EventID + " rejected event_id_conflict"
		}
		return i.EventID + " duplicate " + first.result
	}
	hour, reachedAt := models.Hour(0), models.TimestampOf(now)
	if m.window > 0 {
		hour, reachedAt = models.HourOf(now), models.TimestampOf(now.Truncate(time.Second))
	}
	points := i.Delta
	for h, total := range m.totals[i.User] {
		if h > hour-m.window || m.window == 0 {
			points += total
		}
	}
	if points > m.largest {
		return i.EventID + " rejected score_out_of_range"
	}
	if m.totals[i.User] == nil {
		m.totals[i.User], m.reached[i.User] = make(map[models.Hour]int64), make(map[models.Hour]models.Timestamp)
	}
	m.totals[i.User][hour] += i.Delta
	m.reached[i.User][hour] = max(m.reached[i.User][hour], reachedAt)
	result := scoreAt(points, m.reached[i.User][hour])
	m.known[i.EventID] = known{i, result}
	return i.EventID + " applied " + result
}

// Random calls have the results that their increments would have one by one.
func TestAgainstAReference(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, board := range []string{"gifts", "active"} {
			const largest = 250
			p := newFixture(t, env, largest)
			env.Clock.Set(testenv.Noon)
			m := &reference{
				largest: largest, known: make(map[string]known),
				totals: make(map[models.RowID]map[models.Hour]int64), reached: make(map[models.RowID]map[models.Hour]models.Timestamp),
			}
			m.window = models.Hour(p.bucket(board).WindowHours)
			rng := rand.New(rand.NewPCG(3, 4))
			statuses := make(map[string]int)
			calls := 150
			if env.Pool == nil {
				calls = 30
			}
			for call := range calls {
				env.Clock.Advance(time.Duration(rng.IntN(400_000)) * time.Millisecond)
				items := make([]ledger.Increment, 1+rng.IntN(20))
				want := make([]string, len(items))
				for i := range items {
					id := rng.IntN(10 * calls)
					items[i] = inc(models.RowID(1+id%10), int64(1+id%17), fmt.Sprint("id-", id))
					if rng.IntN(20) == 0 {
						items[i].Delta++ // a conflict, if it is not the first
					}
					want[i] = m.add(items[i], env.Clock.Now())
					statuses[strings.Join(strings.Fields(want[i])[1:2], "")]++
				}
				if diff := cmp.Diff(want, briefs(p.add(board, items...))); diff != "" {
					t.Fatalf("%s, call %d (-want +got):\n%s", board, call, diff)
				}
			}
			if statuses["applied"] < calls || statuses["duplicate"] < calls/3 || statuses["rejected"] < calls/3 {
				t.Errorf("%s: a test of %v", board, statuses)
			}
			p.checkTotals(board)
		}
	})
}

// With concurrent calls to two replicas and the same ids, each increment is counted
// once. There is one order of counting that explains all results, and the totals
// and boards agree with it.
func TestConcurrentIncrements(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, board := range []string{"gifts", "active"} {
			const largest = 250
			p := newFixture(t, env, largest)
			services := []*ledger.Service{p.ledger, p.replica(p.boards, env.Clock.Now)}
			callers, calls := 16, 40
			if env.Pool == nil {
				callers, calls = 4, 15
			}
			var (
				wg  sync.WaitGroup
				mu  sync.Mutex
				all = make(map[string][]ledger.Result)
				of  = make(map[string]ledger.Increment)
				out []ledger.Increment // rejected because of the largest score
			)
			for c := range callers {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(5, uint64(c)))
					for range calls {
						env.Clock.Advance(time.Duration(rng.IntN(20)) * time.Millisecond)
						items := make([]ledger.Increment, 1+rng.IntN(30))
						for i := range items {
							id := rng.IntN(callers * calls * 12)
							items[i] = inc(models.RowID(1+id%20), int64(1+id%23), fmt.Sprint("id-", id))
						}
						results, err := services[c%2].Add(t.Context(), board, items)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for i, r := range results {
							all[r.EventID] = append(all[r.EventID], r)
							of[r.EventID] = items[i]
							if r.Status == ledger.Rejected {
								out = append(out, items[i])
							}
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			chains := make(map[models.RowID][]ledger.Result)
			for id, results := range all {
				var applied []ledger.Result
				for _, r := range results {
					if r.Status == ledger.Applied {
						applied = append(applied, r)
					}
				}
				if len(applied) > 1 {
					t.Errorf("%s was counted %d times", id, len(applied))
				}
				for _, r := range results {
					switch {
					case r.Status == ledger.Duplicate && (len(applied) == 0 || applied[0].Score != r.Score || applied[0].ReachedAt != r.ReachedAt):
						t.Errorf("%s: duplicate %+v of %+v", id, r, applied)
					case r.Status == ledger.Rejected && models.CodeOf(r.Err) != models.CodeScoreOutOfRange:
						t.Errorf("%s: %v", id, r.Err)
					}
				}
				chains[of[id].User] = append(chains[of[id].User], applied...)
			}
			want := make(map[models.RowID]string)
			final := make(map[models.RowID]int64)
			for user, chain := range chains {
				slices.SortFunc(chain, func(a, b ledger.Result) int { return int(a.Score - b.Score) })
				var points int64
				var at models.Timestamp
				for _, r := range chain {
					points += of[r.EventID].Delta
					if r.Score != points || r.ReachedAt < at {
						t.Fatalf("user %d: %+v comes behind %s", user, r, scoreAt(points, at))
					}
					at = r.ReachedAt
				}
				final[user], want[user] = points, scoreAt(points, at)
			}
			for _, i := range out {
				if final[i.User]+i.Delta <= largest {
					t.Errorf("%+v was rejected, and the user has %d", i, final[i.User])
				}
			}
			p.checkTotals(board)
			if diff := cmp.Diff(want, p.inRedis(board)); diff != "" {
				t.Errorf("%s in Redis (-want +got):\n%s", board, diff)
			}
			if len(out) == 0 || services[0].Stats().Duplicates.Load() == 0 {
				t.Errorf("%s: %d rejected, %d duplicates", board, len(out), services[0].Stats().Duplicates.Load())
			}
			if board == "gifts" && env.Pool != nil {
				t.Logf("%d retries", services[0].Stats().Retries.Load()+services[1].Stats().Retries.Load())
			}
		}
	})
}

// Concurrent lists with the same ids in different orders, for the same users or for
// others, do not deadlock.
func TestOverlappingListsDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	for _, board := range []string{"gifts", "active"} {
		p := newFixture(t, env, 1_000_000)
		services := []*ledger.Service{p.ledger, p.replica(p.boards, env.Clock.Now), p.replica(p.boards, env.Clock.Now)}
		before := deadlocks(t, env)
		for round := range 10 {
			var items []ledger.Increment
			for i := range 200 {
				items = append(items, inc(models.RowID(1+i%150), 1, fmt.Sprintf("%d-%d", round, i)))
			}
			var wg sync.WaitGroup
			for c := range 9 {
				wg.Go(func() {
					own := slices.Clone(items)
					for i := range own { // in odd rounds they meet at the ids, not at the totals
						own[i].User += models.RowID(c * 1000 * (round % 2))
					}
					rng := rand.New(rand.NewPCG(uint64(round), uint64(c)))
					rng.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
					if _, err := services[c%3].Add(t.Context(), board, own); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		if n := len(p.events(board)); n != 2000 {
			t.Errorf("%d increments are stored", n)
		}
		p.checkTotals(board)
		if n := deadlocks(t, env) - before; n > 0 {
			t.Errorf("%d deadlocks", n)
		}
	}
}

// deadlocks returns the number of deadlocks of the server so far.
func deadlocks(t *testing.T, env *testenv.Env) (n int64) {
	t.Helper()
	if err := env.Pool.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// At the turn of the hour no window passes the largest score, even if the clocks of
// replicas differ.
func TestTheTurnOfTheHour(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	const largest = 60
	p := newFixture(t, env, largest)
	env.Clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	for user := range models.RowID(20) {
		p.add("active", inc(user+1, 5, fmt.Sprint("before-", user)))
	}
	services := p.atTheTurn()
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for n := range 15 {
				for user := range models.RowID(20) {
					if _, err := services[c%2].Add(t.Context(), "active", []ledger.Increment{inc(user+1, 1, fmt.Sprintf("%d-%d-%d", c, n, user))}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	for user := range models.RowID(20) {
		// Clients of the faster replica were rejected only when the window was full.
		if sum := p.sumOf(user + 1); sum != largest {
			t.Errorf("user %d has %d in the window that begins at 13:00, and at most %d fit", user+1, sum, largest)
		}
	}
	p.checkTotals("active")
}

// atTheTurn returns two replicas. The clock of the second is in the next hour.
func (p *fixture) atTheTurn() [2]*ledger.Service {
	slow := testenv.NewClock(time.Date(2026, 11, 20, 14, 59, 59, 0, time.UTC))
	fast := testenv.NewClock(time.Date(2026, 11, 20, 15, 0, 1, 0, time.UTC))
	return [2]*ledger.Service{p.replica(p.boards, slow.Now), p.replica(p.boards, fast.Now)}
}

// sumOf returns the sum of a user's totals of the two hours around the turn.
func (p *fixture) sumOf(user models.RowID) (sum int64) {
	p.t.Helper()
	for _, total := range p.totals("active") {
		if total.User == user && (total.Total == "2026112014" || total.Total == "2026112015") {
			sum += total.Score
		}
	}
	return sum
}

// Increments of a user in different hours are serialized: the window of the second
// includes the first, even if that is not committed when the second begins.
func TestHoursTakeTurns(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env, 10)
	p.store.WaitForLocks(time.Hour)
	p.bucket("active")
	services := p.atTheTurn()
	results := make([]string, 2)
	var wg sync.WaitGroup
	add := func(i int, id string) (done chan struct{}) {
		done = make(chan struct{})
		wg.Go(func() {
			defer close(done)
			got, err := services[i].Add(t.Context(), "active", []ledger.Increment{inc(1, 6, id)})
			if err != nil {
				t.Error(err)
				return
			}
			results[i] = brief(got[0])
		})
		return done
	}
	// An uncommitted row with the id of the first one blocks it at its last step.
	held := errors.New("never mind")
	err := env.Gorm.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&models.ScoreEvent{Board: "active", EventID: "slow", Total: "x", User: 2, Delta: 1}).Error; err != nil {
			return err
		}
		add(0, "slow")
		blocked := func(n int) bool {
			var waiting int
			err := env.Gorm.Raw(`
				WITH RECURSIVE waiting (pid) AS (
					SELECT pg_backend_pid() WHERE false
					UNION SELECT a.pid FROM pg_stat_activity a WHERE ? = ANY(pg_blocking_pids(a.pid))
					UNION SELECT a.pid FROM pg_stat_activity a JOIN waiting w ON w.pid = ANY(pg_blocking_pids(a.pid))
				) SELECT count(*) FROM waiting`, backend(tx)).Scan(&waiting).Error
			return err == nil && waiting == n
		}
		testenv.Eventually(t, "the first one waits", func() bool { return blocked(1) })
		fast := add(1, "fast")
		testenv.Eventually(t, "the second one waits for it, or does not", func() bool {
			select {
			case <-fast:
				return true
			default:
				return blocked(2)
			}
		})
		return held
	})
	wg.Wait()
	if !errors.Is(err, held) {
		t.Fatal(err)
	}
	want := []string{"slow applied 6 at 14:59:59.000", "fast rejected score_out_of_range"}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// backend returns the id of the server process that runs the transaction.
func backend(tx *gorm.DB) (pid int) {
	tx.Raw(`SELECT pg_backend_pid()`).Scan(&pid)
	return pid
}

// Calls that arrive while the database is busy share one transaction.
func TestCallsShareTransactions(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env, 1000)
	p.store.WaitForLocks(time.Hour)
	p.add("gifts", inc(1, 1, "one"), inc(2, 1, "two"))
	const calls = 50
	var wg sync.WaitGroup
	add := func(user models.RowID, id string) {
		wg.Go(func() {
			if _, err := p.ledger.Add(t.Context(), "gifts", []ledger.Increment{inc(user, 1, id)}); err != nil {
				t.Error(err)
			}
		})
	}
	err := env.Gorm.Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(`SELECT FROM score_totals FOR UPDATE`).Error; err != nil {
			return err
		}
		pid, blocked := backend(tx), 0
		add(1, "blocked")
		testenv.Eventually(t, "a transaction waits", func() bool {
			err := env.Gorm.Raw(`SELECT count(*) FROM pg_stat_activity WHERE ? = ANY(pg_blocking_pids(pid))`, pid).Scan(&blocked).Error
			return err == nil && blocked == 1
		})
		for i := range calls {
			add(1, fmt.Sprint("waiting-", i))
		}
		testenv.Eventually(t, "calls wait", func() bool { return p.ledger.Waiting() == calls })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if got := brief(p.add("gifts", inc(1, 1, "last"))[0]); got != "last applied 53 at 13:00:00.000" {
		t.Error(got)
	}
	// One before, one that was blocked, one for all that waited, and one after.
	if n := p.ledger.Stats().Flushes.Load(); n != 4 {
		t.Errorf("%d transactions for %d calls", n, calls)
	}
}

// If the database is away, nothing is acknowledged.
func TestADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100)
		p.add("gifts", inc(1, 1, "a"))
		if err := env.Close(); err != nil {
			t.Fatal(err)
		}
		if results, err := p.ledger.Add(t.Context(), "gifts", []ledger.Increment{inc(1, 1, "b")}); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("%v, %v", results, err)
		}
	})
}

// faultyBoards are boards that fail on request.
type faultyBoards struct {
	ledger.Boards
	mu   sync.Mutex
	away bool
	// hang, unless it is nil, blocks raises until it is closed.
	hang chan struct{}
}

func (l *faultyBoards) Raise(ctx context.Context, raises []models.Raise) []error {
	l.mu.Lock()
	away, hang := l.away, l.hang
	l.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if away {
		return slices.Repeat([]error{models.Unavailable("raise", errors.New("away"))}, len(raises))
	}
	return l.Boards.Raise(ctx, raises)
}

// Increments are counted if Redis is away or hangs.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100)
		boards := &faultyBoards{Boards: p.boards, away: true}
		s := p.replica(boards, env.Clock.Now)
		add := func(want string, i ledger.Increment) {
			t.Helper()
			if results, err := s.Add(t.Context(), "gifts", []ledger.Increment{i}); err != nil || brief(results[0]) != want {
				t.Errorf("%v, %v, want %s", results, err, want)
			}
		}
		add("a applied 1 at 13:00:00.000", inc(1, 1, "a"))
		if got, n := p.inRedis("gifts"), s.Stats().Unraised.Load(); len(got) != 0 || n != 1 {
			t.Errorf("%v on the board, %d unraised", got, n)
		}
		release := make(chan struct{})
		boards.mu.Lock()
		boards.away, boards.hang = false, release
		boards.mu.Unlock()
		for i, id := range []string{"b", "c", "d"} { // more than may be under way
			add(fmt.Sprintf("%s applied %d at 13:00:00.000", id, i+2), inc(1, 1, id))
		}
		if n := s.Stats().Unraised.Load(); n != 2 {
			t.Errorf("%d unraised", n)
		}
		close(release)
		s.Close() // waits for the raises that hang
		if got := p.inRedis("gifts")[1]; got != "3 at 13:00:00.000" {
			t.Errorf("on the board: %s", got)
		}
	})
}
