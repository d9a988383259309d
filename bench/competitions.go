package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
)

const (
	// competitions is how many small competitions there are, of two teams each, beside a large one.
	competitions = 20
	// competitionDays is how many days of each have begun, of 49: the large one is as large as it may be.
	competitionDays, allDays = 28, 49
)

// competitionsBench compares friend rankings and uploads before and while competitions of 1,000 people,
// and one of 20,000, are computed again and again, and says how old their standings become.
func (e *environment) competitionsBench(ctx context.Context) {
	e.fillDays(ctx, 1)
	f := e.newFolder(ctx, "data")
	defer func() { check(f.stop()) }()
	for i, form := range []*environment{e, f} {
		form.restart(ctx)
		var sent atomic.Int64
		uploads := e.risingUploads("steps")
		askOnce(ctx, form.service, render(uploads, &sent))
		rate := max(1, int(load(ctx, form.service.addr, rankingCallers, e.seconds, rotate(e.rankings))/4))
		fmt.Printf("\n| %s | p99 of %d friend rankings a second | uploads a second | ratio |\n| --- | ---: | ---: | ---: |\n", formNames[i], rate)
		measure := func() (took time.Duration, uploaded float64) {
			var p99s []time.Duration
			var rates []float64
			for range e.rounds {
				p99s = append(p99s, p99(latencies(ctx, form.service, rankingCallers, rate, e.rankings, e.wait)))
				rates = append(rates, load(ctx, form.service.addr, uploadCallers, e.seconds, rising(uploads, &sent)))
			}
			return median(p99s).Round(10 * time.Microsecond), median(rates)
		}
		before, uploaded := measure()
		fmt.Printf("| no competitions | %v | %.0f | 1.00 |\n", before, uploaded)
		ids := form.compete(ctx)
		oldest := form.watchStandings(ctx, ids)
		after, then := measure()
		fmt.Printf("| %d competitions | %v | %.0f | %.2f |\n", len(ids), after, then, then/uploaded)
		ages := oldest()
		fmt.Printf("\nthe oldest standing of 1,000 people was %v old, that of the large one %v; the service uses %d MB\n",
			ages[0].Round(time.Second), ages[1].Round(time.Second), form.service.status().VmRSS>>20)
	}
}

// compete defines the competitions and returns their ids, that of the large one last.
func (e *environment) compete(ctx context.Context) (ids []string) {
	begin := time.Now().AddDate(0, 0, 1-competitionDays).Format(time.DateOnly)
	end := time.Now().AddDate(0, 0, allDays-competitionDays).Format(time.DateOnly)
	user := 0
	for i := range competitions + 1 {
		teams := 2
		if i == competitions {
			teams, user = max(1, min(models.MaxCompetitionPeople, e.board)/models.MaxGroupMembers), 0
		}
		var groups []string
		for range teams {
			group := fmt.Sprintf("team-%d-%d", i, len(groups))
			var members []string
			for range min(models.MaxGroupMembers, e.board/2) {
				members = append(members, strconv.Itoa(firstUser+user%e.board))
				user++
			}
			check(e.call(ctx, http.MethodPut, "/v1/groups/"+group+"/members", map[string]any{"member_ids": members, "name": "Team"}, nil))
			groups = append(groups, group)
		}
		id := "competition-" + strconv.Itoa(i)
		check(e.call(ctx, http.MethodPut, "/v1/competitions/"+id, map[string]any{
			"board": "steps", "name": "Walk", "from": begin, "to": end, "cap": 30_000, "groups": groups,
		}, nil))
		ids = append(ids, id)
	}
	return ids
}

// watchStandings waits until all competitions have a standing, and then asks for the first and the last of
// them each second. It returns a function that ends this, and returns the greatest ages.
func (e *environment) watchStandings(ctx context.Context, ids []string) func() [2]time.Duration {
	age := func(id string) (time.Duration, bool) {
		var c struct {
			AsOf *time.Time `json:"as_of"`
		}
		check(e.call(ctx, http.MethodGet, "/v1/competitions/"+id, nil, &c))
		if c.AsOf == nil {
			return 0, false
		}
		return time.Since(*c.AsOf), true
	}
	for _, id := range ids {
		for _, ok := age(id); !ok; _, ok = age(id) {
			check(pause.For(ctx, 100*time.Millisecond))
		}
	}
	done, ages := make(chan struct{}), make(chan [2]time.Duration)
	go func() {
		var greatest [2]time.Duration
		for {
			for i, id := range []string{ids[0], ids[len(ids)-1]} {
				old, _ := age(id)
				greatest[i] = max(greatest[i], old)
			}
			select {
			case <-done:
				ages <- greatest
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return func() [2]time.Duration {
		close(done)
		return <-ages
	}
}
