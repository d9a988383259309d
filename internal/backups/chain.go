package backups

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/superfly/ltx"

	"stepboard/internal/pause"
)

// Span is an object with the changes that lead from the state before First to Last.
type Span struct {
	First, Last uint64
	Size        int64
}

// Listing has the objects of a place that a list has.
type Listing struct {
	Fulls   []uint64         // the first states of those that are complete, ascending
	Each    map[uint64]int64 // sizes by the state
	Hours   []Span           // ordered by Last
	Parts   map[string]Span  // of full copies, by their names; First and Last are the first state of the copy
	highest uint64           // the highest state that has left a trace
	objects int
	bytes   int64
}

var namePattern = regexp.MustCompile(`^(\d{8,19})/(?:generation\.json|(?:([A-Z2-7]{26})/)?(full|each|hour)/([0-9a-f]{16})(?:-(\d{6}|[0-9a-f]{16}))?\.(?:ltx|json))$`)

// listings lists the objects below a folder, all if it is empty, by their places. The object of a generation has
// one without an ID.
func listings(ctx context.Context, t Target, folder string) (map[Place]*Listing, error) {
	var objects []Object
	err := again(ctx, t, func() (err error) {
		objects, err = t.List(ctx, folder)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make(map[Place]*Listing)
	for _, o := range objects {
		match := namePattern.FindStringSubmatch(o.Name)
		if match == nil {
			continue // somebody else's
		}
		number, err := strconv.ParseUint(match[1], 10, 64)
		if err != nil || number == 0 {
			continue
		}
		place := Place{number, match[2]}
		if all[place] == nil {
			all[place] = newListing()
		}
		all[place].add(place, o, match[3:])
	}
	for _, l := range all {
		slices.Sort(l.Fulls)
		slices.SortFunc(l.Hours, func(a, b Span) int { return cmp.Compare(a.Last, b.Last) })
	}
	return all, nil
}

// List lists the objects of a place whose names begin with a folder of it, all if that is empty.
func List(ctx context.Context, t Target, place Place, folder string) (*Listing, error) {
	all, err := listings(ctx, t, place.Folder()+folder)
	return cmp.Or(all[place], newListing()), err
}

func newListing() *Listing {
	return &Listing{Each: make(map[uint64]int64), Parts: make(map[string]Span)}
}

// add adds an object whose name has a kind and one or two numbers.
func (l *Listing) add(place Place, o Object, name []string) {
	first, _ := strconv.ParseUint(name[1], 16, 64) // checked by the pattern, as below
	last := first
	switch {
	case o.Name == GenerationObject(place.Number):
	case o.Name == place.Full(first):
		l.Fulls = append(l.Fulls, first)
	case name[0] == "full" && len(name[2]) == 6:
		l.Parts[o.Name] = Span{first, first, o.Size}
	case o.Name == place.Each(first):
		l.Each[first] = o.Size
	default:
		last, _ = strconv.ParseUint(name[2], 16, 64)
		if o.Name != place.Hour(first, last) || last < first {
			return
		}
		l.Hours = append(l.Hours, Span{first, last, o.Size})
	}
	l.highest = max(l.highest, last)
	l.objects++
	l.bytes += o.Size
}

// cover returns the one of some hours that goes farthest from a state, if one goes farther.
func cover(hours []Span, state uint64) (best Span, ok bool) {
	for _, hour := range hours {
		if hour.First <= state+1 && state < hour.Last && hour.Last > best.Last {
			best, ok = hour, true
		}
	}
	return best, ok
}

// after returns the object of a place that leads on from a state, and whether the list has it: the one of some hours
// that goes farthest, or else that of the next state.
func (l *Listing) after(place Place, hours []Span, state uint64) (name string, object Span, listed bool) {
	if hour, ok := cover(hours, state); ok {
		return place.Hour(hour.First, hour.Last), hour, true
	}
	size, listed := l.Each[state+1]
	return place.Each(state + 1), Span{state + 1, state + 1, size}, listed
}

// Begun is a generation that a target has.
type Begun struct {
	// Generation has at most its ID if its object is missing or damaged.
	Generation
	Number uint64
	// Err is why its object can't be read, or why nobody knows where the others are; nil if it can.
	Err error
	// Place is where its objects are, and Listing has those.
	Place   Place
	Listing *Listing
}

// mostUnlisted is how many generations a target may have of which its list knows nothing.
const mostUnlisted = 100

// Generations returns the generations that a target has, the first one first. It lists all objects, in one
// request for a thousand of them, reads the object of each generation, and asks for those that the list may lack.
func Generations(ctx context.Context, t Target) ([]*Begun, error) {
	all, err := listings(ctx, t, "")
	if err != nil {
		return nil, err
	}
	last, numbers := uint64(0), make(map[uint64]bool)
	for place := range all {
		numbers[place.Number] = true
		last = max(last, place.Number)
	}
	var list []*Begun
	for _, number := range slices.Sorted(maps.Keys(numbers)) {
		b, err := generation(ctx, t, number, all)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	for number := last + 1; ; number++ {
		_, err := Read(ctx, t, GenerationObject(number), 1)
		if errors.Is(err, ErrNotFound) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if number > last+mostUnlisted {
			return nil, fmt.Errorf("it answers that it has %s, too, which its list does not have: is it a service for objects?", GenerationObject(number))
		}
		one, err := listings(ctx, t, generationFolder(number))
		if err != nil {
			return nil, err
		}
		b, err := generation(ctx, t, number, one)
		if err != nil {
			return nil, err
		}
		// It may have been begun a moment ago, or an hour ago on a target whose lists are late.
		if len(b.Listing.Fulls) == 0 {
			if _, err := Read(ctx, t, b.Place.Full(1), 1); err == nil {
				b.Listing.Fulls = []uint64{1}
			} else if !errors.Is(err, ErrNotFound) {
				return nil, err
			}
		}
		list = append(list, b)
	}
}

// generation reads the object of a generation, and finds out where its other objects are.
func generation(ctx context.Context, t Target, number uint64, all map[Place]*Listing) (*Begun, error) {
	b := &Begun{Number: number}
	err := ReadJSON(ctx, t, GenerationObject(number), &b.Generation)
	switch {
	case err == nil:
		b.Place = b.Generation.Place(number)
	case gone(err):
		b.Generation, b.Err = Generation{}, err
		var places []Place
		for place, l := range all {
			if place.Number == number && (place.ID != "" || l.highest > 0) { // otherwise it has the damaged object alone
				places = append(places, place)
			}
		}
		if len(places) == 1 {
			b.Place, b.ID, b.Err = places[0], places[0].ID, nil
		} else {
			b.Place = Place{Number: number}
		}
	default:
		return nil, err
	}
	b.Listing = cmp.Or(all[b.Place], newListing())
	if own := all[Place{Number: number}]; own != nil && b.Place.ID != "" {
		b.Listing.objects += own.objects
		b.Listing.bytes += own.bytes
	}
	return b, nil
}

// Chain describes a generation to people.
type Chain struct {
	Number uint64
	Generation
	// Fulls are its full copies, from the oldest on.
	Fulls []Full
	// First and Last are the earliest and the latest time of which a database can be made; zero if
	// there is no full copy.
	First, Last time.Time
	Objects     int
	Bytes       int64
	// Missing is an object without which it is not whole: the first one that the list should have.
	Missing string
}

// Describe describes the generations of a target, from the first on, as far as the list has them. It
// lists all objects, and reads a few of each generation.
func Describe(ctx context.Context, t Target) (chains []Chain, err error) {
	t = patient{t}
	all, err := Generations(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, begun := range all {
		c, err := describe(ctx, t, begun, all)
		if err != nil {
			return nil, err
		}
		chains = append(chains, c)
	}
	return chains, nil
}

func describe(ctx context.Context, t Target, b *Begun, all []*Begun) (Chain, error) {
	l, place := b.Listing, b.Place
	c := Chain{Number: b.Number, Generation: b.Generation, Objects: l.objects, Bytes: l.bytes}
	if b.BeganAt.IsZero() {
		c.Missing = GenerationObject(b.Number)
	}
	for _, first := range l.Fulls {
		full, err := ReadFull(ctx, t, place, first)
		if gone(err) {
			c.Missing = place.Full(first)
			continue
		} else if err != nil {
			return c, err
		}
		for part := range full.Parts {
			if name := place.Part(first, part); l.Parts[name].Size == 0 {
				c.Missing = cmp.Or(c.Missing, name)
			}
		}
		c.Fulls = append(c.Fulls, full)
	}
	state := uint64(1)
	switch based := b.Base != nil && find(all, *b.Base) != nil; {
	case based:
		c.First, c.Last = b.BeganAt, b.BeganAt
	case len(c.Fulls) > 0:
		c.First, c.Last, state = c.Fulls[0].EndedAt, c.Fulls[0].EndedAt, c.Fulls[0].First
	default:
		needed := place.Full(1)
		if b.Base != nil {
			needed = GenerationObject(b.Base.Generation)
		}
		c.Missing = cmp.Or(c.Missing, needed)
		return c, nil
	}
	for _, full := range c.Fulls {
		if full.EndedAt.After(c.Last) {
			c.Last = full.EndedAt
		}
	}
	last := ""
	for state < l.highest {
		name, object, listed := l.after(place, l.Hours, state)
		if !listed {
			c.Missing = cmp.Or(c.Missing, name)
			break
		}
		state, last = object.Last, name
	}
	if last == "" {
		return c, nil
	}
	header, err := readHeader(ctx, t, last)
	if at := time.UnixMilli(header.Timestamp); err == nil && at.After(c.Last) {
		c.Last = at
	}
	if gone(err) {
		err = nil
	}
	return c, err
}

// find returns the generation of a base, or nil.
func find(all []*Begun, base Base) *Begun {
	for _, b := range all {
		if b.Number == base.Generation && b.ID == base.ID {
			return b
		}
	}
	return nil
}

// damagedError says that an object is not what its name says, or that there is none although the
// list has it.
type damagedError struct {
	name string
	err  error
}

func (e *damagedError) Error() string { return e.name + " " + e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

// gone reports whether an object is damaged or was deleted.
func gone(err error) bool {
	return errors.As(err, new(*damagedError)) || errors.Is(err, ErrNotFound)
}

func damaged(name, format string, values ...any) error {
	return &damagedError{name, fmt.Errorf(format, values...)}
}

// patient is a target whose requests are repeated, for people who wait for a restore.
type patient struct{ Target }

// again repeats a request to a patient target that fails for a while: for ten seconds.
func again(ctx context.Context, t Target, do func() error) error {
	if _, ok := t.(patient); !ok {
		return do()
	}
	for wait := 200 * time.Millisecond; ; wait *= 3 {
		err := do()
		if err == nil || gone(err) || wait > 10*time.Second {
			return err
		}
		if err := pause.For(ctx, wait); err != nil {
			return err
		}
	}
}

// readTimeout bounds the reading of something small.
const readTimeout = time.Minute

// Read reads an object, or only its beginning if it has more bytes than most. It gives up after a minute. ErrNotFound.
func Read(ctx context.Context, t Target, name string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return read(ctx, t, name, most)
}

// read is Read without a limit of time.
func read(ctx context.Context, t Target, name string, most int64) (text []byte, err error) {
	err = again(ctx, t, func() error {
		body, err := t.Read(ctx, name)
		if err != nil {
			return err
		}
		text, err = io.ReadAll(io.LimitReader(body, most))
		_ = body.Close() // it was read
		return err
	})
	return text, err
}

// ReadJSON reads an object that is JSON, of up to 64 KB. ErrNotFound.
func ReadJSON(ctx context.Context, t Target, name string, into any) error {
	text, err := Read(ctx, t, name, 64<<10)
	if err == nil && json.Unmarshal(text, into) != nil {
		err = damaged(name, "is damaged")
	}
	return err
}

// ReadFull reads the object that ends a full copy. ErrNotFound.
func ReadFull(ctx context.Context, t Target, place Place, first uint64) (full Full, err error) {
	name := place.Full(first)
	if err := ReadJSON(ctx, t, name, &full); err != nil {
		return full, err
	}
	if full.First != first || first == 0 || full.Last < first || full.Parts < 1 || full.Parts > 1<<20 ||
		!ltx.IsValidPageSize(full.PageSize) || full.EndedAt.Before(full.BeganAt) {
		return full, damaged(name, "is damaged")
	}
	full.EndedAt = full.EndedAt.Truncate(time.Millisecond) // as other states have it
	return full, nil
}

// readHeader reads the header of an object with changes, which nothing has checked.
func readHeader(ctx context.Context, t Target, name string) (header ltx.Header, err error) {
	text, err := Read(ctx, t, name, ltx.HeaderSize)
	if err == nil && header.UnmarshalBinary(text) != nil {
		err = damaged(name, "is damaged")
	}
	return header, err
}

// HoursUntil returns how many of the hours of a place, which are in order, come before the first one whose last state is
// late, as is said of its time. It reads the beginnings of a few.
func HoursUntil(ctx context.Context, t Target, place Place, hours []Span, late func(time.Time) bool) (n int, err error) {
	n = sort.Search(len(hours), func(i int) bool {
		if err != nil {
			return false
		}
		name := place.Hour(hours[i].First, hours[i].Last)
		header, e := readHeader(ctx, t, name)
		if errors.Is(e, ErrNotFound) {
			e = damaged(name, "%w", e)
		}
		err = e
		return late(time.UnixMilli(header.Timestamp))
	})
	return n, err
}
