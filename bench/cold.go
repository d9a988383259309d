package main

import (
	"context"
	"fmt"
	"time"
)

// coldViewers is how many viewers have the sets that Redis lacks.
const coldViewers = 10_000

// coldBench compares friend rankings whose friend sets Redis lacks, as it does for most
// viewers who open the app a few times a day, with those whose sets it has. In each
// measurement every viewer asks once.
func (e *environment) coldBench(ctx context.Context) error {
	first, viewers := e.viewers, min(coldViewers, e.board-e.viewers) // the first ones have their sets
	if err := e.befriend(ctx, first, viewers); err != nil {
		return err
	}
	requests, err := e.friendRequests("steps", first, viewers, e.limit, "")
	if err != nil {
		return err
	}
	measure := func(ctx context.Context) (float64, error) {
		start := time.Now()
		err := askOnce(ctx, e.service, requests)
		return float64(viewers) / time.Since(start).Seconds(), err
	}
	warm := &row{name: "sets in Redis", process: e.service, measure: measure}
	cold := &row{name: "sets not in Redis", process: e.service, measure: measure, base: warm, prepare: func(ctx context.Context) error {
		return e.dropFriendSets(ctx, first, viewers)
	}}
	// Every name that a ranking needs gets into Redis, where it stays for days.
	if _, err := measure(ctx); err != nil {
		return err
	}
	return e.printTable(ctx, fmt.Sprintf("friend rankings of %d viewers", viewers), warm, cold)
}
