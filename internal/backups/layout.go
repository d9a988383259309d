// Package backups is about copies of a data folder's database that are kept elsewhere: where their
// objects lie, how they are written, and how a database is made of them again.
//
// The objects of a target, below its prefix:
//
//	00000003/generation.json                   a Generation: who began the third one, and when
//	00000003/ID/full/00000000000000a1-000000.ltx, …  the pages of a full copy that began at state a1, in parts
//	00000003/ID/full/00000000000000a1.json     a Full: that all of its parts are there
//	00000003/ID/each/00000000000000a2.ltx      the pages that differ between the states a1 and a2
//	00000003/ID/hour/0000000000000002-0000000000000e10.ltx  the same for all states of an hour, joined
//
// A state is what was committed when it was collected; they are numbered from 1 in each generation. The first
// may be a state of an earlier generation, its base. Nothing is overwritten. Who creates generation.json has the
// number, and its ID keeps apart what two have written who both believe that. Generations that were begun before
// version 0.1 have no folder of their ID.
package backups

import (
	"fmt"
	"io"
	"time"

	"github.com/superfly/ltx"
)

// Generation is the object that begins a generation: a chain of states of one database that one
// process ships. Whoever can't prove that it goes on with a chain begins the next one.
type Generation struct {
	// ID is random, and tells two processes apart that both believe that they began it.
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	Version string    `json:"version"`
	BeganAt time.Time `json:"began_at"`
	// Layout is 2, or 0 if the other objects are not in a folder of the ID.
	Layout int `json:"layout,omitempty"`
	// Base is the state that the first one of the generation is; nil if it begins with a full copy.
	Base *Base `json:"base,omitempty"`
}

// Base is a state of an earlier generation, which must stay at the target as long as later ones need it.
type Base struct {
	Generation uint64 `json:"generation"`
	ID         string `json:"id"`
	State      uint64 `json:"state"`
}

// Layout is the layout of generations that begin now.
const Layout = 2

// Place is where the objects of a generation are.
type Place struct {
	Number uint64
	// ID is empty for a generation of layout 0.
	ID string
}

// Place returns where the objects of a generation are that has a number.
func (g Generation) Place(number uint64) Place {
	if g.Layout != Layout {
		return Place{Number: number}
	}
	return Place{number, g.ID}
}

// Full is the object that ends a full copy. Its parts were read while the database was changed: they
// are a database only with the changes of all states after First up to Last, which lie over them.
type Full struct {
	First    uint64    `json:"first"`
	Last     uint64    `json:"last"`
	PageSize uint32    `json:"page_size"`
	Parts    int       `json:"parts"`
	Bytes    int64     `json:"bytes"` // of the parts
	BeganAt  time.Time `json:"began_at"`
	EndedAt  time.Time `json:"ended_at"` // the time of the state Last
}

// generationFolder begins the names of all objects of a number. The first one is 1.
func generationFolder(number uint64) string { return fmt.Sprintf("%08d/", number) }

// GenerationObject is the name of a Generation.
func GenerationObject(number uint64) string { return generationFolder(number) + "generation.json" }

// Folder begins the names of the other objects of a generation.
func (p Place) Folder() string {
	if p.ID == "" {
		return generationFolder(p.Number)
	}
	return generationFolder(p.Number) + p.ID + "/"
}

// Each is the name of the changes that lead to a state from the one before, from 2 on.
func (p Place) Each(state uint64) string { return fmt.Sprintf("%seach/%016x.ltx", p.Folder(), state) }

// Hour is the name of the changes that lead from the state before first to last.
func (p Place) Hour(first, last uint64) string {
	return fmt.Sprintf("%shour/%016x-%016x.ltx", p.Folder(), first, last)
}

// Part is the name of a part of a full copy, from 0 on.
func (p Place) Part(first uint64, part int) string {
	return fmt.Sprintf("%sfull/%016x-%06d.ltx", p.Folder(), first, part)
}

// Full is the name of a Full.
func (p Place) Full(first uint64) string { return fmt.Sprintf("%sfull/%016x.json", p.Folder(), first) }

// BeginObject is the name of a Beginning.
const BeginObject = "begin.json"

// Beginning is the wish of an operator that a process whose generation is not at the target begins a new one
// there. That process removes it.
type Beginning struct {
	AskedAt time.Time `json:"asked_at"`
}

// WritePage writes a page to an object. Pages come in order.
type WritePage = func(n uint32, content []byte) error

// Encode writes an object. pages writes its pages, and returns the checksum of the database after them, 0 for none.
func Encode(to io.Writer, header ltx.Header, pages func(WritePage) (after ltx.Checksum, err error)) error {
	encoder, err := ltx.NewEncoder(to)
	if err != nil {
		return err
	}
	if err := encoder.EncodeHeader(header); err != nil {
		return err
	}
	after, err := pages(func(n uint32, content []byte) error { return encoder.EncodePage(ltx.PageHeader{Pgno: n}, content) })
	if err != nil {
		return err
	}
	encoder.SetPostApplyChecksum(after)
	return encoder.Close()
}
