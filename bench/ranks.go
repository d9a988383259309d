package main

import (
	"context"
	"fmt"
)

// ranksViewers is how many viewers ask for their rank. The circles of all fit into memory.
const ranksViewers = 20_000

// ranksBench compares me, top and around from the memory of the process with those from Redis,
// and uploads with and without a change stream while the order of the board is kept.
func (e *environment) ranksBench(ctx context.Context) {
	viewers := min(ranksViewers, e.board)
	forms := e.serveNear(ctx, viewers)
	defer forms.stop()
	var rows []*row
	requests := make(map[*row][][]byte)
	for _, path := range []string{"me", "top?limit=50", "around?radius=25"} {
		all := e.viewerRequests(fmt.Sprintf("/v1/boards/%s/%s", nearBoard, path), 0, viewers)
		var first *row
		for _, from := range forms {
			// Names and circles get into memory, and the first question begins the order.
			askOnce(ctx, from.process, all)
			r := e.loadRow(path+", from "+from.name, from.process, nearConnections, 1, rotate(all))
			r.base, first = first, r
			// The row before has left other people in the process.
			r.prepare = func(ctx context.Context) { r.measure(ctx) }
			rows, requests[r] = append(rows, r), all
		}
	}
	near := forms.memory()
	until(ctx, slowly, func() bool { return metric(ctx, near, "stepboard_near_cache_orders_total") > 0 })
	bytes := metric(ctx, near, "stepboard_near_cache_order_bytes")
	fmt.Printf("\nthe order of the board in the memory of a process: %.1f bytes a user\n", bytes/float64(e.board))
	title := fmt.Sprintf("ranks of %d viewers with %d friends, board of %d", viewers, e.friends, e.board)
	e.printTable(ctx, title, rows...)
	e.printSlowest(ctx, "ranks", rows, requests)
	e.nearUploads(ctx, near)
}
