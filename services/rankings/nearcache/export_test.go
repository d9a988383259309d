package nearcache

import (
	"context"
	"sync"
)

// Step holds the current buckets and reads each stream up to its end.
func (c *Cache) Step(ctx context.Context) {
	var reads sync.WaitGroup
	c.poll(ctx, &reads)
	reads.Wait()
}

// HoldOrders makes and drops order lists as Run does repeatedly.
func (c *Cache) HoldOrders(ctx context.Context) { c.holdOrders(ctx) }

// Copy copies one page of a part, if any is to be copied, as runCopies does. It reports
// whether there was one.
func (c *Cache) Copy(ctx context.Context) bool {
	job := c.copies.take()
	if job == nil {
		return false
	}
	if more, err := c.copyPage(ctx, job); more || err != nil {
		c.copies.push(job, err == nil)
	}
	return true
}

// SetPages makes pages small.
func (c *Cache) SetPages(changes, entries int) { c.follower.Count, c.copiedAtOnce = changes, entries }
