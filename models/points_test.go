package models_test

import (
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
)

// More points rank first: of two scores the higher one has more, or on a bucket with OrderLow the lower
// one. Both can be read back, and so can sums.
func TestPoints(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := &models.Bucket{
			Order:    rapid.SampledFrom([]models.Order{models.OrderHigh, models.OrderLow}).Draw(t, "order"),
			MaxScore: rapid.Int64Range(1, 1<<52).Draw(t, "largest"),
		}
		draw := rapid.Int64Range(0, b.MaxScore)
		x, y := draw.Draw(t, "x"), draw.Draw(t, "y")
		for _, score := range []int64{x, y} {
			if p := b.Points(score); p < 0 || int64(p) > b.MaxScore || b.Score(p) != score {
				t.Fatalf("%d has %d points of %d, which are %d", score, p, b.MaxScore, b.Score(p))
			}
		}
		if more := b.Points(x) > b.Points(y); more != (b.Order == models.OrderHigh && x > y || b.Order == models.OrderLow && x < y) {
			t.Fatalf("%d has more points than %d: %t", x, y, more)
		}
		if sum := b.ScoreSum(2, b.Points(x)+b.Points(y)); sum != x+y {
			t.Fatalf("the sum of %d and %d is %d", x, y, sum)
		}
	})
}
