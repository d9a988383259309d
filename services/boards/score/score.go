package score

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"stepboard/models"
)

// Bits is the width of a composite. Redis stores the score of a sorted set as a
// double, which holds whole numbers below 2^53 exactly.
const Bits = 53

// Codec converts between (points, reached at) and composites for one bucket.
// The zero Codec is not usable. Codecs are values, safe to copy and to share.
type Codec struct {
	epoch    int64 // Unix milliseconds of tick 0
	tick     int64 // milliseconds
	timeBits int
}

// Of returns the codec that the bucket was made with.
func Of(b *models.Bucket) Codec {
	return Codec{epoch: b.StartsAt.UnixMilli(), tick: b.TickMS, timeBits: b.TimeBits}
}

// ticks are the resolutions of the time at which a score was reached, finest first.
var ticks = []struct {
	length time.Duration
	plural string
}{
	{time.Millisecond, "milliseconds"},
	{time.Second, "seconds"},
	{time.Minute, "minutes"},
	{time.Hour, "hours"},
}

// Fit returns the finest tick, from a millisecond to an hour, at which a bucket that
// takes updates for the given span can hold scores up to maxScore, and the number
// of time bits that this takes. If none fits, the error states the largest score
// that fits at each tick.
func Fit(span time.Duration, maxScore int64) (tick time.Duration, timeBits int, err error) {
	if span <= 0 {
		return 0, 0, fmt.Errorf("a bucket must last longer than %v", span)
	}
	if maxScore < 1 {
		return 0, 0, fmt.Errorf("the largest score must be 1 or more, not %d", maxScore)
	}
	largest := make([]string, len(ticks))
	for i, tick := range ticks {
		timeBits := bitsFor(span, tick.length)
		if maxScore <= capacity(timeBits) {
			return tick.length, timeBits, nil
		}
		largest[i] = grouped(capacity(timeBits)) + " in " + tick.plural
	}
	return 0, 0, fmt.Errorf("a largest score of %s does not fit: over %v a composite holds scores up to %s",
		grouped(maxScore), span, strings.Join(largest, ", "))
}

// BitsBeside returns the number of time bits that scores up to maxScore, which is 1 to
// 2^52 - 1, leave in a composite. It is at least as many as Fit returns for maxScore: with them
// a bucket may get longer later, and its composites stay as they are.
func BitsBeside(maxScore int64) int { return Bits - bits.Len64(uint64(maxScore)) }

// bitsFor returns the smallest T for which every tick of the span is below
// 2^T - 1.
func bitsFor(span, tick time.Duration) int {
	ticks := (span + tick - 1) / tick
	return bits.Len64(uint64(ticks))
}

// capacity returns the largest score that fits beside timeBits bits of time, or 0
// if time takes all bits.
func capacity(timeBits int) int64 {
	if timeBits >= Bits {
		return 0
	}
	return 1<<(Bits-timeBits) - 1
}

// MaxScore returns the largest score that the codec can hold.
func (c Codec) MaxScore() int64 { return capacity(c.timeBits) }

// Until returns the first moment that the codec can't hold, or the end of the year 9999 if that is
// earlier.
func (c Codec) Until() time.Time {
	ticks := int64(1)<<c.timeBits - 1
	end := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	if ticks > (end.UnixMilli()-c.epoch)/c.tick {
		return end
	}
	return time.UnixMilli(c.epoch + ticks*c.tick).UTC()
}

// Cut rounds a moment down to the codec's tick. The time at which a score was
// reached is cut before it is stored or returned, so that all stores agree on it.
func (c Codec) Cut(t models.Timestamp) models.Timestamp {
	since := int64(t) - c.epoch
	rest := since % c.tick
	if rest < 0 {
		rest += c.tick
	}
	return t - models.Timestamp(rest)
}

// Encode packs points from 0 to MaxScore and the moment at which they were reached.
// Points or a moment that the codec can't hold are an error; they are never rounded.
func (c Codec) Encode(points models.Points, reachedAt models.Timestamp) (models.Composite, error) {
	if points < 0 || int64(points) > c.MaxScore() {
		return 0, fmt.Errorf("score %d is outside 0 … %d", points, c.MaxScore())
	}
	since := int64(reachedAt) - c.epoch
	last := int64(1)<<c.timeBits - 1
	if since < 0 || since/c.tick >= last {
		return 0, fmt.Errorf("%v is outside the bucket's time, %v to %v", reachedAt.Time(),
			models.Timestamp(c.epoch).Time(), models.Timestamp(c.epoch+(last-1)*c.tick).Time())
	}
	return models.Composite(int64(points)<<c.timeBits | (last - since/c.tick)), nil
}

// Above returns a position between points: the composites of all that are above the given
// ones, which are 0 or more, are larger, and all others are smaller. No composite is equal.
func (c Codec) Above(points models.Points) models.Composite {
	return models.Composite((min(int64(points), c.MaxScore()) + 1) << c.timeBits)
}

// Decode is the inverse of Encode, with the moment cut to the tick.
func (c Codec) Decode(composite models.Composite) (points models.Points, reachedAt models.Timestamp) {
	last := int64(1)<<c.timeBits - 1
	t := last - int64(composite)&last
	return models.Points(int64(composite) >> c.timeBits), models.Timestamp(c.epoch + t*c.tick)
}

// grouped formats a number with commas between its thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
