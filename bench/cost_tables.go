package main

import (
	"fmt"
	"math"
	"slices"
)

func (c *costs) printShapes(rows []*costRow) {
	fmt.Printf("\n| friend ranking, %d friends, board of %d | a second | Redis, µs of CPU each | server | both | ratio | client |\n", c.friends, c.board)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
	base := rows[0]
	for _, r := range rows {
		if r.connections != base.connections {
			base = r // rows with another number of connections have their own base
		}
		fmt.Printf("| %s | %.0f | %.0f | %.0f | %.0f | %.2f | %.0f |\n",
			r.name, r.median(), r.redis.each(), r.server.each(), r.both(), r.both()/base.both(), r.client.each())
	}
}

func (c *costs) printFriends(rows []*costRow) {
	slices.SortFunc(rows, func(a, b *costRow) int { return a.friends - b.friends })
	fmt.Printf("\n| friend ranking, board of %d, 1 shard | a second | Redis, µs of CPU each | server | both | both, for each friend |\n", c.board)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: |")
	var friends, redis, server, both []float64
	for _, r := range rows {
		fmt.Printf("| %d friends | %.0f | %.0f | %.0f | %.0f | %.2f |\n",
			r.friends, r.median(), r.redis.each(), r.server.each(), r.both(), r.both()/float64(r.friends))
		friends = append(friends, float64(r.friends))
		redis, server, both = append(redis, r.redis.each()), append(server, r.server.each()), append(both, r.both())
	}
	fmt.Println("\nµs of CPU of a ranking with n friends, as a line fitted to the figures above:")
	for _, l := range []struct {
		name  string
		costs []float64
	}{{"Redis", redis}, {"server", server}, {"both", both}} {
		a, b, worst := fitLine(friends, l.costs)
		fmt.Printf("%s %.0f + %.2f·n, off by %.0f%% at most\n", l.name, a, b, 100*worst)
	}
}

func (c *costs) printSizes(rows []*costRow) {
	fmt.Printf("\n| friend ranking, %d friends, 1 shard | a second | Redis, µs of CPU each | server | both | ratio |\n", c.friends)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range rows {
		fmt.Printf("| board of %d | %.0f | %.0f | %.0f | %.0f | %.2f |\n",
			r.users, r.median(), r.redis.each(), r.server.each(), r.both(), r.both()/rows[0].both())
	}
}

// fitLine returns the line y = a + b·x with the least squares of relative
// deviations, and the largest relative deviation. Absolute deviations would give
// nearly all weight to the most expensive ranking.
func fitLine(x, y []float64) (a, b, worst float64) {
	var n, sx, sy, sxx, sxy float64
	for i := range x {
		weight := 1 / (y[i] * y[i])
		n += weight
		sx += weight * x[i]
		sy += weight * y[i]
		sxx += weight * x[i] * x[i]
		sxy += weight * x[i] * y[i]
	}
	b = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	a = (sy - b*sx) / n
	for i := range x {
		worst = max(worst, math.Abs(a+b*x[i]-y[i])/y[i])
	}
	return a, b, worst
}
