// Package backups is about copies of a data folder's database that are kept elsewhere: where their
// objects lie, how they are written, and how a database is made of them again.
//
// The objects of a target, below its prefix:
//
//	00000003/generation.json                         a Generation: who began the third one, and when
//	00000003/full/00000000000000a1-000000.ltx, …     the pages of a full copy that began at state a1, in parts
//	00000003/full/00000000000000a1.json              a Full: that all of its parts are there
//	00000003/each/00000000000000a2.ltx               the pages that differ between the states a1 and a2
//	00000003/hour/0000000000000002-0000000000000e10.ltx   the same for all states of an hour, joined
//
// A state is what was committed when it was collected; they are numbered from 1 in each generation.
// Nothing is overwritten.
package backups

import (
	"fmt"
	"time"
)

// Generation is the object that begins a generation: a chain of states of one database that one
// process ships. Whoever can't prove that it goes on with a chain begins the next one.
type Generation struct {
	// ID is random, and tells two processes apart that both believe that they began it.
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	Version string    `json:"version"`
	BeganAt time.Time `json:"began_at"`
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

// GenerationFolder begins the names of all objects of a generation. The first one is 1.
func GenerationFolder(generation uint64) string { return fmt.Sprintf("%08d/", generation) }

// GenerationObject is the name of a Generation.
func GenerationObject(generation uint64) string {
	return GenerationFolder(generation) + "generation.json"
}

// EachObject is the name of the changes that lead to a state from the one before, from 2 on.
func EachObject(generation, state uint64) string {
	return fmt.Sprintf("%seach/%016x.ltx", GenerationFolder(generation), state)
}

// HourObject is the name of the changes that lead from the state before first to last.
func HourObject(generation, first, last uint64) string {
	return fmt.Sprintf("%shour/%016x-%016x.ltx", GenerationFolder(generation), first, last)
}

// FullPart is the name of a part of a full copy, from 0 on.
func FullPart(generation, first uint64, part int) string {
	return fmt.Sprintf("%sfull/%016x-%06d.ltx", GenerationFolder(generation), first, part)
}

// FullObject is the name of a Full.
func FullObject(generation, first uint64) string {
	return fmt.Sprintf("%sfull/%016x.json", GenerationFolder(generation), first)
}
