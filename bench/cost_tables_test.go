package main

import (
	"math"
	"testing"
)

func TestFitLine(t *testing.T) {
	t.Parallel()
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	friends := []float64{50, 200, 1000, 5000}
	exact := make([]float64, len(friends))
	for i, n := range friends {
		exact[i] = 120 + 1.5*n
	}
	if a, b, worst := fitLine(friends, exact); !near(a, 120) || !near(b, 1.5) || !near(worst, 0) {
		t.Errorf("points on a line: %v + %v·n, off by %v", a, b, worst)
	}
	// A tenth more at either end and a tenth less in the middle is off by no
	// more than that, however much dearer one of the points is.
	for i, sign := range []float64{1, -1, -1, 1} {
		exact[i] *= 1 + sign/10
	}
	if _, _, worst := fitLine(friends, exact); worst > 0.15 {
		t.Errorf("points beside a line: off by %v", worst)
	}
}
