// Package score packs a score and the time at which it was reached into one whole number, so
// that a sorted set orders by the higher score first and by the earlier time second. It is pure:
// no I/O, no clock.
//
//	composite = score << T | (2^T - 1 - t)      t = ticks since the epoch, 0 <= t < 2^T - 1
//
// T is the smallest number of bits that covers the bucket's time. The score gets the other 53 -
// T, because a double holds whole numbers of 53 bits exactly. Nothing is ever rounded: the order
// of composites is the ranking order for every score and every time, and both can be read back.
// t is never 2^T - 1, so 0 means "no score".
//
// Fit picks the finest tick at which the board's max_score fits. A daily bucket is sized for its
// open_days and a day of 26 hours, or 50 if days are local:
//
//	open_days      tick   T   largest score
//	2              1 ms   28      33,554,431
//	2, local days  1 ms   29      16,777,215
//	2              1 s    19  17,179,869,183
//	30             1 ms   32       2,097,151
//	30             1 s    22   2,147,483,647
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
