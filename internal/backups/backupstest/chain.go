package backupstest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/superfly/ltx"

	"stepboard/internal/backups"
)

// State is a state of a chain, as it should be restored.
type State struct {
	Time     time.Time
	Database []byte
}

// Chain writes the states of a generation to a target. States may be successive copies of a database's
// file, or any other bytes.
type Chain struct {
	t      testing.TB
	target backups.Target
	// Place is where its objects are.
	backups.Place
	BeganAt  time.Time
	pageSize int
	// States has the states from the first one on, which is number 1.
	States []State
	each   map[uint64][]byte // the objects of states, to be joined
}

// ID is the ID of all generations.
const ID = "TESTTESTTESTTESTTESTTESTTE"

// NewChain begins a generation with its first state.
func NewChain(t testing.TB, target backups.Target, number uint64, pageSize int, at time.Time, database []byte) *Chain {
	t.Helper()
	return newChain(t, target, number, pageSize, at, State{at, bytes.Clone(database)}, nil)
}

// NewChainOn begins a generation upon a state of another one.
func NewChainOn(base *Chain, state, number uint64, at time.Time) *Chain {
	base.t.Helper()
	return newChain(base.t, base.target, number, base.pageSize, at, base.States[state-1], &backups.Base{Generation: base.Number, ID: ID, State: state})
}

func newChain(t testing.TB, target backups.Target, number uint64, pageSize int, at time.Time, first State, base *backups.Base) *Chain {
	t.Helper()
	c := &Chain{
		t: t, target: target, Place: backups.Place{Number: number, ID: ID}, BeganAt: at, pageSize: pageSize,
		States: []State{first}, each: make(map[uint64][]byte),
	}
	c.createJSON(backups.GenerationObject(number), backups.Generation{ID: ID, Host: "test", BeganAt: at, Layout: backups.Layout, Base: base})
	return c
}

// State returns the number of the newest state.
func (c *Chain) State() uint64 { return uint64(len(c.States)) }

// Commit writes the next state.
func (c *Chain) Commit(at time.Time, database []byte) {
	c.t.Helper()
	before := c.States[len(c.States)-1].Database
	var pages []uint32
	for from := 0; from < len(database); from += c.pageSize {
		if to := from + c.pageSize; to > len(before) || !bytes.Equal(database[from:to], before[from:to]) {
			pages = append(pages, uint32(from/c.pageSize)+1)
		}
	}
	c.States = append(c.States, State{at, bytes.Clone(database)})
	state := c.State()
	c.each[state] = c.encode(ltx.Header{
		MinTXID: ltx.TXID(state), MaxTXID: ltx.TXID(state), Timestamp: at.UnixMilli(), PreApplyChecksum: c.Checksum(before),
	}, database, pages, c.Checksum(database))
	c.create(c.Each(state), c.each[state])
}

// Checksum returns the checksum of a database.
func (c *Chain) Checksum(database []byte) ltx.Checksum {
	sum, err := ltx.ChecksumReader(bytes.NewReader(database), c.pageSize)
	if err != nil {
		c.t.Fatal(err)
	}
	return ltx.ChecksumFlag | sum
}

// Join writes the changes of several states as those of an hour.
func (c *Chain) Join(first, last uint64) {
	c.t.Helper()
	var each []io.Reader
	for state := first; state <= last; state++ {
		each = append(each, bytes.NewReader(c.each[state]))
	}
	var joined bytes.Buffer
	compactor, err := ltx.NewCompactor(&joined, each)
	if err == nil {
		err = compactor.Compact(context.Background())
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.create(c.Hour(first, last), joined.Bytes())
}

// FullCopy is a full copy that is being made.
type FullCopy struct {
	c     *Chain
	full  backups.Full
	pages int // that were copied
}

// BeginFull begins a full copy.
func (c *Chain) BeginFull() *FullCopy {
	state := c.State()
	return &FullCopy{c: c, full: backups.Full{
		First: state, PageSize: uint32(c.pageSize), BeganAt: c.States[state-1].Time,
	}}
}

// Copy writes the next pages of the newest state as a part, and reports whether there are no more.
func (f *FullCopy) Copy(pages int) (ended bool) {
	f.c.t.Helper()
	database := f.c.States[f.c.State()-1].Database
	var numbers []uint32
	for ; len(numbers) < pages && f.pages < len(database)/f.c.pageSize; f.pages++ {
		numbers = append(numbers, uint32(f.pages)+1)
	}
	if len(numbers) == 0 && f.full.Parts > 0 {
		return true
	}
	part := f.c.encode(ltx.Header{
		Flags: ltx.HeaderFlagNoChecksum, MinTXID: ltx.TXID(f.full.First + 1), MaxTXID: ltx.TXID(f.full.First + 1),
	}, database, numbers, 0)
	f.c.create(f.c.Part(f.full.First, f.full.Parts), part)
	f.full.Parts++
	f.full.Bytes += int64(len(part))
	return f.pages >= len(database)/f.c.pageSize
}

// End ends the copy.
func (f *FullCopy) End() backups.Full {
	f.c.t.Helper()
	f.full.Last = f.c.State()
	f.full.EndedAt = f.c.States[f.full.Last-1].Time
	f.c.createJSON(f.c.Place.Full(f.full.First), f.full)
	return f.full
}

// Full makes a full copy of the newest state.
func (c *Chain) Full() backups.Full {
	c.t.Helper()
	f := c.BeginFull()
	for !f.Copy(8) {
	}
	return f.End()
}

func (c *Chain) encode(header ltx.Header, database []byte, pages []uint32, after ltx.Checksum) []byte {
	c.t.Helper()
	var text bytes.Buffer
	header.Version, header.PageSize, header.Commit = ltx.Version, uint32(c.pageSize), uint32(len(database)/c.pageSize)
	err := backups.Encode(&text, header, func(write backups.WritePage) (ltx.Checksum, error) {
		for _, page := range pages {
			if err := write(page, database[int(page-1)*c.pageSize:int(page)*c.pageSize]); err != nil {
				return 0, err
			}
		}
		return after, nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return text.Bytes()
}

func (c *Chain) createJSON(name string, value any) {
	c.t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		c.t.Fatal(err)
	}
	c.create(name, text)
}

func (c *Chain) create(name string, text []byte) {
	c.t.Helper()
	if err := c.target.Create(context.Background(), name, bytes.NewReader(text), int64(len(text))); err != nil {
		c.t.Fatal(err)
	}
}
