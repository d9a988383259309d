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
func (e *environment) coldBench(ctx context.Context) {
	first, viewers := e.viewers, min(coldViewers, e.board-e.viewers) // the first ones have their sets
	e.befriend(ctx, first, viewers)
	requests := e.friendRequests("steps", first, viewers, pageRows, "")
	measure := func(ctx context.Context) float64 {
		start := time.Now()
		askOnce(ctx, e.service, requests)
		return float64(viewers) / time.Since(start).Seconds()
	}
	warm := &row{name: "sets in Redis", process: e.service, measure: measure}
	cold := &row{name: "sets not in Redis", process: e.service, measure: measure, base: warm, prepare: func(ctx context.Context) {
		e.dropFriendSets(ctx, first, viewers)
	}}
	// Every name that a ranking needs gets into Redis, where it stays for days.
	measure(ctx)
	e.printTable(ctx, fmt.Sprintf("friend rankings of %d viewers", viewers), warm, cold)
}
