package backups

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/superfly/ltx"
)

const (
	// ahead is how many objects are read before it is their turn.
	ahead = 16
	// aheadBytes is how large they may be. Larger ones are read when it is their turn.
	aheadBytes = 2 << 20
)

// Progress says how far a restore is.
type Progress struct {
	Objects int   // that were read
	Bytes   int64 // of those
}

// Restored says what a restore has made.
type Restored struct {
	Generation, State uint64
	// Time is when the state was collected.
	Time     time.Time
	Checksum ltx.Checksum
	// Newest is set if the restore came to the end of what the target had.
	Newest bool
	// Unfinished is a later generation that has no full copy yet, 0 if there is none. What it has
	// is lost, until it has one.
	Unfinished uint64
}

// IncompleteError says that an object that a restore needs is missing or damaged.
type IncompleteError struct {
	// Object is the name of the first such object.
	Object string
	// Until is the latest time of which a database can be made, of those that the object is after.
	Until time.Time
	Err   error
}

// Error says until when a restore is possible, so that a command can be told.
func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%s %v: what is later can't be restored: use --at %s", e.Object, e.Err, ltx.FormatTimestamp(e.Until))
}

func (e *IncompleteError) Unwrap() error { return e.Err }

// TooEarlyError says that a target has only later states.
type TooEarlyError struct{ First time.Time }

// Error says since when a restore is possible.
func (e *TooEarlyError) Error() string {
	return "the first state that can be restored is later: of " + ltx.FormatTimestamp(e.First)
}

// ErrNoCopy means that a target has no full copy.
var ErrNoCopy = errors.New("has no complete copy of a database")

// Restore writes the database as it was at a time, or the newest one if at is zero, into a file, which
// exists, and syncs it. It takes the highest generation that had a full copy by then. What it writes
// was checked by the checksums of each object, and of the whole database. An object that is missing
// or damaged is gone around if others have the same changes. Otherwise the error names it: it is an
// *IncompleteError if an earlier time can be restored. Others are a *TooEarlyError and ErrNoCopy. After
// an error the file is no database. Requests that fail are repeated for some seconds. At most 16 are made
// at a time, and at most about 32 MB kept in memory.
// progress is told after each object.
func Restore(ctx context.Context, t Target, path string, at time.Time, progress func(Progress)) (Restored, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return Restored{}, err
	}
	if !at.IsZero() {
		at = at.Truncate(time.Millisecond) // as states have it
	}
	r := &restorer{t: patient{t}, at: at, file: file, progress: progress, bad: make(map[string]error)}
	restored, err := r.restore(ctx)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return Restored{}, err
	}
	return restored, nil
}

type restorer struct {
	t        Target
	at       time.Time
	file     *os.File
	progress func(Progress)
	// bad has the objects that can't be used, and why.
	bad map[string]error

	// What follows is of one try.
	generation uint64
	unfinished uint64
	list       *listing
	full       Full
	hours      []span // that are not later than at
	later      []span // that are
	db         database
	done       Progress
	ended      time.Time    // of the state that db has
	post       ltx.Checksum // of that state, 0 if it is not known
	last       uint64       // that state
}

// restore tries until it has succeeded without the objects that were found to be bad.
func (r *restorer) restore(ctx context.Context) (Restored, error) {
	for {
		restored, err := r.try(ctx)
		var found *damagedError
		if !errors.As(err, &found) || r.bad[found.name] != nil {
			return restored, err
		}
		r.bad[found.name] = found.err
	}
}

func (r *restorer) try(ctx context.Context) (Restored, error) {
	all, numbers, err := generations(ctx, r.t)
	if err != nil {
		return Restored{}, err
	}
	if err := r.choose(ctx, all, numbers); err != nil {
		return Restored{}, err
	}
	if err := r.chooseHours(ctx); err != nil {
		return Restored{}, err
	}
	newest, err := r.apply(ctx)
	if err != nil {
		return Restored{}, err
	}
	sum, err := r.db.checksum()
	if err != nil {
		return Restored{}, err
	}
	if r.post != 0 && sum != r.post {
		return Restored{}, r.badFull(errors.New("with the changes after it, it has another checksum"))
	}
	return Restored{
		Generation: r.generation, State: r.last, Time: r.ended, Checksum: sum,
		Newest: newest && r.generation == numbers[len(numbers)-1], Unfinished: r.unfinished,
	}, nil
}

func (r *restorer) isLater(t time.Time) bool { return !r.at.IsZero() && t.After(r.at) }

// choose chooses the generation and the full copy.
func (r *restorer) choose(ctx context.Context, all map[uint64]*listing, numbers []uint64) error {
	var tooEarly error
	r.unfinished = 0
	for _, number := range slices.Backward(numbers) {
		r.generation, r.list = number, all[number]
		oldest, err := r.chooseFull(ctx)
		switch {
		case err != nil:
			return err
		case r.full.First > 0:
			return nil
		case oldest.First == 0:
			r.unfinished = max(r.unfinished, number)
			continue
		}
		tooEarly = &TooEarlyError{oldest.EndedAt}
		_, joined := cover(r.list.hours, 1)
		if _, ok := r.list.each[2]; oldest.First > 1 && !joined && !ok {
			return tooEarly // it had others, since which the generation before counts no more
		}
	}
	if tooEarly != nil {
		return tooEarly
	}
	return ErrNoCopy
}

// chooseFull sets full to the latest copy of a generation that can be used, and to none if there is
// none. Then it returns the oldest of those that are too late. If one is damaged that may be the right
// one, it returns that error, because the generation before has something else.
func (r *restorer) chooseFull(ctx context.Context) (oldest Full, err error) {
	r.full = Full{}
	for _, first := range slices.Backward(r.list.fulls) {
		name := FullObject(r.generation, first)
		if e := r.bad[name]; e != nil {
			err = &damagedError{name, e}
			continue
		}
		full, e := readFull(ctx, r.t, r.generation, first)
		switch {
		case errors.Is(e, ErrNotFound): // it was deleted
		case gone(e):
			err = e
		case e != nil:
			return oldest, e
		case !r.isLater(full.EndedAt):
			r.full = full
			return oldest, nil
		default:
			oldest = full
		}
	}
	return oldest, err
}

// chooseHours finds the objects of hours that are not later than the restored time.
func (r *restorer) chooseHours(ctx context.Context) (err error) {
	hours := slices.DeleteFunc(slices.Clone(r.list.hours), func(hour span) bool {
		return hour.last < r.full.First || r.bad[HourObject(r.generation, hour.first, hour.last)] != nil
	})
	n := sort.Search(len(hours), func(i int) bool {
		if err != nil || r.at.IsZero() {
			return false
		}
		name := HourObject(r.generation, hours[i].first, hours[i].last)
		header, e := readHeader(ctx, r.t, name)
		if errors.Is(e, ErrNotFound) {
			e = damaged(name, "%w", e)
		}
		err = e
		return r.isLater(time.UnixMilli(header.Timestamp))
	})
	r.hours, r.later = hours[:n], hours[n:]
	return err
}

// step is an object that is applied.
type step struct {
	name string
	span
	part bool // of the full copy
}

// change returns the object that leads on from a state: the one of an hour, or else of one state. The
// size of that may be unknown, and -1, because a list may be late.
func (r *restorer) change(state uint64) step {
	if hour, ok := cover(r.hours, state); ok {
		return step{name: HourObject(r.generation, hour.first, hour.last), span: hour}
	}
	size, listed := r.list.each[state+1]
	if !listed {
		size = -1
	}
	return step{name: EachObject(r.generation, state+1), span: span{state + 1, state + 1, size}}
}

// steps yields the objects to apply, without an end.
func (r *restorer) steps(yield func(step) bool) {
	for part := range r.full.Parts {
		name := FullPart(r.generation, r.full.First, part)
		size, listed := r.list.parts[name]
		if !listed {
			size = -1
		}
		if !yield(step{name, span{r.full.First + 1, r.full.First + 1, size}, true}) {
			return
		}
	}
	state := r.full.First
	// What leads to the first state is in the copy already, but has its checksum.
	if before := r.change(state - 1); before.last == state && before.size >= 0 && r.bad[before.name] == nil {
		state--
	}
	for {
		next := r.change(state)
		if !yield(next) {
			return
		}
		state = next.last
	}
}

// apply writes the full copy and applies the changes. It reports whether it came to their end.
func (r *restorer) apply(ctx context.Context) (newest bool, err error) {
	if err := r.file.Truncate(0); err != nil {
		return false, err
	}
	r.db = database{file: r.file, pageSize: r.full.PageSize, page: make([]byte, r.full.PageSize)}
	r.done, r.ended, r.post, r.last = Progress{}, r.full.EndedAt, 0, r.full.First
	for s, body := range r.fetch(ctx) {
		if s.last > r.last && r.last >= r.full.Last && !s.part && r.ended.Equal(r.at) {
			return false, nil // whatever is next is later
		}
		later, err := r.applyStep(ctx, s, body)
		switch {
		case s.part && gone(err):
			return false, r.badFull(err)
		case errors.Is(err, errEnd):
			return r.end(ctx, s)
		case err != nil:
			return false, err
		case later && r.last < r.full.Last:
			return false, r.badFull(errors.New("a state before its end is later than that"))
		case later:
			return false, nil
		}
	}
	return false, ctx.Err()
}

func (r *restorer) badFull(err error) error {
	return damaged(FullObject(r.generation, r.full.First), "can't be used: %w", err)
}

// end is called when there is no object that leads on from the state of the database. If there is a
// later state, that may be why: it reports whether there is none.
func (r *restorer) end(ctx context.Context, s step) (newest bool, err error) {
	reason := r.bad[s.name]
	if reason == nil {
		reason = ErrNotFound
	}
	if r.last < r.full.Last {
		return false, r.badFull(&damagedError{s.name, reason})
	}
	if hour, ok := cover(r.later, r.last); ok && errors.Is(reason, ErrNotFound) {
		// The states of an earlier day are there only for each hour. Its header alone is no proof.
		s := step{name: HourObject(r.generation, hour.first, hour.last), span: hour}
		later, err := r.applyStep(ctx, s, r.readAhead(ctx, s))
		if err == nil && !later {
			err = damaged(s.name, "is damaged")
		}
		return false, err
	}
	if r.list.highest > r.last {
		return false, &IncompleteError{s.name, r.ended, reason}
	}
	return true, nil
}
