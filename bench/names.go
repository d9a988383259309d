package main

import (
	"context"
	"fmt"
	mathrand "math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/people/cache"
)

// rankingCallers is the number of concurrent rankings, except in part near.
const rankingCallers = 32

// nameViewers and namePages are the numbers of viewers and of rows of a page that
// are measured.
var (
	nameViewers = []int{300, 10_000, 100_000}
	namePages   = []int{50, 200}
)

// namesBench measures friend rankings by the number of people who ask, and with that
// by the number of names that the service needs. Friends are spread over the whole
// board, so 10,000 viewers need the names of nearly everybody there.
func (e *environment) namesBench(ctx context.Context) error {
	viewers := nameViewers
	for len(viewers) > 1 && viewers[len(viewers)-1] > e.board {
		viewers = viewers[:len(viewers)-1]
	}
	postgres, err := findPostgres(ctx, e.stores.Pool)
	if err != nil {
		return err
	}
	most := viewers[len(viewers)-1]
	if err := e.storeFriendSets(ctx, most); err != nil {
		return err
	}
	var rows []*nameRow
	for _, n := range viewers {
		rows = append(rows, e.newLoopRow(rankingCallers, n))
	}
	for _, page := range namePages {
		requests, err := e.friendRequests("steps", most, page)
		if err != nil {
			return err
		}
		// The pages of all viewers load every name that a ranking needs into Redis, where
		// it stays for days, and into the process, as far as directory.memory has room.
		if err := e.askOnce(ctx, e.service.addr, requests); err != nil {
			return err
		}
		for _, n := range viewers {
			rows = append(rows, e.newNameRow(page, requests[:n], postgres))
		}
	}
	for range e.rounds {
		for _, r := range rows {
			// The row before has left other names in the process.
			if _, err := r.measure(ctx); err != nil {
				return err
			}
			if err := r.run(ctx, e); err != nil {
				return fmt.Errorf("%s, %d viewers: %w", r.name, r.viewers, err)
			}
		}
	}
	e.printNames(rows)
	return nil
}

// storeFriendSets gives the first users random friends among all users. It stores
// them only in Redis, where rankings read them.
func (e *environment) storeFriendSets(ctx context.Context, viewers int) error {
	sets := cache.New(cache.NewStore(e.rdb, keys.Builder{Prefix: e.keys.prefix}), keys.Friends, e.randomFriends, e.log())
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rankingCallers)
	for v := range viewers {
		g.Go(func() error {
			// A viewer of the other measurements has a set already.
			if err := e.rdb.Del(ctx, e.keys.set(viewer(v))).Err(); err != nil {
				return err
			}
			_, err := sets.Members(ctx, viewer(v))
			return err
		})
	}
	return g.Wait()
}

// randomFriends returns friends of users, the same ones in every call.
func (e *environment) randomFriends(_ context.Context, users []models.RowID) (map[models.RowID][]models.RowID, error) {
	sets := make(map[models.RowID][]models.RowID)
	for _, user := range users {
		rng := mathrand.New(mathrand.NewPCG(15, uint64(user)))
		seen := map[models.RowID]bool{user: true}
		for len(sets[user]) < e.friends {
			if id := models.RowID(firstUser + rng.IntN(e.board)); !seen[id] {
				seen[id] = true
				sets[user] = append(sets[user], id)
			}
		}
	}
	return sets, nil
}

// friendRequests returns a request of each of the first users for a page.
func (e *environment) friendRequests(board string, viewers, page int) ([][]byte, error) {
	requests := make([][]byte, viewers)
	for v := range requests {
		token, err := e.token(userID(viewer(v)), "")
		if err != nil {
			return nil, err
		}
		requests[v] = httpRequest("GET", fmt.Sprintf("/v1/boards/%s/friends?limit=%d", board, page), token, "")
	}
	return requests, nil
}

// askOnce sends each request once.
func (e *environment) askOnce(ctx context.Context, addr string, requests [][]byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sent atomic.Int64
	_, err := load(ctx, addr, rankingCallers, time.Hour, func() []byte {
		n := int(sent.Add(1))
		if n >= len(requests) {
			cancel() // each connection ends with the answer that it waits for
		}
		return requests[n%len(requests)]
	})
	return err
}

// nameRow measures one kind of ranking for one number of viewers, or of days.
type nameRow struct {
	row
	viewers int
}

// newLoopRow measures the commands of a ranking alone. A larger number of viewers makes
// these slower, too, as fewer of their sets and scores are in the processor's cache.
func (e *environment) newLoopRow(callers, viewers int) *nameRow {
	return &nameRow{viewers: viewers, row: row{name: "go-redis loop", measure: func(ctx context.Context) (float64, error) {
		return e.redisRankings(ctx, callers, viewers)
	}}}
}

func (e *environment) newNameRow(page int, requests [][]byte, postgres *process) *nameRow {
	next := rotate(requests)
	return &nameRow{
		row: row{name: fmt.Sprintf("pages of %d", page), process: e.service, postgres: postgres, measure: func(ctx context.Context) (float64, error) {
			return load(ctx, e.service.addr, rankingCallers, e.seconds, next)
		}},
		viewers: len(requests),
	}
}

// printNames prints the rows. Ratios are to the fewest viewers of the same kind.
func (e *environment) printNames(rows []*nameRow) {
	fmt.Printf("\n| friend ranking, %d friends, board of %d | viewers | a second | ratio | Redis, µs of CPU each | server | Postgres | client |\n", e.friends, e.board)
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	printByFirst(rows)
}

// printByFirst prints rows with ratios to the first row of the same name.
func printByFirst(rows []*nameRow) {
	var base *nameRow
	for _, r := range rows {
		if base == nil || base.name != r.name {
			base = r
		}
		fmt.Printf("| %s | %d | %.0f | %.2f | %.0f | %.0f | %.1f | %.0f |\n",
			r.name, r.viewers, r.median(), r.median()/base.median(), r.redis.each(), r.server.each(), r.sql.each(), r.client.each())
	}
}
