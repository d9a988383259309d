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

// storeFriendSets gives the first users random friends among all users. It stores
// them only in Redis, where rankings read them.
func (e *environment) storeFriendSets(ctx context.Context, viewers int) error {
	sets := cache.New(cache.NewStore(e.rdb, keys.Builder{Prefix: e.keys.prefix}, 0), keys.Friends, e.randomFriends, e.log())
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

// nameRow measures one kind of ranking for one number of viewers.
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
