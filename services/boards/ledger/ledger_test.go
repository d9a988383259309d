package ledger_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/ledger"
	"stepboard/services/boards/score"
	"stepboard/services/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the event of the tests starts. It lasts for ten days.
var start = testenv.Noon.Add(-time.Hour)

// fixture holds a ledger with event boards: "gifts", "sales", which takes increments up to two days
// late, and "contest", which does so and takes the best; and a rolling board of three hours, "active".
type fixture struct {
	t       *testing.T
	env     *testenv.Env
	catalog *catalog.Catalog
	boards  board.Entries
	store   *ledger.Store
	ledger  *ledger.Service
}

func newFixture(t *testing.T, env *testenv.Env, largest int64) *fixture {
	t.Helper()
	end := start.AddDate(0, 0, 10)
	p := &fixture{
		t: t, env: env, catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log),
		boards: servicetest.Entries(env, env.Clock.Now, nil), store: ledger.NewStore(env.Gorm, env.Gorm, env.Pool),
	}
	def := func(name string, kind models.Kind) models.Board {
		return models.Board{Name: name, Kind: kind, TimeZone: "Asia/Shanghai", MaxScore: largest, Shards: 2, Global: models.AudienceUsers}
	}
	gifts, active := def("gifts", models.KindEvent), def("active", models.KindRolling)
	gifts.StartsAt, gifts.EndsAt, active.WindowHours = &start, &end, 3
	sales := gifts
	sales.Name, sales.Late = "sales", 48*time.Hour
	contest := sales
	contest.Name, contest.Takes = "contest", models.TakesBest
	if err := p.catalog.Definitions.Define(t.Context(), []models.Board{gifts, active, sales, contest}); err != nil {
		t.Fatal(err)
	}
	p.ledger = p.replica(p.boards, env.Clock.Now)
	return p
}

// replica returns the service of another process on the same stores.
func (p *fixture) replica(boards board.Writer, clock models.Clock) *ledger.Service {
	s := ledger.New(p.store, p.catalog.Buckets, testenv.Numbers{}, boards, clock, p.env.Log)
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
	const page = 10_000 // more take too long on a busy machine
	entries := make(map[models.RowID]string)
	for last := board.Top; ; {
		w, err := p.boards.Window(p.t.Context(), bucket, last, 0, page)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range w.Behind {
			points, at := score.Of(bucket).Decode(e.Composite)
			entries[e.User] = scoreAt(bucket.Score(points), at)
			last = e
		}
		if len(w.Behind) < page {
			return entries
		}
	}
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

// rowOf returns the row of a user whose id is a number.
func rowOf(user models.UserID) models.RowID { return testenv.Must(models.ParseRowID(string(user))) }

// checkTotals checks that every total is the sum or the best of its increments, and
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
		if k := (key{e.User, e.Total}); bucket.Best {
			want[k] = max(want[k], e.Delta)
		} else {
			want[k] += e.Delta
		}
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
	return ledger.Increment{User: testenv.ID(user), Amount: delta, EventID: id}
}

// Malformed increments are rejected one by one; the others are counted.
func TestMalformedIncrements(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Local(t), 100)
	bad := []ledger.Increment{
		{User: "", Amount: 1, EventID: "x"}, {User: "a b", Amount: 1, EventID: "x"}, inc(1, -1, "x"), inc(1, math.MinInt64, "x"),
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
