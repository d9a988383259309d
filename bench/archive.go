package main

import (
	"context"
	"fmt"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
)

// archiveRounds is the number of days archived; the medians are printed.
const archiveRounds = 3

// archiveBench measures how fast a day is archived, and the latency of rankings
// meanwhile.
func (e *environment) archiveBench(ctx context.Context) {
	rate := max(1, int(load(ctx, e.service.addr, rankingCallers, e.seconds, rotate(e.rankings))/4))
	var took, calm, busy []time.Duration
	var day *models.Bucket
	for round := range archiveRounds {
		day = e.fillBoard(ctx, "steps", 10+round)
		start := time.Now()
		e.archiveDay(ctx, day)
		took = append(took, time.Since(start))
	}
	peak := e.service.status().VmHWM
	for round := range archiveRounds {
		day = e.fillBoard(ctx, "steps", 20+round)
		archive := func(ctx context.Context) { e.archiveDay(ctx, day) }
		calm = append(calm, p99(latencies(ctx, e.service, rankingCallers, rate, e.rankings, e.wait)))
		busy = append(busy, p99(latencies(ctx, e.service, rankingCallers, rate, e.rankings, archive)))
	}
	fmt.Printf("\narchiving a day of %d: %.0f rows a second; %d MB resident at most\n", e.board, float64(e.board)/median(took).Seconds(), peak>>20)
	fmt.Printf("p99 of rankings at %d a second: %v, and while a day is archived: %v, %.2f of that\n", rate,
		median(calm).Round(10*time.Microsecond), median(busy).Round(10*time.Microsecond), float64(median(busy))/float64(median(calm)))
	e.archivedRankings(ctx, day)
}

// archiveDay lets the service archive a day, and waits for the end of the run.
func (e *environment) archiveDay(ctx context.Context, day *models.Bucket) {
	check(e.call(ctx, "POST", "/v1/admin/archives", map[string]string{"board": day.Board, "bucket": day.Day.String()}, nil))
	for {
		var list struct {
			Runs []struct {
				State models.ArchiveState `json:"state"`
				Error string              `json:"error"`
			} `json:"runs"`
		}
		check(e.call(ctx, "GET", fmt.Sprintf("/v1/admin/archives?board=%s&bucket=%s", day.Board, day.Name), nil, &list))
		switch {
		case len(list.Runs) == 0:
			check(fmt.Errorf("there is no run of %v", day.Day))
		case list.Runs[0].State == models.ArchiveComplete:
			return
		case list.Runs[0].State == models.ArchiveFailed:
			check(fmt.Errorf("archive %v: %s", day.Day, list.Runs[0].Error))
		}
		check(pause.For(ctx, 10*time.Millisecond))
	}
}

// archivedRankings compares rankings of an archived day with today's, and prints the space of the
// archive.
func (e *environment) archivedRankings(ctx context.Context, day *models.Bucket) {
	// In production, autovacuum has processed a day before it is read much.
	e.vacuum(ctx, "archived_scores")
	archived := e.friendRequests("steps", 0, e.viewers, pageRows, "&date="+day.Day.String())
	today := e.loadRow("today", e.service, 1, 1, rotate(e.rankings))
	then := e.loadRow("an archived day", e.service, 1, 1, rotate(archived))
	then.base = today
	e.printTable(ctx, "friend ranking with one client", today, then)
	var heap, keys float64
	check(e.stores.Pool.QueryRow(ctx, `
		SELECT sum(pg_relation_size(c.oid))::float8 / sum(c.reltuples), sum(pg_indexes_size(c.oid))::float8 / sum(c.reltuples)
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'archived_scores'::regclass AND c.reltuples > 0`).Scan(&heap, &keys))
	fmt.Printf("\nPostgres, for each user and day: %.0f bytes of rows, %.0f of indexes\n", heap, keys)
}
