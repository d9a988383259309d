package nearcache

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"stepboard/internal/column"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// hold adds tables for buckets that are to be held, and removes those of others. A
// table that has no room stays empty until others have left.
func (c *Cache) hold() {
	now := c.o.Clock()
	wanted := slices.DeleteFunc(slices.Clone(c.o.Buckets(now)), func(b *models.Bucket) bool {
		return !b.ChangeStream || b.Cold(now)
	})
	freed := false
	for key, t := range *c.tables.Load() {
		switch {
		case !slices.ContainsFunc(wanted, func(b *models.Bucket) bool { return keyOf(b) == key }):
			freed = true
			c.drop(t, true)
		case t.overflowed():
			c.o.Log.Warn("rankings.memory has no room for a bucket, so its rankings are read from Redis",
				"board", key.board, "bucket", key.name)
			c.drop(t, false)
		}
	}
	for _, b := range wanted {
		if t := (*c.tables.Load())[keyOf(b)]; t == nil || freed && t.full.Load() {
			c.add(b)
		}
	}
	c.watch()
}

// add adds an empty table for a bucket, or replaces the one that had no room. Its parts
// are copied once their streams are followed.
func (c *Cache) add(b *models.Bucket) {
	t := newTable(b, &c.budget, c.o.Elapsed())
	for shard := range b.Shards {
		key := board.ChangeStream{Board: b.Board, Shard: shard}
		s := c.streams[key]
		if s == nil {
			s = &stream{cache: c}
			s.Stream = c.follower.Stream(key, s)
			c.streams[key] = s
		}
		t.parts = append(t.parts, &part{table: t, stream: s, shard: shard})
	}
	// From here on this process's own writes reach the table, before any copy begins.
	c.setTables(func(tables map[bucketKey]*table) { tables[keyOf(b)] = t })
	for _, p := range t.parts {
		p.stream.Lock()
		p.stream.parts = append(p.stream.parts, p)
		if p.stream.Following() {
			c.copies.add(p, nil)
		}
		p.stream.Unlock()
	}
}

// drop stops following the streams for a table and releases its memory. The table
// is removed, or stays without contents.
func (c *Cache) drop(t *table, remove bool) {
	if remove {
		c.setTables(func(tables map[bucketKey]*table) { delete(tables, keyOf(t.bucket)) })
	}
	for _, p := range t.parts {
		s := p.stream
		s.Lock()
		c.disbelieve(p)
		p.dropOrder()
		s.parts = slices.DeleteFunc(s.parts, func(other *part) bool { return other == p })
		unused := len(s.parts) == 0
		s.Unlock()
		if unused && c.streams[s.Key] == s {
			delete(c.streams, s.Key)
		}
	}
	t.release()
}

// poll holds the current buckets, and begins to read their streams.
func (c *Cache) poll(ctx context.Context, reads *sync.WaitGroup) {
	c.hold()
	streams := slices.SortedFunc(maps.Values(c.streams), func(a, b *stream) int {
		return cmp.Or(cmp.Compare(a.Key.Board, b.Key.Board), cmp.Compare(a.Key.Shard, b.Key.Shard))
	})
	c.follower.Poll(ctx, column.Of(streams, func(s *stream) *changes.Stream[board.ChangeStream, board.Change] { return s.Stream }), reads)
}
