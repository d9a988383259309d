package models

// Order says which scores of a board rank first.
type Order string

// The orders.
const (
	// OrderHigh ranks the highest score first.
	OrderHigh Order = "high"
	// OrderLow ranks the lowest score first, such as the fastest lap.
	OrderLow Order = "low"
)

// Points is what composites and every store hold of a score, so that more points always rank first. On
// a bucket with OrderHigh they are the score, on one with OrderLow its MaxScore less the score. Only
// Bucket.Points and Bucket.Score convert between the two: where scores come in, and where they go out.
type Points int64

// Points returns the points of a score from 0 to MaxScore.
func (b *Bucket) Points(score int64) Points {
	if b.Order == OrderLow {
		score = b.MaxScore - score
	}
	return Points(score)
}

// Score is the inverse of Points.
func (b *Bucket) Score(points Points) int64 {
	if b.Order == OrderLow {
		return b.MaxScore - int64(points)
	}
	return int64(points)
}

// ScoreSum returns the sum of n scores whose points add up to sum.
func (b *Bucket) ScoreSum(n int64, sum Points) int64 {
	if b.Order == OrderLow {
		return n*b.MaxScore - int64(sum)
	}
	return int64(sum)
}
