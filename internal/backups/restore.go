package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
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
	// ID is that of the generation; empty if nobody knows it.
	ID string
	// Time is when the state was collected, and FullAt when the full copy began that it was made of.
	Time, FullAt time.Time
	Checksum     ltx.Checksum
	// Sums are the checksums of the pages.
	Sums []ltx.Checksum
	// Unfinished is a later generation that has neither a base nor a full copy yet, 0 if there is none. What it
	// has is lost, until it has one.
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
// exists, and syncs it. It takes the highest generation that had a full copy by then, or had begun on a base. What
// it writes was checked by the checksums of each object, and of the whole database. An object that is missing
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
	path       []segment
	segment    int // the segment that is applied
	unfinished uint64
	first      uint64 // of the full copy
	fullAt     time.Time
	full       Full // of the first segment; in a later one its first state, which the database has
	db         database
	done       Progress
	ended      time.Time    // of the state that db has
	post       ltx.Checksum // of that state, 0 if it is not known
	last       uint64       // that state
}

// segment is a generation of which the states up to one are applied. The first begins with a full copy, each
// other one on the last state of the one before.
type segment struct {
	*Begun
	to    uint64 // 0 for all
	hours []Span // that are neither beyond that nor later than the restored time
	later []Span // that are later
}

// now returns the segment that is applied.
func (r *restorer) now() *segment { return &r.path[r.segment] }

// isLast reports whether a segment is the last one.
func (r *restorer) isLast(segment int) bool { return segment == len(r.path)-1 }

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
	all, err := Generations(ctx, r.t)
	if err != nil {
		return Restored{}, err
	}
	if err := r.choose(ctx, all); err != nil {
		return Restored{}, err
	}
	for i := range r.path {
		if err := r.chooseHours(ctx, i); err != nil {
			return Restored{}, err
		}
	}
	if err := r.apply(ctx); err != nil {
		return Restored{}, err
	}
	sums, sum, err := r.db.checksums()
	if err != nil {
		return Restored{}, err
	}
	if r.post != 0 && sum != r.post {
		return Restored{}, r.badFull(errors.New("with the changes after it, it has another checksum"))
	}
	g := r.now()
	return Restored{
		Generation: g.Number, ID: g.ID, State: r.last, Time: r.ended, FullAt: r.fullAt, Checksum: sum, Sums: sums, Unfinished: r.unfinished,
	}, nil
}

func (r *restorer) isLater(t time.Time) bool { return !r.at.IsZero() && t.After(r.at) }

// choose chooses the generation, and the full copy of it or of those that it stands upon.
func (r *restorer) choose(ctx context.Context, all []*Begun) error {
	var tooEarly error
	r.unfinished = 0
	for _, g := range slices.Backward(all) {
		r.path, r.segment = []segment{{Begun: g}}, 0
		if g.Err != nil {
			return damaged(GenerationObject(g.Number), "can't be read: %w", g.Err)
		}
		oldest, err := r.chooseFull(ctx, g, 0)
		_, begins := cover(g.Listing.Hours, 1)
		if _, ok := g.Listing.Each[2]; ok {
			begins = true
		}
		deleted := oldest.First > 1 && !begins // it had others, since which nothing before counts any more
		switch {
		case err == nil && r.full.First > 0:
			return nil
		case g.Base != nil && !deleted && !r.isLater(g.BeganAt) && (err == nil || gone(err)):
			return r.chooseBases(ctx, all)
		case err != nil:
			return err
		case g.Base != nil && r.isLater(g.BeganAt):
			tooEarly = &TooEarlyError{g.BeganAt}
		case deleted:
			return &TooEarlyError{oldest.EndedAt}
		case oldest.First > 0:
			tooEarly = &TooEarlyError{oldest.EndedAt}
		default:
			r.unfinished = max(r.unfinished, g.Number)
		}
	}
	if tooEarly != nil {
		return tooEarly
	}
	return ErrNoCopy
}

// chooseBases puts what the generation of the path stands upon before it, down to a full copy.
func (r *restorer) chooseBases(ctx context.Context, all []*Begun) error {
	first := r.path[0].Begun
	for above := first; ; above = r.path[0].Begun {
		missing := &IncompleteError{GenerationObject(above.Number), first.BeganAt.Add(-time.Millisecond), fmt.Errorf("goes on from generation %d, which is not there", cmp.Or(above.Base, new(Base)).Generation)}
		if above.Base == nil || above.Base.Generation >= above.Number {
			return missing
		}
		below := find(all, *above.Base)
		if below == nil {
			return missing
		}
		r.path = slices.Insert(r.path, 0, segment{Begun: below, to: above.Base.State})
		if _, err := r.chooseFull(ctx, below, above.Base.State); err != nil && !gone(err) {
			return err
		}
		if r.full.First > 0 {
			return nil
		}
	}
}

// chooseFull sets full to the latest copy of a generation that can be used, up to a state, or for 0 as of the
// restored time, and to none if there is none. Then it returns the oldest of those that are too late. If one is
// damaged that may be the right one, it returns that error, because the generation before has something else.
func (r *restorer) chooseFull(ctx context.Context, g *Begun, upTo uint64) (oldest Full, err error) {
	r.full = Full{}
	for _, first := range slices.Backward(g.Listing.Fulls) {
		name := g.Place.Full(first)
		if e := r.bad[name]; e != nil {
			err = &damagedError{name, e}
			continue
		}
		full, e := ReadFull(ctx, r.t, g.Place, first)
		switch {
		case errors.Is(e, ErrNotFound): // it was deleted
		case gone(e):
			err = e
		case e != nil:
			return oldest, e
		case upTo != 0 && full.Last <= upTo, upTo == 0 && !r.isLater(full.EndedAt):
			r.full = full
			return oldest, nil
		default:
			oldest = full
		}
	}
	return oldest, err
}

// chooseHours finds the objects of hours of a segment that are not later than the restored time, or its last state.
func (r *restorer) chooseHours(ctx context.Context, of int) error {
	g := &r.path[of]
	g.hours = slices.DeleteFunc(slices.Clone(g.Listing.Hours), func(hour Span) bool {
		return of == 0 && hour.Last < r.full.First || g.to != 0 && hour.Last > g.to || r.bad[g.Place.Hour(hour.First, hour.Last)] != nil
	})
	if !r.isLast(of) || r.at.IsZero() {
		return nil
	}
	n, err := HoursUntil(ctx, r.t, g.Place, g.hours, r.isLater)
	g.hours, g.later = g.hours[:n], g.hours[n:]
	return err
}

// step is an object that is applied.
type step struct {
	name string
	Span
	part    bool // of the full copy
	segment int  // of the path
}

// change returns the object of a segment that leads on from a state: the one of an hour, or else of one state. The
// size of that may be unknown, and -1, because a list may be late.
func (r *restorer) change(of int, state uint64) step {
	g := &r.path[of]
	name, object, listed := g.Listing.after(g.Place, g.hours, state)
	if !listed {
		object.Size = -1
	}
	return step{name: name, Span: object, segment: of}
}

// steps returns the objects to apply, without an end.
func (r *restorer) steps() iter.Seq[step] {
	full, first := r.full, &r.path[0] // while it runs ahead, r.full may become that of a later segment
	return func(yield func(step) bool) {
		for part := range full.Parts {
			name, size := first.Place.Part(full.First, part), int64(-1)
			if listed, ok := first.Listing.Parts[name]; ok {
				size = listed.Size
			}
			if !yield(step{name: name, Span: Span{full.First + 1, full.First + 1, size}, part: true}) {
				return
			}
		}
		state := full.First
		// What leads to the first state is in the copy already, but has its checksum.
		if before := r.change(0, state-1); state > 1 && before.Last == state && before.Size >= 0 && r.bad[before.name] == nil {
			state--
		}
		for of := 0; ; of, state = of+1, 1 {
			for r.isLast(of) || state < r.path[of].to {
				next := r.change(of, state)
				if !yield(next) {
					return
				}
				state = next.Last
			}
		}
	}
}

// apply writes the full copy and applies the changes.
func (r *restorer) apply(ctx context.Context) error {
	if err := r.file.Truncate(0); err != nil {
		return err
	}
	r.db = database{file: r.file, pageSize: r.full.PageSize, page: make([]byte, r.full.PageSize)}
	r.done, r.ended, r.post, r.last, r.first, r.fullAt = Progress{}, r.full.EndedAt, 0, r.full.First, r.full.First, r.full.BeganAt
	for s, body := range r.fetch(ctx) {
		for ; r.segment < s.segment; r.segment++ {
			r.last, r.full.First, r.full.Last = 1, 1, 1
		}
		if r.isLast(s.segment) && s.Last > r.last && r.last >= r.full.Last && !s.part && r.ended.Equal(r.at) {
			return nil // whatever is next is later
		}
		later, err := r.applyStep(ctx, s, body)
		switch {
		case s.part && gone(err):
			return r.badFull(err)
		case errors.Is(err, errEnd):
			return r.end(ctx, s)
		case err != nil:
			return err
		case later && r.last < r.full.Last:
			return r.badFull(errors.New("a state before its end is later than that"))
		case later:
			return nil
		}
	}
	return ctx.Err()
}

func (r *restorer) badFull(err error) error {
	return damaged(r.path[0].Place.Full(r.first), "can't be used: %w", err)
}

// end is called when there is no object that leads on from the state of the database. It returns an error unless that
// is the newest state, or the next one is later than the restored time.
func (r *restorer) end(ctx context.Context, s step) error {
	reason := r.bad[s.name]
	if reason == nil {
		reason = ErrNotFound
	}
	if r.last < r.full.Last {
		return r.badFull(&damagedError{s.name, reason})
	}
	g := r.now()
	if !r.isLast(r.segment) {
		return &IncompleteError{s.name, r.ended, reason}
	}
	if hour, ok := cover(g.later, r.last); ok && errors.Is(reason, ErrNotFound) {
		// The states of an earlier day are there only for each hour. Its header alone is no proof.
		s := step{name: g.Place.Hour(hour.First, hour.Last), Span: hour, segment: r.segment}
		later, err := r.applyStep(ctx, s, r.readAhead(ctx, s))
		if err == nil && !later {
			err = damaged(s.name, "is damaged")
		}
		return err
	}
	if g.Listing.highest > r.last {
		return &IncompleteError{s.name, r.ended, reason}
	}
	return nil
}
