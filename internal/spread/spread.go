// Package spread gives copies in Redis different lifetimes, so that copies that were stored
// together do not expire together.
package spread

import "time"

// Of returns a duration from 0 to less than most. It depends on the number only, and is about
// evenly distributed over consecutive numbers. most must be positive.
func Of(n int64, most time.Duration) time.Duration {
	// Multiplying by 2^64 divided by the golden ratio spreads consecutive numbers evenly over
	// 64 bits. The upper half of them is taken as a fraction of 2^32.
	const golden = 0x9e3779b97f4a7c15
	fraction := uint64(n) * golden >> 32
	return time.Duration(fraction*uint64(most/time.Millisecond)>>32) * time.Millisecond
}
