// Package orderlist keeps entries in ranking order in memory, and finds ranks and windows in it.
//
// The entries are in blocks, best first. A directory holds the first entry of each block, and a
// Fenwick tree the sums of the blocks' sizes, so a position is found by two binary searches, and
// its rank by one walk through the tree. Blocks have no pointers, so the garbage collector does
// not read them.
package orderlist

import (
	"slices"

	"stepboard/models"
)

const (
	blockSize = 512
	// mergeBelow is the size below which a block is merged with a neighbour, if both together
	// have at most mergedSize entries: far enough from blockSize that it is not split soon.
	mergeBelow = blockSize / 4
	mergedSize = blockSize * 3 / 4
	// blockBytes is the memory of a block with its place in the directory and in the tree.
	blockBytes = blockSize*12 + 48
)

// MaxRow is the largest row id that a list takes.
const MaxRow models.RowID = 1<<32 - 1

// EntryBytes is about what an entry takes, as blocks are two thirds full.
const EntryBytes = blockBytes * 3 / 2 / blockSize

// List holds entries in the order of models.Entry.Compare. The zero List is empty. It is not
// safe for concurrent use.
type List struct {
	blocks []*block
	sizes  []int          // entries of each block, 1 or more
	firsts []models.Entry // the first entry of each block
	tree   []int          // Fenwick tree over sizes
	n      int
}

type block struct {
	composites [blockSize]models.Composite
	users      [blockSize]uint32
}

func (b *block) entry(i int) models.Entry {
	return models.Entry{Composite: b.composites[i], User: models.RowID(b.users[i])}
}

// Len returns the number of entries.
func (l *List) Len() int { return l.n }

// Bytes returns the memory that the list takes.
func (l *List) Bytes() int64 { return int64(len(l.blocks)) * blockBytes }

// Insert adds an entry, unless the list has it. The row id is 1 to MaxRow. O(log n) and the
// move of half a block; once in a few hundred times it splits a block, which is O(n / 256).
func (l *List) Insert(e models.Entry) {
	if l.n == 0 {
		l.addBlock(0, new(block), 0)
	}
	b, i := l.find(e)
	if i < l.sizes[b] && l.blocks[b].entry(i) == e {
		return
	}
	if l.sizes[b] == blockSize {
		l.split(b)
		if i > l.sizes[b] {
			b, i = b+1, i-l.sizes[b]
		}
	}
	at, size := l.blocks[b], l.sizes[b]
	copy(at.composites[i+1:size+1], at.composites[i:size])
	copy(at.users[i+1:size+1], at.users[i:size])
	at.composites[i], at.users[i] = e.Composite, uint32(e.User)
	l.resize(b, 1)
	if i == 0 {
		l.firsts[b] = e
	}
}

// Remove removes an entry, if the list has it. Costs as Insert.
func (l *List) Remove(e models.Entry) {
	if l.n == 0 {
		return
	}
	b, i := l.find(e)
	if i == l.sizes[b] || l.blocks[b].entry(i) != e {
		return
	}
	at, size := l.blocks[b], l.sizes[b]
	copy(at.composites[i:], at.composites[i+1:size])
	copy(at.users[i:], at.users[i+1:size])
	l.resize(b, -1)
	switch size--; {
	case size == 0:
		l.removeBlock(b)
	case i == 0:
		l.firsts[b] = at.entry(0)
	}
	if size > 0 && size < mergeBelow {
		l.merge(b)
	}
}

// Before returns how many entries rank before a position, which may be an entry or not.
// O(log n).
func (l *List) Before(position models.Entry) int {
	if l.n == 0 {
		return 0
	}
	b, i := l.find(position)
	for ; b > 0; b &= b - 1 {
		i += l.tree[b-1]
	}
	return i
}

// Range returns the entries from one place up to another, counted from 0; fewer if the list has
// fewer. O(log n) plus the entries.
func (l *List) Range(from, to int) []models.Entry {
	from, to = max(0, from), min(to, l.n)
	if from >= to {
		return nil
	}
	entries := make([]models.Entry, 0, to-from)
	for b, i := l.place(from); len(entries) < cap(entries); b, i = b+1, 0 {
		for ; i < l.sizes[b] && len(entries) < cap(entries); i++ {
			entries = append(entries, l.blocks[b].entry(i))
		}
	}
	return entries
}

// find returns the block of a position and the place in it: that of the first entry that does
// not rank before the position, or the end of the block.
func (l *List) find(e models.Entry) (b, i int) {
	low, high := 0, len(l.firsts)
	for low < high {
		if middle := int(uint(low+high) / 2); e.Before(l.firsts[middle]) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	b = max(0, low-1)
	// Row ids, which are elsewhere in memory, matter for equal composites only.
	at := l.blocks[b]
	composites := at.composites[:l.sizes[b]]
	low, high = 0, len(composites)
	for low < high {
		if middle := int(uint(low+high) / 2); composites[middle] > e.Composite {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(composites) || composites[low] != e.Composite || models.RowID(at.users[low]) == e.User {
		return b, low
	}
	for high = len(composites); low < high; {
		if middle := int(uint(low+high) / 2); at.entry(middle).Before(e) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return b, low
}

// place returns the block and the place in it of the entry at a place of the list.
func (l *List) place(at int) (b, i int) {
	step := 1
	for step*2 <= len(l.tree) {
		step *= 2
	}
	for ; step > 0; step /= 2 {
		if next := b + step; next <= len(l.tree) && l.tree[next-1] <= at {
			b, at = next, at-l.tree[next-1]
		}
	}
	return b, at
}

// resize adds to the size of a block.
func (l *List) resize(b, by int) {
	l.n += by
	l.sizes[b] += by
	for ; b < len(l.tree); b |= b + 1 {
		l.tree[b] += by
	}
}

// split moves the second half of a block to a new one behind it.
func (l *List) split(b int) {
	const half = blockSize / 2
	first, second := l.blocks[b], new(block)
	copy(second.composites[:], first.composites[half:])
	copy(second.users[:], first.users[half:])
	l.sizes[b] = half
	l.addBlock(b+1, second, blockSize-half)
}

// merge moves the entries of a block to a neighbour, or those of the neighbour to it, if one
// has room for them.
func (l *List) merge(b int) {
	for _, first := range []int{b, b - 1} {
		if first < 0 || first+1 == len(l.blocks) || l.sizes[first]+l.sizes[first+1] > mergedSize {
			continue
		}
		into, from, size := l.blocks[first], l.blocks[first+1], l.sizes[first+1]
		copy(into.composites[l.sizes[first]:], from.composites[:size])
		copy(into.users[l.sizes[first]:], from.users[:size])
		l.sizes[first] += size
		l.removeBlock(first + 1)
		return
	}
}

func (l *List) addBlock(b int, added *block, size int) {
	l.blocks = slices.Insert(l.blocks, b, added)
	l.sizes = slices.Insert(l.sizes, b, size)
	l.firsts = slices.Insert(l.firsts, b, added.entry(0))
	l.count()
}

func (l *List) removeBlock(b int) {
	l.blocks = slices.Delete(l.blocks, b, b+1)
	l.sizes = slices.Delete(l.sizes, b, b+1)
	l.firsts = slices.Delete(l.firsts, b, b+1)
	l.count()
}

// count builds the tree. O(blocks).
func (l *List) count() {
	l.tree = append(l.tree[:0], l.sizes...)
	for b, size := range l.tree {
		if up := b | (b + 1); up < len(l.tree) {
			l.tree[up] += size
		}
	}
}
