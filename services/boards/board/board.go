package board

import (
	"slices"

	"stepboard/models"
	"stepboard/services/boards/orderlist"
)

// Top is the position before the first entry of every bucket. A window from Top
// begins with the leader.
var Top = models.Entry{Composite: 1 << 53}

// Window is a range of a bucket around a position, merged over its shards.
type Window struct {
	// Total is the number of entries in the bucket.
	Total int64
	// Before is the number of entries that rank before the position.
	Before int64
	// Ahead holds the nearest entries before the position, best first.
	Ahead []models.Entry
	// Behind holds the entries from the position on, best first. It begins with the
	// position's own entry, if that is in the bucket.
	Behind []models.Entry
}

// ShardWindow is one shard's part of a window. Of its entries, in ranking
// order, the first Ahead rank before the position.
type ShardWindow struct {
	Total, Before int64
	Ahead         int
	Entries       []models.Entry
}

// WindowIn returns the part of a window that an order list has. O(log n), plus the entries.
func WindowIn(list *orderlist.List, at models.Entry, back, forward int) ShardWindow {
	before := list.Before(at)
	ahead := min(before, back)
	return ShardWindow{
		Total: int64(list.Len()), Before: int64(before), Ahead: ahead, Entries: list.Range(before-ahead, before+forward),
	}
}

// MergeShards merges the shards' parts of a window. Ranks add up, because each
// shard counts only its own users. The nearest entries of the bucket are among
// the nearest of each shard.
func MergeShards(parts []ShardWindow, back, forward int) Window {
	var w Window
	ahead := make([][]models.Entry, len(parts))
	behind := make([][]models.Entry, len(parts))
	for i, p := range parts {
		w.Total += p.Total
		w.Before += p.Before
		ahead[i], behind[i] = p.Entries[:p.Ahead], p.Entries[p.Ahead:]
	}
	w.Ahead = takeLast(ahead, back)
	w.Behind = takeFirst(behind, forward, models.Entry.Compare)
	return w
}

// takeFirst merges lists that are sorted by compare, and returns the first n entries. It consumes
// the lists. O(n × lists), for few lists.
func takeFirst(lists [][]models.Entry, n int, compare func(a, b models.Entry) int) []models.Entry {
	if len(lists) == 1 {
		return lists[0][:min(n, len(lists[0]))]
	}
	var out []models.Entry
	for len(out) < n {
		best := -1
		for i, list := range lists {
			if len(list) > 0 && (best < 0 || compare(list[0], lists[best][0]) < 0) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		out = append(out, lists[best][0])
		lists[best] = lists[best][1:]
	}
	return out
}

// takeLast merges sorted lists and returns the last n entries, in order. It
// consumes the lists.
func takeLast(lists [][]models.Entry, n int) []models.Entry {
	for _, list := range lists {
		slices.Reverse(list)
	}
	last := takeFirst(lists, n, func(a, b models.Entry) int { return b.Compare(a) })
	slices.Reverse(last)
	return last
}
