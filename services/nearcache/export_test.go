package nearcache

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Step holds the current buckets and reads each stream up to its end, one after the
// other, as run does.
func (c *Cache) Step(ctx context.Context) {
	c.hold()
	streams := slices.SortedFunc(maps.Values(c.streams), func(a, b *stream) int { return a.Shard - b.Shard })
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

// Copy copies one page of a part, if any is to be copied, as runCopies does. It reports
// whether there was one.
func (c *Cache) Copy(ctx context.Context) bool {
	c.copies.mu.Lock()
	if len(c.copies.queue) == 0 {
		c.copies.mu.Unlock()
		return false
	}
	job := c.copies.queue[0]
	c.copies.queue = c.copies.queue[1:]
	c.copies.mu.Unlock()
	if more, err := c.copyPage(ctx, job); more || err != nil {
		c.copies.push(job)
	}
	return true
}

// SetPages makes pages small.
func (c *Cache) SetPages(changes, entries int) { c.changesAtOnce, c.copiedAtOnce = changes, entries }

// SetRandom replaces the source of random times.
func (c *Cache) SetRandom(random func(most time.Duration) time.Duration) { c.random = random }
