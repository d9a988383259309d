// Package score packs a score, as points, and the time at which it was reached into one whole number,
// so that a sorted set orders by more points first and by the earlier time second. It is pure:
// no I/O, no clock.
//
//	composite = points << T | (2^T - 1 - t)      t = ticks since the epoch, 0 <= t < 2^T - 1
//
// T bits cover the bucket's time. The points get the other 53 - T, because a double holds whole
// numbers of 53 bits exactly. Nothing is ever rounded: the order of composites is the ranking
// order for every score and every time, and both can be read back, the time to the tick. t is
// never 2^T - 1, so 0 means "no score".
//
// Fit picks the finest tick at which the board's max_score fits: a millisecond, a second, a minute
// or an hour. A daily bucket has the fewest bits that cover its open_days and a day of 26 hours,
// or 50 if days are local:
//
//	open_days      tick   T       largest score
//	2              1 ms   28          33,554,431
//	2, local days  1 ms   29          16,777,215
//	2              1 s    19      17,179,869,183
//	2              1 min  13   1,099,511,627,775
//	2              1 h    7   70,368,744,177,663
//	30             1 ms   32           2,097,151
//	30             1 s    22       2,147,483,647
//	30             1 min  16     137,438,953,471
//	30             1 h    10   8,796,093,022,207
//
// An event has all bits that its max_score leaves (BitsBeside), so that it may end later than was
// planned:
//
//	lasts    max_score        tick   T   could last
//	92 days  100,000,000      1 s    26    776 days
//	92 days  1,073,741,823    1 s    23     97 days
//	45 days  100,000,000,000  1 min  16     45 days and 12 hours
//
// The usual formulas round, because they count time from 1970 instead of the bucket's start:
//
//	score*1e13 + (1e13 - ms)         exact up to a score of 899
//	score*1e10 + (9999999999 - s)    exact up to 900,719, in seconds
//	score + (3e13 - ms)/(3e13 + 1)   never exact
//
// TestUsualFormulasLoseTime shows their losses. The price of this codec is that a board must
// name its largest score beforehand, and that a bucket's bits can't change once it is in use.
package score
