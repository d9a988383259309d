package score_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/boards/score"
)

var epoch = time.Date(2026, 11, 19, 16, 0, 0, 0, time.UTC)

// point is a codec with points and a time that it holds.
type point struct {
	codec     score.Codec
	points    models.Points
	reachedAt models.Timestamp
}

var ticks = []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour}

func drawCodec(t *rapid.T) (score.Codec, time.Duration, int) {
	tick := rapid.SampledFrom(ticks).Draw(t, "tick")
	timeBits := rapid.IntRange(1, 40).Draw(t, "timeBits")
	return codecOf(tick, timeBits), tick, timeBits
}

func codecOf(tick time.Duration, timeBits int) score.Codec {
	return score.Of(&models.Bucket{StartsAt: epoch, TickMS: tick.Milliseconds(), TimeBits: timeBits})
}

func drawPoint(t *rapid.T, codec score.Codec, tick time.Duration, timeBits int) point {
	ticks := rapid.Int64Range(0, 1<<timeBits-2).Draw(t, "ticks")
	within := rapid.Int64Range(0, tick.Milliseconds()-1).Draw(t, "within")
	return point{
		codec:     codec,
		points:    models.Points(rapid.Int64Range(0, codec.MaxScore()).Draw(t, "points")),
		reachedAt: models.TimestampOf(epoch) + models.Timestamp(ticks*tick.Milliseconds()+within),
	}
}

func (p point) encode(t interface{ Fatal(...any) }) models.Composite {
	composite, err := p.codec.Encode(p.points, p.reachedAt)
	if err != nil {
		t.Fatal(err)
	}
	return composite
}

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		codec, tick, timeBits := drawCodec(t)
		p := drawPoint(t, codec, tick, timeBits)
		composite := p.encode(t)
		if composite <= 0 || composite >= 1<<score.Bits {
			t.Fatalf("composite %d is outside 1 … 2^53-1", composite)
		}
		if back := models.Composite(float64(composite)); back != composite {
			t.Fatalf("a double turns %d into %d", composite, back)
		}
		gotPoints, gotTime := codec.Decode(composite)
		if gotPoints != p.points || gotTime != codec.Cut(p.reachedAt) {
			t.Fatalf("decoded (%d, %d), want (%d, %d)", gotPoints, gotTime, p.points, codec.Cut(p.reachedAt))
		}
	})
}

func TestOrderOfCompositesIsTheRankingOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		codec, tick, timeBits := drawCodec(t)
		a, b := drawPoint(t, codec, tick, timeBits), drawPoint(t, codec, tick, timeBits)
		if rapid.Bool().Draw(t, "same points") {
			b.points = a.points
		}
		var want bool // a is the better place
		if a.points != b.points {
			want = a.points > b.points
		} else {
			want = codec.Cut(a.reachedAt) < codec.Cut(b.reachedAt)
		}
		if got := a.encode(t) > b.encode(t); got != want {
			t.Fatalf("(%d, %d) before (%d, %d): %v, want %v", a.points, a.reachedAt, b.points, b.reachedAt, got, want)
		}
	})
}

func TestAboveIsBetweenScores(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		codec, tick, timeBits := drawCodec(t)
		p := drawPoint(t, codec, tick, timeBits)
		limit := models.Points(rapid.OneOf(rapid.Int64Range(0, codec.MaxScore()), rapid.Int64Min(0), rapid.Just(int64(p.points))).Draw(t, "limit"))
		composite, above := p.encode(t), codec.Above(limit)
		if composite == above || (composite > above) != (p.points > limit) {
			t.Fatalf("the composite of %d is %d, and Above(%d) is %d", p.points, composite, limit, above)
		}
	})
}

func TestFitTakesTheFewestBitsAndTheFinestTick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		span := time.Duration(rapid.Int64Range(1, int64(400*24*time.Hour)).Draw(t, "span"))
		maxScore := rapid.OneOf(rapid.Int64Range(1, 1<<40), rapid.Int64Range(1, 1<<score.Bits)).Draw(t, "max score")
		tick, timeBits, err := score.Fit(span, maxScore)
		if err != nil {
			return
		}
		codec := codecOf(tick, timeBits)
		last := epoch.Add(span - 1)
		if _, err := codec.Encode(models.Points(maxScore), models.TimestampOf(last)); err != nil {
			t.Fatalf("the last moment of %v does not fit in %d bits of %v: %v", span, timeBits, tick, err)
		}
		if timeBits > 1 {
			fewer := codecOf(tick, timeBits-1)
			ticks := (span + tick - 1) / tick
			end := epoch.Add((ticks - 1) * tick)
			if _, err := fewer.Encode(0, models.TimestampOf(end)); err == nil {
				t.Fatalf("%d bits would do for %v in %v", timeBits-1, span, tick)
			}
		}
		for _, finer := range ticks {
			if finer == tick {
				break
			}
			finerBits := 1
			for int64(1)<<finerBits-1 < int64((span+finer-1)/finer) {
				finerBits++
			}
			if finerBits < score.Bits && maxScore <= 1<<(score.Bits-finerBits)-1 {
				t.Fatalf("%v would have fitted %d over %v", finer, maxScore, span)
			}
		}
	})
}

func TestFitFigures(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	tests := []struct {
		name     string
		span     time.Duration
		maxScore int64
		tick     time.Duration
		timeBits int
		capacity int64
	}{
		{"a day of steps", 74 * time.Hour, 100_000, time.Millisecond, 28, 33_554_431},
		{"a day, as large as milliseconds hold", 74 * time.Hour, 33_554_431, time.Millisecond, 28, 33_554_431},
		{"a day, one more", 74 * time.Hour, 33_554_432, time.Second, 19, 1<<34 - 1},
		{"92 days of gifts", 92 * day, 1_073_741_823, time.Second, 23, 1_073_741_823},
		{"an hour of gifts", time.Hour, 1_000_000, time.Millisecond, 22, 1<<31 - 1},
		{"92 days, as large as minutes hold", 92 * day, 1<<35 - 1, time.Minute, 18, 1<<35 - 1},
		{"92 days, one more", 92 * day, 1 << 35, time.Hour, 12, 1<<41 - 1},
		{"45 days of sales", 45 * day, 100_000_000_000, time.Minute, 16, 1<<37 - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tick, timeBits, err := score.Fit(tt.span, tt.maxScore)
			if err != nil {
				t.Fatal(err)
			}
			codec := codecOf(tick, timeBits)
			if tick != tt.tick || timeBits != tt.timeBits || codec.MaxScore() != tt.capacity {
				t.Errorf("got %v, %d bits, scores up to %d; want %v, %d, %d",
					tick, timeBits, codec.MaxScore(), tt.tick, tt.timeBits, tt.capacity)
			}
		})
	}
}

// An event takes the bits that its largest score leaves: as many as Fit has, or more, and with
// another one the score would not fit.
func TestBitsBeside(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	rapid.Check(t, func(t *rapid.T) {
		span := time.Duration(rapid.Int64Range(1, int64(400*day)).Draw(t, "span"))
		maxScore := rapid.Int64Range(1, 1<<(score.Bits-1)-1).Draw(t, "max score")
		timeBits := score.BitsBeside(maxScore)
		if held := codecOf(time.Second, timeBits).MaxScore(); held < maxScore || held/2 >= maxScore {
			t.Fatalf("beside %d bits there is room for %d", timeBits, held)
		}
		if _, fewest, err := score.Fit(span, maxScore); err == nil && fewest > timeBits {
			t.Fatalf("%v need %d bits, and there are %d", span, fewest, timeBits)
		}
	})
	for _, tt := range []struct {
		maxScore int64
		tick     time.Duration
		days     time.Duration
	}{{100_000_000, time.Second, 776}, {1_073_741_823, time.Second, 97}, {100_000_000_000, time.Minute, 45}} {
		codec := codecOf(tt.tick, score.BitsBeside(tt.maxScore))
		held := func(span time.Duration) bool {
			_, err := codec.Encode(models.Points(tt.maxScore), models.TimestampOf(epoch.Add(span-tt.tick)))
			return err == nil
		}
		if !held(tt.days*day) || held((tt.days+1)*day) {
			t.Errorf("beside %d there are not %d days in %v", tt.maxScore, tt.days, tt.tick)
		}
	}
}

// Every minute of 45 days has its own composite beside 10^11, the largest whole number of all
// included, and a double has each of them exactly.
func TestElevenDigitsInMinutes(t *testing.T) {
	t.Parallel()
	const maxScore = 100_000_000_000
	tick, timeBits, err := score.Fit(45*24*time.Hour, maxScore)
	if err != nil {
		t.Fatal(err)
	}
	codec := codecOf(tick, timeBits)
	before := models.Composite(1 << score.Bits)
	for _, points := range []models.Points{models.Points(codec.MaxScore()), maxScore, maxScore - 1, 99_999_999_999 / 2, 1, 0} {
		for minute := range 45 * 24 * 60 {
			reachedAt := models.TimestampOf(epoch.Add(time.Duration(minute)*tick + 59*time.Second))
			composite, err := codec.Encode(points, reachedAt)
			if err != nil || composite >= before || composite <= 0 || models.Composite(float64(composite)) != composite {
				t.Fatalf("%d in minute %d is %d, after %d: %v", points, minute, composite, before, err)
			}
			if score, at := codec.Decode(composite); score != points || at != codec.Cut(reachedAt) {
				t.Fatalf("%d in minute %d is read as %d, %v", points, minute, score, at.Time())
			}
			before = composite
		}
	}
}

func TestFitRefusesWithTheFigures(t *testing.T) {
	t.Parallel()
	_, _, err := score.Fit(92*24*time.Hour, 1<<41)
	const want = "a largest score of 2,199,023,255,552 does not fit: over 2208h0m0s a composite holds scores up to " +
		"1,048,575 in milliseconds, 1,073,741,823 in seconds, 34,359,738,367 in minutes, 2,199,023,255,551 in hours"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	for _, span := range []time.Duration{0, -time.Hour} {
		if _, _, err := score.Fit(span, 1); err == nil {
			t.Errorf("a span of %v was taken", span)
		}
	}
	if _, _, err := score.Fit(time.Hour, 0); err == nil {
		t.Error("a largest score of 0 was taken")
	}
}

func TestEncodeRefusesWhatItCannotHold(t *testing.T) {
	t.Parallel()
	codec := codecOf(time.Millisecond, 28)
	start := models.TimestampOf(epoch)
	last := start + 1<<28 - 2
	tests := []struct {
		name   string
		points models.Points
		at     models.Timestamp
		ok     bool
	}{
		{"nothing at the start", 0, start, true},
		{"everything at the end", models.Points(codec.MaxScore()), last, true},
		{"a negative score", -1, start, false},
		{"a score too large", models.Points(codec.MaxScore() + 1), start, false},
		{"the largest int64", math.MaxInt64, start, false},
		{"before the start", 0, start - 1, false},
		{"after the end", 0, last + 1, false},
		{"the year 0", 0, models.TimestampOf(time.Time{}), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := codec.Encode(tt.points, tt.at); (err == nil) != tt.ok {
				t.Errorf("error %v, want ok = %v", err, tt.ok)
			}
		})
	}
}

// The three formulas that are usually given for this lose time once scores
// grow: two moments, one composite. Each case names a score and two moments
// that the formula no longer tells apart; the codec does.
func TestUsualFormulasLoseTime(t *testing.T) {
	t.Parallel()
	ms := float64(epoch.UnixMilli())
	tests := []struct {
		name    string
		formula func(score, ms float64) float64
		score   float64
		apart   float64 // milliseconds between the two moments
	}{
		{"score*1e13 + (1e13 - ms)", func(s, ms float64) float64 { return s*1e13 + (1e13 - ms) }, 1802, 1},
		{"score*1e10 + (9999999999 - s)", func(s, ms float64) float64 { return s*1e10 + (9999999999 - math.Floor(ms/1000)) }, 1_801_441, 1000},
		{"score + (3e13 - ms)/(3e13 + 1)", func(s, ms float64) float64 { return s + (3e13-ms)/(3e13+1) }, 98_800, 100},
	}
	codec := codecOf(time.Millisecond, 28)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var lost bool
			for step := range 8 { // where rounding falls is a matter of luck: look at a few neighbours
				first := ms + float64(step)*tt.apart
				second := first + tt.apart
				if tt.formula(tt.score, first) == tt.formula(tt.score, second) {
					lost = true
				}
				a, err := codec.Encode(models.Points(tt.score), models.Timestamp(first))
				if err != nil {
					t.Fatal(err)
				}
				b, err := codec.Encode(models.Points(tt.score), models.Timestamp(second))
				if err != nil {
					t.Fatal(err)
				}
				if a <= b {
					t.Errorf("ours: reached at %.0f ranks behind %.0f", first, second)
				}
			}
			if !lost {
				t.Errorf("the formula tells %.0f ms apart at %.0f after all", tt.apart, tt.score)
			}
		})
	}
}

func FuzzCodec(f *testing.F) {
	f.Add(int64(0), int64(0), int64(1), 28)
	f.Add(int64(12345), int64(46_800_123), int64(1), 28)
	f.Add(int64(1<<30-1), int64(7_948_799_000), int64(1000), 23)
	f.Add(int64(-1), int64(-1), int64(0), 0)
	f.Fuzz(func(t *testing.T, points, sinceMS, tickMS int64, timeBits int) {
		if tickMS < 1 || tickMS > math.MaxInt64/int64(time.Millisecond) || timeBits < 1 || timeBits >= score.Bits {
			return
		}
		codec := codecOf(time.Duration(tickMS)*time.Millisecond, timeBits)
		if sinceMS > 1<<60 || sinceMS < -1<<60 {
			return
		}
		at := models.TimestampOf(epoch) + models.Timestamp(sinceMS)
		composite, err := codec.Encode(models.Points(points), at)
		if err != nil {
			return
		}
		gotPoints, gotTime := codec.Decode(composite)
		if int64(gotPoints) != points || gotTime != codec.Cut(at) {
			t.Errorf("decoded (%d, %d), want (%d, %d)", gotPoints, gotTime, points, codec.Cut(at))
		}
		if again, err := codec.Encode(gotPoints, gotTime); err != nil || again != composite {
			t.Errorf("encoded again as %d (%v), want %d", again, err, composite)
		}
	})
}
