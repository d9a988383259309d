package directory_test

import (
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"stepboard/models"
	"stepboard/services/people/directory"
)

// BenchmarkFind looks up 1,000 users of a batch that are all held in the process.
func BenchmarkFind(b *testing.B) {
	for _, people := range []int{64_000, 1_000_000} {
		for name, id := range map[string]func(i int) models.UserID{
			"digits": func(i int) models.UserID { return models.UserID(fmt.Sprint(1_000_000 + i)) },
			"uuid":   func(i int) models.UserID { return models.UserID(fmt.Sprintf("c56a4180-65aa-42ec-a945-%012x", i)) },
		} {
			b.Run(fmt.Sprintf("people=%d/id=%s", people, name), func(b *testing.B) {
				s := directory.New(directory.Options{Memory: 256_000_000})
				for i := range people {
					directory.HoldID(s, id(i), models.RowID(i+1))
				}
				var held []int
				for i := range people {
					if directory.HoldsID(s, id(i)) {
						held = append(held, i)
					}
				}
				random := mathrand.New(mathrand.NewPCG(1, 2))
				users := make([]models.UserID, 1000)
				var elapsed []time.Duration
				for b.Loop() {
					for i := range users {
						users[i] = id(held[random.IntN(len(held))])
					}
					begin := time.Now()
					if _, err := s.Find(b.Context(), users...); err != nil {
						b.Fatal(err)
					}
					elapsed = append(elapsed, time.Since(begin))
				}
				slices.Sort(elapsed)
				median := elapsed[len(elapsed)/2] // the mean depends on what else the machine does
				b.ReportMetric(float64(median.Nanoseconds())/float64(len(users)), "ns/id")
			})
		}
	}
}
