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
	"strconv"
	"time"

	"github.com/superfly/ltx"

	"stepboard/internal/pause"
)

// span is an object with the changes that lead from the state before first to last.
type span struct {
	first, last uint64
	size        int64
}

// listing has the objects of a generation that a list has.
type listing struct {
	fulls   []uint64         // the first states of those that are complete, ascending
	each    map[uint64]int64 // sizes by the state
	hours   []span           // ordered by last
	parts   map[string]int64 // sizes of parts of full copies by their name
	highest uint64           // the highest state that has left a trace
	objects int
	bytes   int64
}

var namePattern = regexp.MustCompile(`^(\d{8,19})/(?:generation\.json|(full|each|hour)/([0-9a-f]{16})(?:-(\d{6}|[0-9a-f]{16}))?\.(ltx|json))$`)

// listings lists the generations of a target, or only one if a folder is given.
func listings(ctx context.Context, t Target, folder string) (map[uint64]*listing, error) {
	var objects []Object
	err := again(ctx, t, func() (err error) {
		objects, err = t.List(ctx, folder)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make(map[uint64]*listing)
	for _, o := range objects {
		match := namePattern.FindStringSubmatch(o.Name)
		if match == nil {
			continue // somebody else's
		}
		generation, err := strconv.ParseUint(match[1], 10, 64)
		if err != nil || generation == 0 {
			continue
		}
		if all[generation] == nil {
			all[generation] = &listing{each: make(map[uint64]int64), parts: make(map[string]int64)}
		}
		all[generation].add(generation, o, match[2:])
	}
	for _, l := range all {
		slices.Sort(l.fulls)
		slices.SortFunc(l.hours, func(a, b span) int { return cmp.Compare(a.last, b.last) })
	}
	return all, nil
}

// add adds an object whose name has a kind, one or two numbers, and an ending.
func (l *listing) add(generation uint64, o Object, name []string) {
	first, _ := strconv.ParseUint(name[1], 16, 64) // checked by the pattern, as below
	last := first
	switch {
	case o.Name == GenerationObject(generation):
	case o.Name == FullObject(generation, first):
		l.fulls = append(l.fulls, first)
	case name[0] == "full" && len(name[2]) == 6:
		l.parts[o.Name] = o.Size
	case o.Name == EachObject(generation, first):
		l.each[first] = o.Size
	default:
		last, _ = strconv.ParseUint(name[2], 16, 64)
		if o.Name != HourObject(generation, first, last) || last < first {
			return
		}
		l.hours = append(l.hours, span{first, last, o.Size})
	}
	l.highest = max(l.highest, last)
	l.objects++
	l.bytes += o.Size
}

// cover returns the one of some hours that goes farthest from a state, if one goes farther.
func cover(hours []span, state uint64) (best span, ok bool) {
	for _, hour := range hours {
		if hour.first <= state+1 && state < hour.last && hour.last > best.last {
			best, ok = hour, true
		}
	}
	return best, ok
}

// Generations returns the numbers of the generations that a target has, ascending. It lists all
// objects, in one request for a thousand of them, and asks for those that the list may lack.
func Generations(ctx context.Context, t Target) ([]uint64, error) {
	_, numbers, err := generations(ctx, t)
	return numbers, err
}

func generations(ctx context.Context, t Target) (map[uint64]*listing, []uint64, error) {
	all, err := listings(ctx, t, "")
	if err != nil {
		return nil, nil, err
	}
	next := uint64(1)
	for number := range all {
		next = max(next, number+1)
	}
	for ; ; next++ {
		_, err := read(ctx, t, GenerationObject(next), 1)
		if errors.Is(err, ErrNotFound) {
			return all, slices.Sorted(maps.Keys(all)), nil
		}
		if err != nil {
			return nil, nil, err
		}
		one, err := listings(ctx, t, GenerationFolder(next))
		if err != nil {
			return nil, nil, err
		}
		all[next] = one[next]
		if all[next] == nil {
			all[next] = &listing{}
		}
		// It may have been begun a moment ago, or an hour ago on a target whose lists are late.
		if len(all[next].fulls) == 0 {
			if _, err := read(ctx, t, FullObject(next, 1), 1); err == nil {
				all[next].fulls = []uint64{1}
			} else if !errors.Is(err, ErrNotFound) {
				return nil, nil, err
			}
		}
	}
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
	all, numbers, err := generations(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, number := range numbers {
		c, err := describe(ctx, t, number, all[number])
		if err != nil {
			return nil, err
		}
		chains = append(chains, c)
	}
	return chains, nil
}

func describe(ctx context.Context, t Target, number uint64, l *listing) (Chain, error) {
	c := Chain{Number: number, Objects: l.objects, Bytes: l.bytes}
	if err := readJSON(ctx, t, GenerationObject(number), &c.Generation); gone(err) {
		c.Missing = GenerationObject(number)
	} else if err != nil {
		return c, err
	}
	for _, first := range l.fulls {
		full, err := readFull(ctx, t, number, first)
		if gone(err) {
			c.Missing = FullObject(number, first)
			continue
		} else if err != nil {
			return c, err
		}
		for part := range full.Parts {
			if name := FullPart(number, first, part); l.parts[name] == 0 && c.Missing == "" {
				c.Missing = name
			}
		}
		c.Fulls = append(c.Fulls, full)
	}
	if len(c.Fulls) == 0 {
		if c.Missing == "" {
			c.Missing = FullObject(number, 1)
		}
		return c, nil
	}
	c.First, c.Last = c.Fulls[0].EndedAt, c.Fulls[len(c.Fulls)-1].EndedAt
	last := ""
	for state := c.Fulls[0].First; state < l.highest; {
		hour, joined := cover(l.hours, state)
		if state++; joined {
			state, last = hour.last, HourObject(number, hour.first, hour.last)
		} else if _, ok := l.each[state]; ok {
			last = EachObject(number, state)
		} else {
			if c.Missing == "" {
				c.Missing = EachObject(number, state)
			}
			break
		}
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

// read reads an object, or only its beginning if it has more bytes than most.
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

func readJSON(ctx context.Context, t Target, name string, into any) error {
	text, err := read(ctx, t, name, 64<<10)
	if err == nil && json.Unmarshal(text, into) != nil {
		err = damaged(name, "is damaged")
	}
	return err
}

func readFull(ctx context.Context, t Target, generation, first uint64) (full Full, err error) {
	name := FullObject(generation, first)
	if err := readJSON(ctx, t, name, &full); err != nil {
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
	text, err := read(ctx, t, name, ltx.HeaderSize)
	if err == nil && header.UnmarshalBinary(text) != nil {
		err = damaged(name, "is damaged")
	}
	return header, err
}
