package ledger

import (
	"cmp"
	"slices"
	"strings"

	"stepboard/models"
)

// pending is an increment on its way.
type pending struct {
	Increment
	board  string
	totals models.TotalRange // where it counts
	// closed says why it is rejected unless its id is known, and otherwise is nil.
	closed                *models.Error
	acceptedAt, reachedAt models.Timestamp
	// result is written by the flush, and read by nobody before it is over.
	result *Result

	// Where it is counted, in the attempt that is under way.
	row    *row
	window *window
	user   *userWindows
}

// eventKey names an increment.
type eventKey struct{ board, id string }

func (p *pending) key() eventKey { return eventKey{p.board, p.EventID} }

// keysOf is the increments' names, each once and in order.
func keysOf(items []*pending) []eventKey {
	keys := make([]eventKey, len(items))
	for i, p := range items {
		keys[i] = p.key()
	}
	slices.SortFunc(keys, func(a, b eventKey) int {
		return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.board, b.board))
	})
	return slices.Compact(keys)
}

// totalKey names a running total.
type totalKey struct {
	board string
	user  models.UserID
	total string
}

// compare is the order in which rows are locked.
func (k totalKey) compare(other totalKey) int {
	return cmp.Or(strings.Compare(k.board, other.board), cmp.Compare(k.user, other.user), strings.Compare(k.total, other.total))
}

// row is a running total that a flush adds to.
type row struct {
	totalKey
	bucket *models.Bucket
	// sumUp says that it is the sum of a windowed bucket's totals so far. It
	// raises nothing: its lock makes the increments of a user in different hours
	// take turns, so that the window's sum is read with all of them.
	sumUp bool
	// added is what the flush adds.
	added int64
	// score and reachedAt are as the database has them; before it is asked,
	// reachedAt is that of the latest increment.
	score     int64
	reachedAt models.Timestamp
}

// window is a stretch of a user's totals that make up a score: since the given
// one. Of a bucket without a window it is the total itself.
type window struct {
	row   *row
	since string
	// sum is what the database has.
	sum int64
	// later is what came after the increment that is looked at.
	later int64
}

// windowed tells whether the database has to add totals up.
func (w *window) windowed() bool { return w.row.bucket.WindowHours > 0 }

// userWindows is a user on a board, with the windows of the increments of a flush:
// one, or two at the turn of the hour.
type userWindows struct {
	windows []*window
}

type userKey struct {
	board string
	user  models.UserID
}

// plan works out one attempt of a flush. It knows no database: it is told what
// stands there, and tells what to write.
type plan struct {
	// candidates is the increments whose ids are not known, in order.
	candidates []*pending
	// accepted is those of them that count; repeats are those with the id of
	// another one before them.
	accepted []*pending
	repeats  []repeat
	rows     []*row
	// windows is those that the database has to add up.
	windows []*window
	byKey   map[totalKey]*row
	users   map[userKey]*userWindows
}

type repeat struct{ again, first *pending }

// newPlan answers the increments that are known, and opens accounts for the
// others.
func newPlan(items []*pending, known map[eventKey]models.ScoreEvent) *plan {
	f := &plan{
		candidates: make([]*pending, 0, len(items)),
		rows:       make([]*row, 0, len(items)),
		byKey:      make(map[totalKey]*row, len(items)),
		users:      make(map[userKey]*userWindows, len(items)),
	}
	for _, p := range items {
		if first, ok := known[p.key()]; ok {
			p.repeat(Increment{User: first.User, Delta: first.Delta, EventID: first.EventID}, first.Score, models.TimestampOf(first.ReachedAt))
			continue
		}
		f.candidates = append(f.candidates, p)
		if p.closed == nil {
			f.place(p)
		}
	}
	return f
}

// place finds where an increment counts.
func (f *plan) place(p *pending) {
	bucket := p.totals.Bucket
	p.row = f.row(totalKey{p.board, p.User, p.totals.Total}, bucket, false)
	if bucket.WindowHours > 0 {
		f.row(totalKey{p.board, p.User, bucket.Name}, bucket, true)
	}
	key := userKey{p.board, p.User}
	if p.user = f.users[key]; p.user == nil {
		p.user = &userWindows{}
		f.users[key] = p.user
	}
	for _, w := range p.user.windows {
		if w.since == p.totals.Since {
			p.window = w
			return
		}
	}
	p.window = &window{row: p.row, since: p.totals.Since}
	p.user.windows = append(p.user.windows, p.window)
	if p.window.windowed() {
		f.windows = append(f.windows, p.window)
	}
}

func (f *plan) row(key totalKey, bucket *models.Bucket, sumUp bool) *row {
	r := f.byKey[key]
	if r == nil {
		r = &row{totalKey: key, bucket: bucket, sumUp: sumUp}
		f.byKey[key] = r
		f.rows = append(f.rows, r)
	}
	return r
}

// accept decides which increments count, in their order, and adds them up. A
// careful choice knows the sums of the windows, and rejects what would pass the
// largest score.
func (f *plan) accept(careful bool) {
	if careful {
		f.loadSums()
	}
	first := make(map[eventKey]*pending, len(f.candidates))
	for _, p := range f.candidates {
		if earlier := first[p.key()]; earlier != nil {
			f.repeats = append(f.repeats, repeat{p, earlier})
			continue
		}
		if p.closed != nil {
			p.result.reject(p.closed)
			continue
		}
		if largest := p.totals.Bucket.MaxScore; p.Delta > largest || careful && p.window.sum > largest-p.Delta {
			p.result.reject(models.Errorf(models.CodeScoreOutOfRange, "the score would pass %d, the largest on this board", largest))
			continue
		}
		first[p.key()] = p
		f.accepted = append(f.accepted, p)
		p.row.add(p)
		if p.window.windowed() {
			f.byKey[totalKey{p.board, p.User, p.totals.Bucket.Name}].add(p)
		}
		for _, w := range p.user.windows {
			if p.totals.Total >= w.since {
				w.sum += p.Delta
			}
		}
	}
	f.rows = slices.DeleteFunc(f.rows, func(r *row) bool { return r.added == 0 })
}

// loadSums takes over the totals that the database did not have to add up.
func (f *plan) loadSums() {
	for _, p := range f.candidates {
		if p.window != nil && !p.window.windowed() {
			p.window.sum = p.row.score
		}
	}
}

func (r *row) add(p *pending) {
	r.added += p.Delta
	r.reachedAt = max(r.reachedAt, p.reachedAt)
}

// assignScores gives each increment that counts the score that it led to, now that the
// database has the totals: last to first, as of each the later ones are taken
// off. It answers false where a score passes the largest.
func (f *plan) assignScores() bool {
	f.loadSums()
	for _, p := range slices.Backward(f.accepted) {
		points := p.window.sum - p.window.later
		if points > p.totals.Bucket.MaxScore {
			return false
		}
		*p.result = Result{EventID: p.EventID, Status: Applied, Score: points, ReachedAt: p.row.reachedAt}
		for _, w := range p.user.windows {
			if p.totals.Total >= w.since {
				w.later += p.Delta
			}
		}
	}
	for _, r := range f.repeats {
		r.again.repeat(r.first.Increment, r.first.result.Score, r.first.result.ReachedAt)
	}
	return true
}

// repeat answers an increment whose id was counted.
func (p *pending) repeat(first Increment, points int64, reachedAt models.Timestamp) {
	if first != p.Increment {
		p.result.reject(models.Errorf(models.CodeEventIDConflict, "this event_id was counted already, with another user_id or delta"))
		return
	}
	*p.result = Result{EventID: p.EventID, Status: Duplicate, Score: points, ReachedAt: reachedAt}
}

// sortedRows is the totals in the order in which they are locked.
func (f *plan) sortedRows() []*row {
	slices.SortFunc(f.rows, func(a, b *row) int { return a.compare(b.totalKey) })
	return f.rows
}

// events is what is stored of the increments that count, in the order in which
// their rows are locked.
func (f *plan) events() []models.ScoreEvent {
	events := make([]models.ScoreEvent, len(f.accepted))
	for i, p := range f.accepted {
		events[i] = models.ScoreEvent{
			Board: p.board, EventID: p.EventID, Total: p.totals.Total, User: p.User, Delta: p.Delta,
			AcceptedAt: p.acceptedAt.Time(), Score: p.result.Score, ReachedAt: p.result.ReachedAt.Time(),
		}
	}
	slices.SortFunc(events, func(a, b models.ScoreEvent) int {
		return cmp.Or(strings.Compare(a.Board, b.Board), strings.Compare(a.EventID, b.EventID))
	})
	return events
}
