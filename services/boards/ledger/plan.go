package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"stepboard/internal/column"
	"stepboard/models"
)

// This file holds the rules of counting, as two pure functions. decide runs
// before the totals are increased and says which increments count. assignScores
// runs afterwards and says which score each of them led to. They are two because
// the totals are increased without being read first: the statement that
// increases them also returns them, which saves a round trip.

// increment is an Increment together with where and when it counts. The amount of a result is its
// points.
type increment struct {
	Increment
	row   models.RowID // of the user
	board string
	// totals is the running total that it is added to and the window that is its
	// score.
	totals models.TotalRange
	// closed is the reason to reject it unless its id was counted before, or nil. On an event
	// each attempt finds it out anew.
	closed                *models.Error
	acceptedAt, reachedAt models.Timestamp
}

// same reports whether another increment of the same board and id is the same one. The time at
// which it occurred does not matter.
func (i *increment) same(other *increment) bool {
	return i.row == other.row && i.Amount == other.Amount
}

// user identifies the owner of the rows that an increment changes.
func (i *increment) user() userKey { return userKey{i.board, i.row} }

// usersOf returns the users of the increments, each once and in the order of
// their first increments.
func usersOf(increments []*increment) []userKey {
	var users []userKey
	seen := make(map[userKey]bool, len(increments))
	for _, inc := range increments {
		if user := inc.user(); !seen[user] {
			seen[user] = true
			users = append(users, user)
		}
	}
	return users
}

// eventKey identifies an increment.
type eventKey struct{ board, id string }

func (i *increment) key() eventKey { return eventKey{i.board, i.EventID} }

// eventKeys returns the keys of the increments, each once and in order.
func eventKeys(increments []*increment) []eventKey {
	keys := column.Of(increments, (*increment).key)
	slices.SortFunc(keys, func(a, b eventKey) int {
		return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.board, b.board))
	})
	return slices.Compact(keys)
}

// knownEvent is an increment that was counted before.
type knownEvent struct {
	models.ScoreEvent
	// total is the running total that it was added to, as it is now.
	total balance
}

// state holds what the database has when a flush is decided.
type state struct {
	// known holds those of the increments that were counted before.
	known map[eventKey]knownEvent
	// sums holds the score of each window that the other increments count in; a
	// window that is missing has 0. It is nil if the totals were not read: then
	// no increment is rejected because of them.
	sums map[windowKey]int64
	// locked holds the users whose rows another transaction may have locked. Their
	// increments are left out.
	locked map[userKey]bool
	// fresh holds the users without a row that this transaction has locked, so that
	// another one may be inserting their first. It is nil unless rows were probed.
	fresh map[userKey]bool
}

// rowState says what a probe has found about the row of a total.
type rowState int

const (
	absent rowState = iota // it does not exist, as far as can be seen
	free                   // the probing transaction has locked it
	locked                 // another transaction has locked it
)

// probed returns the state with the users whose rows a probe has found locked, and
// those without rows.
func (s state) probed(totals []*total, rows []rowState) state {
	s.locked, s.fresh = maps.Clone(s.locked), make(map[userKey]bool)
	for _, t := range totals {
		s.fresh[t.ownedBy()] = true
	}
	for i, t := range totals {
		if rows[i] != absent {
			delete(s.fresh, t.ownedBy())
		}
		if rows[i] == locked {
			s.locked[t.ownedBy()] = true
		}
	}
	return s
}

// decision says which increments of a flush count.
type decision struct {
	layout
	// results has one result for each increment. It is final for those that were
	// counted before or are rejected, and empty for all others: those that count
	// and those that are left out.
	results []Result
	// known has the running total of each duplicate of an increment that was counted
	// before.
	known []balance
	// accepted holds the positions of the increments that count, in order.
	accepted []int
	// repeats holds the increments with the id of an accepted one before them.
	repeats []repeat
	// additions says what to add to the totals, in the order in which their rows
	// are locked.
	additions []addition
}

// repeat holds the positions of an increment and of the accepted one whose id it
// has.
type repeat struct{ again, first int }

// addition holds what a flush joins to one running total: the increments of the flush, joined.
type addition struct {
	*total
	balance
}

// users returns the users whose increments count.
func (d *decision) users(increments []*increment) []userKey {
	return usersOf(column.Of(d.accepted, func(i int) *increment { return increments[i] }))
}

// usersIn returns those of the users whose increments count that are in a set.
func (d *decision) usersIn(set map[userKey]bool, increments []*increment) []userKey {
	if len(set) == 0 {
		return nil
	}
	return slices.DeleteFunc(d.users(increments), func(user userKey) bool { return !set[user] })
}

// decide decides which increments count, in their order.
func decide(s state, increments []*increment) decision {
	d := decision{layout: newLayout(increments, s), results: make([]Result, len(increments)), known: make([]balance, len(increments))}
	first := make(map[eventKey]int, len(increments))
	left := make(map[eventKey]bool) // ids of increments that are left out
	// By window, with the increments before.
	sums := column.Of(d.windows, func(w *window) int64 { return s.sums[w.windowKey] })
	for i, inc := range increments {
		if event, ok := s.known[inc.key()]; ok {
			same := event.User == inc.row && event.Delta == inc.Amount
			d.results[i] = inc.repeatOf(same, event.Score, models.TimestampOf(event.ReachedAt))
			if d.results[i].Status == Duplicate {
				d.known[i] = event.total
			}
			continue
		}
		if earlier, ok := first[inc.key()]; ok {
			d.repeats = append(d.repeats, repeat{i, earlier})
			continue
		}
		if s.leaves(inc) || left[inc.key()] {
			left[inc.key()] = true
			continue
		}
		if err := inc.rejection(d.places[i], s.sums != nil, sums); err != nil {
			d.results[i] = rejected(inc.EventID, err)
			continue
		}
		first[inc.key()] = i
		d.accepted = append(d.accepted, i)
		d.places[i].addTo(sums, inc, inc.Amount)
	}
	d.additions = d.additionsOf(increments, d.accepted)
	return d
}

// leaves reports whether an increment is left out because of a lock.
func (s *state) leaves(inc *increment) bool { return inc.closed == nil && s.locked[inc.user()] }

// rejection returns why an increment does not count, or nil.
func (i *increment) rejection(p place, careful bool, sums []int64) *models.Error {
	if i.closed != nil {
		return i.closed
	}
	largest := i.totals.Bucket.MaxScore
	if i.Amount > largest || careful && !i.Result && sums[p.window.index] > largest-i.Amount {
		return models.Errorf(models.CodeScoreOutOfRange, "the score would pass %d, the largest on this board", largest)
	}
	return nil
}

// repeatOf returns the result of an increment whose id was counted already. same
// reports whether it was counted with the same user and amount.
func (i *increment) repeatOf(same bool, points int64, reachedAt models.Timestamp) Result {
	if !same {
		return rejected(i.EventID, models.Errorf(models.CodeEventIDConflict,
			"this event_id was counted already, with another user_id or %s", i.amountField()))
	}
	return Result{EventID: i.EventID, Status: Duplicate, Score: points, ReachedAt: reachedAt}
}

// additionsOf joins the accepted increments by total.
func (l *layout) additionsOf(increments []*increment, accepted []int) []addition {
	additions := make([]addition, len(l.totals))
	for _, i := range accepted {
		for _, t := range [...]*total{l.places[i].total, l.places[i].sumRow} {
			if t != nil {
				a := &additions[t.index]
				a.total = t
				a.balance = a.join(t.bucket.Best, balance{increments[i].Amount, increments[i].reachedAt, true})
			}
		}
	}
	return slices.DeleteFunc(additions, func(a addition) bool { return !a.stored })
}

// balances holds what the database has for totals and windows, in the order in
// which it was asked for them.
type balances struct {
	totals  []balance
	windows []int64
}

// balance is the state of one running total.
type balance struct {
	score     int64
	reachedAt models.Timestamp
	// stored is false for a total without increments.
	stored bool
}

// join returns the balance of two sets of increments together: the best score and the earliest
// time at which it was reached, or the sum and the time of its latest increment above 0; of
// increments of 0 alone, the earliest. The order in which sets are joined changes nothing.
func (b balance) join(best bool, other balance) balance {
	switch {
	case !b.stored:
		return other
	case !other.stored:
		return b
	case b.score == other.score && (best || b.score == 0):
		b.reachedAt = min(b.reachedAt, other.reachedAt)
		return b
	case best && b.score < other.score, b.score == 0:
		return other
	case best, other.score == 0:
		return b
	default:
		return balance{b.score + other.score, max(b.reachedAt, other.reachedAt), true}
	}
}

// outcome holds the results of a flush and the rows that it changes.
type outcome struct {
	// results has one result for each increment. It is empty for those that were
	// left out.
	results []Result
	// suspects holds those of the users left out of whom nobody knows whether they
	// are the ones for whose rows a transaction has waited.
	suspects []userKey
	// events holds the increments that count, in the order in which their rows
	// are locked.
	events []models.ScoreEvent
	// totals has the running total of each increment that is counted, as the flush
	// leaves it, and of each duplicate of one that was counted before, as the flush
	// finds it.
	totals []balance
}

// assignScores gives each increment that counts the score that it led to. after
// holds the totals of d.additions and the sums of d.summed as they are with the
// additions. It reports false if a score passes the largest of its board.
func assignScores(increments []*increment, d decision, after balances) (outcome, bool) {
	out := outcome{results: slices.Clone(d.results), totals: slices.Clone(d.known)}
	totals := make([]balance, len(d.totals))
	for i, a := range d.additions {
		totals[a.index] = after.totals[i]
	}
	// The database has the sums with all increments. Going from the last one to
	// the first, and taking each off, gives the score after each.
	sums := d.sums(totals, after.windows)
	for _, i := range slices.Backward(d.accepted) {
		inc, p := increments[i], d.places[i]
		points := sums[p.window.index]
		if points > inc.totals.Bucket.MaxScore {
			return outcome{}, false
		}
		out.totals[i] = totals[p.total.index]
		out.results[i] = Result{EventID: inc.EventID, Status: Applied, Score: points, ReachedAt: out.totals[i].reachedAt}
		p.addTo(sums, inc, -inc.Amount)
	}
	for _, r := range d.repeats {
		first := out.results[r.first]
		again := increments[r.again]
		out.results[r.again] = again.repeatOf(again.same(increments[r.first]), first.Score, first.ReachedAt)
		if out.results[r.again].Status == Duplicate {
			out.totals[r.again] = out.totals[r.first]
		}
	}
	out.events = eventsOf(increments, d.accepted, out.results)
	return out, true
}

// eventsOf returns the rows of the increments that count, in the order in which
// they are locked.
func eventsOf(increments []*increment, accepted []int, results []Result) []models.ScoreEvent {
	events := make([]models.ScoreEvent, len(accepted))
	for n, i := range accepted {
		inc, result := increments[i], results[i]
		events[n] = models.ScoreEvent{
			Board: inc.board, EventID: inc.EventID, Total: inc.totals.Total, User: inc.row, Delta: inc.Amount,
			AcceptedAt: inc.acceptedAt.Time(), Score: result.Score, ReachedAt: result.ReachedAt.Time(),
		}
	}
	slices.SortFunc(events, func(a, b models.ScoreEvent) int {
		return cmp.Or(strings.Compare(a.Board, b.Board), strings.Compare(a.EventID, b.EventID))
	})
	return events
}
