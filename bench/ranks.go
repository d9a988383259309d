package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stepboard/internal/pause"
)

// ranksViewers is how many viewers ask for their rank. The circles of all fit into memory.
const ranksViewers = 20_000

// ranksBench compares me, top and around from the memory of the process with those from Redis,
// and uploads with and without a change stream while the order of the board is kept.
func (e *environment) ranksBench(ctx context.Context) (err error) {
	if _, err := e.fillBoard(ctx, nearBoard, 0); err != nil {
		return err
	}
	plain, err := e.serve(ctx, "plain")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.stop()) }()
	near, err := e.serve(ctx, "near", "--rankings.max_staleness="+nearStaleness.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, near.stop()) }()
	viewers := min(ranksViewers, e.board)
	if err := e.storeFriendSets(ctx, viewers); err != nil {
		return err
	}
	if _, err := awaitCopy(ctx, near); err != nil {
		return err
	}
	var rows []*row
	requests := make(map[*row][][]byte)
	for _, path := range []string{"me", "top?limit=50", "around?radius=25"} {
		all, err := e.viewerRequests(fmt.Sprintf("/v1/boards/%s/%s", nearBoard, path), 0, viewers)
		if err != nil {
			return err
		}
		var first *row
		for _, from := range []struct {
			name string
			*process
		}{{"Redis", plain}, {"memory", near}} {
			// Names and circles get into memory, and the first question begins the order.
			if err := askOnce(ctx, from.process, all); err != nil {
				return err
			}
			r := e.loadRow(path+", from "+from.name, from.process, nearConnections, 1, rotate(all))
			r.base, first = first, r
			// The row before has left other people in the process.
			r.prepare = func(ctx context.Context) error { _, err := r.measure(ctx); return err }
			rows, requests[r] = append(rows, r), all
		}
	}
	for made := 0.0; made == 0; {
		if made, err = metric(ctx, near, "stepboard_near_cache_orders_total"); err == nil {
			err = pause.For(ctx, 100*time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
	bytes, err := metric(ctx, near, "stepboard_near_cache_order_bytes")
	if err != nil {
		return err
	}
	fmt.Printf("\nthe order of the board in the memory of a process: %.1f bytes a user\n", bytes/float64(e.board))
	title := fmt.Sprintf("ranks of %d viewers with %d friends, board of %d", viewers, e.friends, e.board)
	if err := e.printTable(ctx, title, rows...); err != nil {
		return err
	}
	if err := e.printSlowest(ctx, "ranks", rows, requests); err != nil {
		return err
	}
	return e.nearUploads(ctx, near)
}
