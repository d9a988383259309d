package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// testLargest is the largest score on the boards of these tests.
const testLargest = 20

var (
	testEvent   = &models.Bucket{Board: "gifts", Name: "event", MaxScore: testLargest, FromLedger: true}
	testBest    = &models.Bucket{Board: "contest", Name: "event", MaxScore: testLargest, FromLedger: true, Best: true}
	testRolling = &models.Bucket{Board: "active", Name: "live", MaxScore: testLargest, WindowHours: 3}
	errClosed   = models.Errorf(models.CodeEventNotOpen, "closed")
)

// onEvent returns an increment on the event board, at a number of milliseconds.
func onEvent(user models.RowID, delta int64, id string, at models.Timestamp) *increment {
	return in(testEvent, user, delta, id, at)
}

// onBest returns a result on the board that takes the best.
func onBest(user models.RowID, result int64, id string, at models.Timestamp) *increment {
	return in(testBest, user, result, id, at)
}

func in(event *models.Bucket, user models.RowID, amount int64, id string, at models.Timestamp) *increment {
	return &increment{
		Increment: Increment{User: testenv.ID(user), Amount: amount, Result: event.Best, EventID: id}, row: user, board: event.Board,
		totals: models.TotalRange{Bucket: event, Total: "event", Since: "event"}, acceptedAt: at, reachedAt: at,
	}
}

// onRolling returns an increment on the rolling board, in an hour of two digits.
func onRolling(user models.RowID, delta int64, id string, hour int) *increment {
	at := models.Timestamp(hour * 1000)
	return &increment{
		Increment: Increment{User: testenv.ID(user), Amount: delta, EventID: id}, row: user, board: testRolling.Board,
		totals:     models.TotalRange{Bucket: testRolling, Total: fmt.Sprintf("%02d", hour), Since: fmt.Sprintf("%02d", hour-2)},
		acceptedAt: at, reachedAt: at,
	}
}

// onClosed returns an increment on the event board while it is closed.
func onClosed(user models.RowID, delta int64, id string) *increment {
	inc := onEvent(user, delta, id, 0)
	inc.closed = errClosed
	return inc
}

func knownEvents(events ...models.ScoreEvent) map[eventKey]knownEvent {
	known := make(map[eventKey]knownEvent)
	for _, e := range events {
		known[eventKey{e.Board, e.EventID}] = knownEvent{ScoreEvent: e}
	}
	return known
}

// describe writes a decision as text: one line for each increment and each
// addition.
func describe(d decision, increments []*increment) []string {
	lines := make([]string, len(increments))
	for i, r := range d.results {
		if lines[i] = describeResult(r); r.Status == "" {
			lines[i] = "left out"
		}
	}
	for _, i := range d.accepted {
		lines[i] = increments[i].EventID + " counts"
	}
	for _, r := range d.repeats {
		lines[r.again] = fmt.Sprintf("%s repeats %d", increments[r.again].EventID, r.first)
	}
	for _, a := range d.additions {
		lines = append(lines, fmt.Sprintf("%s %d %s +%d", a.board, a.user, a.name, a.score))
	}
	return lines
}

func describeResult(r Result) string {
	if r.Status == Rejected {
		return fmt.Sprintf("%s rejected %s", r.EventID, models.CodeOf(r.Err))
	}
	return fmt.Sprintf("%s %s %d at %d", r.EventID, r.Status, r.Score, r.ReachedAt)
}

func TestDecide(t *testing.T) {
	t.Parallel()
	counted := models.ScoreEvent{Board: "gifts", EventID: "a", User: 1, Delta: 5, Score: 7, ReachedAt: time.UnixMilli(3)}
	full := map[windowKey]int64{{"gifts", 1, "event"}: 18}
	tests := []struct {
		name       string
		state      state
		increments []*increment
		want       []string
	}{
		{"nothing", state{}, nil, []string{}},
		{
			"new ids count, in the order of their totals", state{},
			[]*increment{onEvent(2, 5, "a", 1), onEvent(1, 4, "b", 2), onEvent(2, 1, "c", 3)},
			[]string{"a counts", "b counts", "c counts", "gifts 1 event +4", "gifts 2 event +6"},
		},
		{
			"an id that was counted is a duplicate, or a conflict", state{known: knownEvents(counted)},
			[]*increment{onEvent(1, 5, "a", 9), onEvent(1, 6, "a", 9), onEvent(2, 5, "a", 9)},
			[]string{"a duplicate 7 at 3", "a rejected event_id_conflict", "a rejected event_id_conflict"},
		},
		{
			"the second of an id repeats the first, whatever it holds", state{},
			[]*increment{onEvent(1, 5, "b", 1), onEvent(1, 5, "b", 1), onEvent(2, 6, "b", 1)},
			[]string{"b counts", "b repeats 0", "b repeats 0", "gifts 1 event +5"},
		},
		{
			"the same id on two boards counts twice", state{},
			[]*increment{onEvent(1, 5, "b", 1), onRolling(1, 5, "b", 12)},
			[]string{"b counts", "b counts", "active 1 12 +5", "active 1 live +5", "gifts 1 event +5"},
		},
		{
			"without sums only a delta can be too large", state{},
			[]*increment{onEvent(1, testLargest, "b", 1), onEvent(1, 1, "c", 1), onEvent(1, testLargest+1, "d", 1), onEvent(2, math.MaxInt64, "e", 1)},
			[]string{"b counts", "c counts", "d rejected score_out_of_range", "e rejected score_out_of_range", "gifts 1 event +21"},
		},
		{
			"with sums no score passes the largest", state{sums: full},
			[]*increment{onEvent(1, 3, "b", 1), onEvent(1, 2, "c", 1), onEvent(1, 1, "d", 1), onEvent(2, testLargest, "e", 1)},
			[]string{"b rejected score_out_of_range", "c counts", "d rejected score_out_of_range", "e counts", "gifts 1 event +2", "gifts 2 event +20"},
		},
		{
			"a rejected id may count when it comes again", state{sums: full},
			[]*increment{onEvent(1, 3, "b", 1), onEvent(1, 2, "b", 1), onEvent(1, 2, "b", 1)},
			[]string{"b rejected score_out_of_range", "b counts", "b repeats 1", "gifts 1 event +2"},
		},
		{
			"while the board is closed only ids that were counted are duplicates", state{known: knownEvents(counted)},
			[]*increment{onClosed(1, 5, "a"), onClosed(1, 5, "b"), onEvent(1, 5, "c", 1), onClosed(1, 5, "c")},
			[]string{"a duplicate 7 at 3", "b rejected event_not_open", "c counts", "c repeats 2", "gifts 1 event +5"},
		},
		{
			"hours count in every window that they lie in", state{sums: map[windowKey]int64{{"active", 1, "10"}: 10, {"active", 1, "11"}: 5}},
			[]*increment{onRolling(1, 8, "a", 13), onRolling(1, 3, "b", 12), onRolling(1, 2, "c", 12), onRolling(1, 5, "d", 13)},
			[]string{
				"a counts", "b rejected score_out_of_range", "c counts", "d counts",
				"active 1 12 +2", "active 1 13 +13", "active 1 live +15",
			},
		},
		{
			"an increment of 0 counts", state{},
			[]*increment{onEvent(1, 0, "a", 1), onEvent(2, 0, "b", 1), onEvent(2, 3, "c", 1)},
			[]string{"a counts", "b counts", "c counts", "gifts 1 event +0", "gifts 2 event +3"},
		},
		{
			"the best of results counts, behind the sums, and no result passes the largest", state{sums: full},
			[]*increment{onBest(1, 0, "a", 1), onBest(2, 7, "b", 1), onBest(2, 9, "c", 1), onBest(2, testLargest+1, "d", 1), onEvent(3, 1, "e", 1)},
			[]string{"a counts", "b counts", "c counts", "d rejected score_out_of_range", "e counts", "gifts 3 event +1", "contest 1 event +0", "contest 2 event +9"},
		},
		{
			"increments of locked users are left out, with later ones that have their ids",
			state{known: knownEvents(counted), locked: map[userKey]bool{{"gifts", 1}: true}, sums: full},
			[]*increment{
				onEvent(1, 5, "a", 1), onEvent(2, 1, "b", 1), onEvent(1, 1, "b", 1), onEvent(1, 1, "c", 1), onEvent(2, 1, "c", 1),
				onEvent(2, 1, "d", 1), onRolling(1, 1, "e", 12), onClosed(1, 1, "f"),
			},
			[]string{
				"a duplicate 7 at 3", "b counts", "b repeats 1", "left out", "left out", "d counts", "e counts", "f rejected event_not_open",
				"active 1 12 +1", "active 1 live +1", "gifts 2 event +2",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, describe(decide(tt.state, tt.increments), tt.increments)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestProbed(t *testing.T) {
	t.Parallel()
	increments := []*increment{
		onRolling(1, 1, "a", 12), onRolling(1, 1, "b", 13), onRolling(2, 1, "c", 13), onRolling(3, 1, "d", 13), onEvent(1, 1, "e", 1), onEvent(2, 1, "f", 1),
	}
	excluded := map[userKey]bool{{"gifts", 1}: true}
	s := state{locked: excluded}
	totals := newLayout(increments, s).totals
	// Totals 12, 13 and live of user 1; 13 and live of users 2 and 3; the event of
	// user 2.
	s = s.probed(totals, []rowState{free, absent, locked, absent, free, absent, absent, absent})
	if diff := cmp.Diff(map[userKey]bool{{"gifts", 1}: true, {"active", 1}: true}, s.locked, cmp.AllowUnexported(userKey{})); diff != "" {
		t.Errorf("locked (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[userKey]bool{{"gifts", 2}: true, {"active", 3}: true}, s.fresh, cmp.AllowUnexported(userKey{})); diff != "" {
		t.Errorf("fresh (-want +got):\n%s", diff)
	}
	if len(excluded) != 1 {
		t.Error("the state before has changed")
	}
}

func TestAssignScores(t *testing.T) {
	t.Parallel()
	increments := []*increment{
		onRolling(1, 5, "a", 12), onRolling(1, 3, "b", 13), onRolling(1, 5, "a", 12), onRolling(1, 1, "c", 12), onRolling(1, 9, "b", 13),
	}
	d := decide(state{}, increments)
	// Totals 12, 13 and live; the windows from 10 and from 11 on.
	after := balances{totals: []balance{{10, 12_500, true}, {3, 13_000, true}, {99, 13_000, true}}, windows: []int64{17, 14}}
	out, ok := assignScores(increments, d, after)
	var got []string
	for _, r := range out.results {
		got = append(got, describeResult(r))
	}
	want := []string{"a applied 13 at 12500", "b applied 13 at 13000", "a duplicate 13 at 12500", "c applied 17 at 12500", "b rejected event_id_conflict"}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("%t (-want +got):\n%s", ok, diff)
	}
	after.windows[0] = testLargest + 1
	if out, ok := assignScores(increments, d, after); ok {
		t.Errorf("a score above the largest was assigned: %+v", out.results)
	}
}

// memoryStore holds increments and running totals in memory.
type memoryStore struct {
	events map[eventKey]models.ScoreEvent
	totals map[totalKey]balance
	// counted has the increments of each total, in the order in which they were counted one by one.
	counted map[totalKey][]balance
}

func newMemoryStore() *memoryStore {
	return &memoryStore{make(map[eventKey]models.ScoreEvent), make(map[totalKey]balance), make(map[totalKey][]balance)}
}

// define returns what increments make up, by the definition.
func define(best bool, increments []balance) balance {
	all := balance{stored: true}
	for _, inc := range increments {
		if best {
			all.score = max(all.score, inc.score)
		} else {
			all.score += inc.score
		}
	}
	var times []models.Timestamp
	for _, inc := range increments {
		if best && inc.score == all.score || !best && (inc.score > 0 || all.score == 0) {
			times = append(times, inc.reachedAt)
		}
	}
	if all.reachedAt = slices.Min(times); !best && all.score > 0 {
		all.reachedAt = slices.Max(times)
	}
	return all
}

// sum returns the score of the window that an increment counts in.
func (b *memoryStore) sum(inc *increment) (sum int64) {
	for key, total := range b.totals {
		if key.board == inc.board && key.user == inc.row && key.name >= inc.totals.Since && key.name != testRolling.Name {
			sum += total.score
		}
	}
	return sum
}

// countOne adds an increment to a total by the definition.
func (b *memoryStore) countOne(key totalKey, inc *increment) {
	b.counted[key] = append(b.counted[key], balance{inc.Amount, inc.reachedAt, true})
	b.totals[key] = define(inc.totals.Bucket.Best, b.counted[key])
}

// attempt counts the increments with the functions under test, as
// Service.attempt does with a database.
func (b *memoryStore) attempt(t *rapid.T, increments []*increment, careful bool) (outcome, bool) {
	s := state{known: make(map[eventKey]knownEvent)}
	for key, e := range b.events {
		s.known[key] = knownEvent{e, b.totals[totalKey{e.Board, e.User, e.Total}]}
	}
	if careful {
		s.sums = make(map[windowKey]int64)
		for _, inc := range increments {
			s.sums[windowKey{inc.board, inc.row, inc.totals.Since}] = b.sum(inc)
		}
	}
	given := fmt.Sprintf("%+v", s)
	d := decide(s, increments)
	if given != fmt.Sprintf("%+v", s) {
		t.Fatal("decide changes its state")
	}
	for i := 1; i < len(d.additions); i++ {
		if d.additions[i-1].compare(d.additions[i].total) >= 0 {
			t.Fatalf("the additions are out of order: %v", describe(d, increments))
		}
	}
	next := &memoryStore{maps.Clone(b.events), maps.Clone(b.totals), nil}
	after := balances{}
	for _, a := range d.additions {
		next.totals[a.totalKey] = next.totals[a.totalKey].join(a.bucket.Best, a.balance)
		after.totals = append(after.totals, next.totals[a.totalKey])
	}
	for _, w := range d.summed {
		at := slices.IndexFunc(increments, func(inc *increment) bool {
			return windowKey{inc.board, inc.row, inc.totals.Since} == w.windowKey
		})
		after.windows = append(after.windows, next.sum(increments[at]))
	}
	out, ok := assignScores(increments, d, after)
	if !ok {
		return out, false
	}
	for _, e := range out.events {
		next.events[eventKey{e.Board, e.EventID}] = e
	}
	*b = *next
	return out, true
}

// countOneByOne counts the increments without the functions under test. Only the
// times are those of a flush, and the best scores: all increments that one total got have the same.
func (b *memoryStore) countOneByOne(increments []*increment) []Result {
	results := make([]Result, len(increments))
	first := make(map[eventKey]int)
	again := func(i int, user models.RowID, amount, points int64, at models.Timestamp) {
		inc := increments[i]
		if inc.row != user || inc.Amount != amount {
			results[i] = Result{EventID: inc.EventID, Status: Rejected, Err: models.Errorf(models.CodeEventIDConflict, "")}
			return
		}
		results[i] = Result{EventID: inc.EventID, Status: Duplicate, Score: points, ReachedAt: at}
	}
	for i, inc := range increments {
		event, stored := b.events[inc.key()]
		_, repeated := first[inc.key()]
		switch {
		case stored:
			again(i, event.User, event.Delta, event.Score, models.TimestampOf(event.ReachedAt))
		case repeated: // once all times are known
		case inc.closed != nil:
			results[i] = Result{EventID: inc.EventID, Status: Rejected, Err: inc.closed}
		case inc.Amount > testLargest, !inc.Result && b.sum(inc)+inc.Amount > testLargest:
			results[i] = Result{EventID: inc.EventID, Status: Rejected, Err: models.Errorf(models.CodeScoreOutOfRange, "")}
		default:
			first[inc.key()] = i
			b.countOne(totalKey{inc.board, inc.row, inc.totals.Total}, inc)
			if inc.board == testRolling.Board {
				b.countOne(totalKey{inc.board, inc.row, testRolling.Name}, inc)
			}
			results[i] = Result{EventID: inc.EventID, Status: Applied, Score: b.sum(inc)}
		}
	}
	for i, inc := range increments {
		if results[i].Status == Applied {
			total := b.totals[totalKey{inc.board, inc.row, inc.totals.Total}]
			if results[i].ReachedAt = total.reachedAt; inc.Result {
				results[i].Score = total.score
			}
			b.events[inc.key()] = models.ScoreEvent{
				Board: inc.board, EventID: inc.EventID, Total: inc.totals.Total, User: inc.row, Delta: inc.Amount,
				AcceptedAt: inc.acceptedAt.Time(), Score: results[i].Score, ReachedAt: results[i].ReachedAt.Time(),
			}
		}
	}
	for i, inc := range increments {
		if results[i].Status == "" {
			at := first[inc.key()]
			again(i, increments[at].row, increments[at].Amount, results[at].Score, results[at].ReachedAt)
		}
	}
	return results
}

func drawIncrement(t *rapid.T) *increment {
	user := models.RowID(rapid.IntRange(1, 2).Draw(t, "user"))
	delta := rapid.Int64Range(0, testLargest+1).Draw(t, "delta")
	if rapid.IntRange(0, 3).Draw(t, "small") > 0 {
		delta %= 4
	}
	id := rapid.StringMatching("[a-h]").Draw(t, "id")
	switch rapid.SampledFrom([]string{"event", "best", "rolling", "rolling", "closed"}).Draw(t, "board") {
	case "best":
		return onBest(user, delta, id, models.Timestamp(rapid.IntRange(1, 9).Draw(t, "at")))
	case "rolling":
		delta = max(delta, 1)
		return onRolling(user, delta, id, rapid.IntRange(12, 16).Draw(t, "hour"))
	case "closed":
		return onClosed(user, delta, id)
	default:
		return onEvent(user, delta, id, models.Timestamp(rapid.IntRange(1, 9).Draw(t, "at")))
	}
}

// A flush leads to the same results and totals as counting its increments one by
// one, whether it needs a careful attempt or not.
func TestAFlushEqualsCountingOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		flushed, reference := newMemoryStore(), newMemoryStore()
		for range rapid.IntRange(1, 4).Draw(t, "flushes") {
			increments := rapid.SliceOfN(rapid.Custom(drawIncrement), 1, 12).Draw(t, "increments")
			out, ok := flushed.attempt(t, increments, false)
			if !ok {
				if out, ok = flushed.attempt(t, increments, true); !ok {
					t.Fatal("a careful attempt passes the largest score")
				}
			}
			events, totals := maps.Clone(reference.events), maps.Clone(reference.totals)
			want := reference.countOneByOne(increments)
			for i := range want {
				if want, got := describeResult(want[i]), describeResult(out.results[i]); want != got {
					t.Fatalf("increment %d: %s, want %s", i, got, want)
				}
			}
			for i, inc := range increments {
				var want balance
				if event, before := events[inc.key()]; out.results[i].Status != Rejected && before {
					want = totals[totalKey{inc.board, inc.row, event.Total}]
				} else if out.results[i].Status != Rejected {
					want = reference.totals[totalKey{inc.board, inc.row, reference.events[inc.key()].Total}]
				}
				if out.totals[i] != want {
					t.Fatalf("the total of increment %d is %v, want %v", i, out.totals[i], want)
				}
			}
			if !maps.Equal(flushed.totals, reference.totals) || !maps.Equal(flushed.events, reference.events) {
				t.Fatalf("the stores hold\n%v, want\n%v", flushed, reference)
			}
		}
	})
}

// A careful attempt leads to the same as an optimistic one that passes no
// largest score.
func TestACarefulAttemptEqualsAnOptimisticOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		optimistic, careful := newMemoryStore(), newMemoryStore()
		for range rapid.IntRange(1, 3).Draw(t, "flushes") {
			increments := rapid.SliceOfN(rapid.Custom(drawIncrement), 1, 8).Draw(t, "increments")
			first, ok := optimistic.attempt(t, increments, false)
			if !ok {
				return
			}
			second, ok := careful.attempt(t, increments, true)
			for i := range increments {
				if a, b := describeResult(first.results[i]), describeResult(second.results[i]); a != b || !ok {
					t.Fatalf("increment %d: %s, careful %s", i, a, b)
				}
			}
		}
	})
}
