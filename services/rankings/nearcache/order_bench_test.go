package nearcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// BenchmarkMakeOrder makes the order list of a shard. It reports how long raises of one user take
// meanwhile that come every 50 µs.
func BenchmarkMakeOrder(b *testing.B) {
	for _, users := range []int{1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(users), func(b *testing.B) {
			table, _ := newTestTable(1, 1<<40)
			c := &Cache{stats: newStats(), orders: budget{limit: 1 << 40}}
			p := table.parts[0]
			p.stream.Stream = new(changes.Stream[board.ChangeStream, board.Change])
			p.copied.Store(true)
			random := rand.New(rand.NewPCG(1, 1))
			entry := func(user int) models.Entry {
				return models.Entry{User: models.RowID(user), Composite: models.Composite(1 + random.Int64N(1<<50))}
			}
			for user := 1; user <= users; user++ {
				p.raise([]models.Entry{entry(user)})
			}
			var took []time.Duration
			for b.Loop() {
				made := make(chan struct{})
				go func() {
					defer close(made)
					c.makeOrder(p)
				}()
				for done := false; !done; {
					select {
					case <-made:
						done = true
					case <-time.After(50 * time.Microsecond):
						begin := time.Now()
						p.stream.Lock()
						p.raise([]models.Entry{entry(1 + random.IntN(users))})
						p.stream.Unlock()
						took = append(took, time.Since(begin))
					}
				}
				p.dropOrder()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs/p99-raise")
			b.ReportMetric(float64(took[len(took)-1].Microseconds()), "µs/slowest-raise")
		})
	}
}
