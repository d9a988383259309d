// Package board keeps buckets in Redis: one sorted set for each shard, with
// the user id as member and the composite as score. Everything that changes a
// bucket is ZADD GT of an absolute composite, so updates may be repeated,
// reordered or replayed without changing the outcome. Buckets with a window hold
// sums of such sets, kept in step with them by scripts: redis_rolling.go.
package board

import (
	"stepboard/models"
)

// Top stands before every entry of every bucket: a window from here begins
// with the leader.
var Top = models.Entry{Composite: 1 << 53}

// Window is a stretch of a bucket around a place, merged over its shards.
type Window struct {
	// Total is the number of entries in the bucket.
	Total int64
	// Before is the number of entries that rank before the place.
	Before int64
	// Ahead holds the nearest entries before the place, best first.
	Ahead []models.Entry
	// Behind holds the entries from the place on, best first: the place's own
	// entry first, if it is in the bucket.
	Behind []models.Entry
}

// shardWindow is one shard's part of a window: entries in ranking order, of which
// the first `ahead` stand before the place.
type shardWindow struct {
	total, before int64
	ahead         int
	entries       []models.Entry
}

// mergeShards joins the shards' parts. Ranks add up, because each shard counts only
// its own users; the nearest entries of the whole are among the nearest of
// each shard.
func mergeShards(parts []shardWindow, back, forward int) Window {
	var w Window
	ahead := make([][]models.Entry, len(parts))
	behind := make([][]models.Entry, len(parts))
	for i, p := range parts {
		w.Total += p.total
		w.Before += p.before
		ahead[i], behind[i] = p.entries[:p.ahead], p.entries[p.ahead:]
	}
	w.Ahead = takeLast(ahead, back)
	w.Behind = takeFirst(behind, forward)
	return w
}

// takeFirst merges sorted lists and keeps the first n entries. It consumes
// the lists. O(n × lists), with few lists.
func takeFirst(lists [][]models.Entry, n int) []models.Entry {
	if len(lists) == 1 {
		return lists[0][:min(n, len(lists[0]))]
	}
	var out []models.Entry
	for len(out) < n {
		best := -1
		for i, list := range lists {
			if len(list) > 0 && (best < 0 || list[0].Compare(lists[best][0]) < 0) {
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

// takeLast merges sorted lists and keeps the last n entries, in order.
func takeLast(lists [][]models.Entry, n int) []models.Entry {
	if len(lists) == 1 {
		return lists[0][max(0, len(lists[0])-n):]
	}
	var total int
	for _, list := range lists {
		total += len(list)
	}
	n = min(n, total)
	out := make([]models.Entry, n)
	for at := n - 1; at >= 0; at-- {
		last := -1
		for i, list := range lists {
			if len(list) > 0 && (last < 0 || list[len(list)-1].Compare(lists[last][len(lists[last])-1]) > 0) {
				last = i
			}
		}
		out[at] = lists[last][len(lists[last])-1]
		lists[last] = lists[last][:len(lists[last])-1]
	}
	return out
}
