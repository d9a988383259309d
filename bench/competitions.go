package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
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
		fmt.Printf("\n| %s | p99 of %d friend rankings a second | uploads a second | ratio | use of the stores while nobody asks |\n| --- | ---: | ---: | ---: | ---: |\n", formNames[i], rate)
		measure := func(name string, than float64) (uploaded float64) {
			use := form.idle(ctx)
			var p99s []time.Duration
			var rates []float64
			for range e.rounds {
				p99s = append(p99s, p99(latencies(ctx, form.service, rankingCallers, rate, e.rankings, e.wait)))
				rates = append(rates, load(ctx, form.service.addr, uploadCallers, e.seconds, rising(uploads, &sent)))
			}
			uploaded = median(rates)
			fmt.Printf("| %s | %v | %.0f | %.2f | %s |\n", name, median(p99s).Round(10*time.Microsecond), uploaded, uploaded/cmp.Or(than, uploaded), use)
			return uploaded
		}
		uploaded := measure("no competitions", 0)
		ids := form.compete(ctx)
		oldest := form.watchStandings(ctx, ids)
		measure(fmt.Sprintf("%d competitions", len(ids)), uploaded)
		ages := oldest()
		fmt.Printf("\nthe oldest standing of 1,000 people was %v old, that of the large one %v; the service uses %d MB\n",
			ages[0].Round(time.Second), ages[1].Round(time.Second), form.service.status().VmRSS>>20)
	}
}

// idleTimes is how many times as long as a measurement idle measures: rounds of the job that computes
// standings are 15 seconds apart.
const idleTimes = 20

// idle returns which part of a processor each store uses while nobody asks; of a data folder, which part of
// the time somebody writes to its file, as another writer sees that asks a thousand times a second.
func (e *environment) idle(ctx context.Context) string {
	if e.config.Data.Dir == "" {
		began := []time.Duration{e.redisServer.cpu(), e.postgresServer.cpu()}
		check(pause.For(ctx, idleTimes*e.seconds))
		part := func(i int, p *process) float64 {
			return (p.cpu() - began[i]).Seconds() / (idleTimes * e.seconds).Seconds()
		}
		return fmt.Sprintf("Redis %.3f of a core, Postgres %.3f", part(0, e.redisServer), part(1, e.postgresServer))
	}
	db := must(sql.Open("sqlite", "file:"+filepath.Join(e.config.Data.Dir, "stepboard.db")+"?_txlock=immediate"))
	defer func() { check(db.Close()) }()
	probes, refused := 0, 0
	for began := time.Now(); time.Since(began) < idleTimes*e.seconds; probes++ {
		if tx, err := db.BeginTx(ctx, nil); err != nil {
			refused++
		} else {
			check(tx.Rollback())
		}
		check(pause.For(ctx, time.Millisecond))
	}
	return fmt.Sprintf("the file's writer %.3f of the time", float64(refused)/float64(probes))
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
		until(ctx, slowly, func() bool { _, ok := age(id); return ok })
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
