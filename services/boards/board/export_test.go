package board

import "stepboard/models"

// WithClock returns the same buckets with another clock.
func WithClock(l *Local, clock models.Clock) *Local {
	then := *l
	then.clock = clock
	return &then
}
