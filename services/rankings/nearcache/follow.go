package nearcache

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
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
			s = &stream{ChangeStream: key}
			c.streams[key] = s
		}
		t.parts = append(t.parts, &part{table: t, stream: s, shard: shard})
	}
	// From here on this process's own writes reach the table, before any copy begins.
	c.setTables(func(tables map[bucketKey]*table) { tables[keyOf(b)] = t })
	for _, p := range t.parts {
		p.stream.mu.Lock()
		p.stream.parts = append(p.stream.parts, p)
		if p.stream.following {
			c.copies.add(p)
		}
		p.stream.mu.Unlock()
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
		s.mu.Lock()
		c.disbelieve(p)
		s.parts = slices.DeleteFunc(s.parts, func(other *part) bool { return other == p })
		unused := len(s.parts) == 0
		s.mu.Unlock()
		if unused && c.streams[s.ChangeStream] == s {
			delete(c.streams, s.ChangeStream)
		}
	}
	t.release()
}

// followAll begins to read all streams that are not being read yet, those of each
// server by themselves: one that hangs holds up only its own. A read that takes longer
// than the interval of reads is not repeated meanwhile.
func (c *Cache) followAll(ctx context.Context, reads *sync.WaitGroup) {
	groups := make(map[string][]*stream)
	for _, s := range c.streams {
		if s.busy.Swap(true) {
			continue
		}
		server, ok := c.server(ctx, s)
		if !ok {
			s.busy.Store(false)
			continue
		}
		groups[server] = append(groups[server], s)
	}
	for _, group := range groups {
		reads.Go(func() { c.follow(ctx, group) })
	}
}

// followEach reads each stream up to its end, one after the other.
func (c *Cache) followEach(ctx context.Context) {
	streams := slices.SortedFunc(maps.Values(c.streams), func(a, b *stream) int {
		return cmp.Or(cmp.Compare(a.Board, b.Board), cmp.Compare(a.Shard, b.Shard))
	})
	for _, s := range streams {
		if s.busy.Swap(true) {
			continue
		}
		if _, ok := c.server(ctx, s); !ok {
			s.busy.Store(false)
			continue
		}
		c.follow(ctx, []*stream{s})
	}
}

// server returns the server of a stream. It returns false if the stream is not to be
// read now.
func (c *Cache) server(ctx context.Context, s *stream) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parts) == 0 || !s.following && c.o.Elapsed().Before(s.resumeAt) {
		return "", false
	}
	// The user of this number would be in the shard.
	update := models.Raise{Bucket: s.parts[0].table.bucket, Entry: models.Entry{User: models.RowID(s.Shard)}}
	return c.o.Source.Server(ctx, update), true
}

// follow reads streams up to their ends, all in one round trip for each
// changesAtOnce entries of the longest. Streams that are not followed yet take one more
// each.
func (c *Cache) follow(ctx context.Context, streams []*stream) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for _, s := range streams {
		defer s.busy.Store(false)
	}
	var failed error
	left := slices.DeleteFunc(slices.Clone(streams), func(s *stream) bool {
		err := c.start(ctx, s)
		failed = errors.Join(failed, err)
		return err != nil
	})
	for len(left) > 0 {
		reads := make([]board.ChangeRead, len(left))
		for i, s := range left {
			s.mu.Lock()
			reads[i] = board.ChangeRead{ChangeStream: s.ChangeStream, After: s.mark, Count: c.changesAtOnce}
			s.mu.Unlock()
		}
		sent := c.o.Elapsed()
		pages := c.o.Source.Changes(ctx, reads)
		var more []*stream
		for i, s := range left {
			switch again, err := c.read(s, pages[i], sent); {
			case err != nil:
				failed = errors.Join(failed, err)
			case again:
				more = append(more, s)
			}
		}
		left = more
	}
	c.report(ctx, failed)
}

// start begins to follow a stream, unless it is followed already.
func (c *Cache) start(ctx context.Context, s *stream) error {
	s.mu.Lock()
	following := s.following
	s.mu.Unlock()
	if following {
		return nil
	}
	mark, err := c.o.Source.LastChange(ctx, s.ChangeStream)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(mark, c.o.Elapsed()); err != nil {
		return err
	}
	for _, p := range s.parts {
		c.copies.add(p)
	}
	return nil
}

// read applies a page that was read by a call sent at a moment, and reports whether more
// may follow it.
func (c *Cache) read(s *stream, page board.ChangePage, sent time.Time) (again bool, err error) {
	if models.CodeOf(page.Err) == models.CodeUnavailable {
		return false, page.Err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.following { // a copy has found a loss meanwhile
		return false, nil
	}
	err = page.Err
	if err == nil {
		err = s.apply(page, sent, c.reset)
	}
	if err != nil {
		c.startOver(s, err)
		return false, nil
	}
	return !page.Complete, nil
}

// trim trims the streams of the tables.
func (c *Cache) trim(ctx context.Context) error {
	_, err := c.o.Trim(ctx, c.followed())
	return err
}

// followed returns the streams of the tables.
func (c *Cache) followed() []board.ChangeStream {
	followed := make(map[board.ChangeStream]bool)
	for _, t := range *c.tables.Load() {
		for _, p := range t.parts {
			followed[p.stream.ChangeStream] = true
		}
	}
	return slices.Collect(maps.Keys(followed))
}
