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
func (e *environment) archiveBench(ctx context.Context) error {
	saturation, err := load(ctx, e.service.addr, rankingCallers, e.seconds, rotate(e.rankings))
	if err != nil {
		return err
	}
	rate := max(1, int(saturation/4))
	var took, calm, busy []time.Duration
	var day *models.Bucket
	for round := range archiveRounds {
		if day, err = e.fillBoard(ctx, "steps", 10+round); err != nil {
			return err
		}
		start := time.Now()
		if err := e.archiveDay(ctx, day); err != nil {
			return err
		}
		took = append(took, time.Since(start))
	}
	peak := e.service.memory("VmHWM:")
	for round := range archiveRounds {
		if day, err = e.fillBoard(ctx, "steps", 20+round); err != nil {
			return err
		}
		for _, m := range []struct {
			latencies *[]time.Duration
			work      func(context.Context) error
		}{
			{&calm, e.wait}, {&busy, func(ctx context.Context) error { return e.archiveDay(ctx, day) }},
		} {
			took, err := latencies(ctx, e.service, rankingCallers, rate, e.rankings, m.work)
			if err != nil {
				return err
			}
			*m.latencies = append(*m.latencies, p99(took))
		}
	}
	fmt.Printf("\narchiving a day of %d: %.0f rows a second; %d MB resident at most\n", e.board, float64(e.board)/median(took).Seconds(), peak>>20)
	fmt.Printf("p99 of rankings at %d a second: %v, and while a day is archived: %v, %.2f of that\n", rate,
		median(calm).Round(10*time.Microsecond), median(busy).Round(10*time.Microsecond), float64(median(busy))/float64(median(calm)))
	return e.archivedRankings(ctx, day)
}

// archiveDay lets the service archive a day, and waits for the end of the run.
func (e *environment) archiveDay(ctx context.Context, day *models.Bucket) error {
	if err := e.call(ctx, "POST", "/v1/admin/archives", map[string]string{"board": day.Board, "bucket": day.Day.String()}, nil); err != nil {
		return err
	}
	for {
		var list struct {
			Runs []struct {
				State models.ArchiveState `json:"state"`
				Error string              `json:"error"`
			} `json:"runs"`
		}
		err := e.call(ctx, "GET", fmt.Sprintf("/v1/admin/archives?board=%s&bucket=%s", day.Board, day.Name), nil, &list)
		switch {
		case err != nil:
			return err
		case len(list.Runs) == 0:
			return fmt.Errorf("there is no run of %v", day.Day)
		case list.Runs[0].State == models.ArchiveComplete:
			return nil
		case list.Runs[0].State == models.ArchiveFailed:
			return fmt.Errorf("archive %v: %s", day.Day, list.Runs[0].Error)
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// archivedRankings compares rankings of an archived day with today's, and prints the space of the
// archive.
func (e *environment) archivedRankings(ctx context.Context, day *models.Bucket) error {
	// In production, autovacuum has processed a day before it is read much.
	if err := e.vacuum(ctx, "archived_scores"); err != nil {
		return err
	}
	archived, err := e.friendRequests("steps", 0, e.viewers, e.limit, "&date="+day.Day.String())
	if err != nil {
		return err
	}
	today := e.loadRow("today", e.service, 1, 1, rotate(e.rankings))
	then := e.loadRow("an archived day", e.service, 1, 1, rotate(archived))
	then.base = today
	if err := e.printTable(ctx, "friend ranking with one client", today, then); err != nil {
		return err
	}
	var heap, keys float64
	err = e.stores.Pool.QueryRow(ctx, `
		SELECT sum(pg_relation_size(c.oid))::float8 / sum(c.reltuples), sum(pg_indexes_size(c.oid))::float8 / sum(c.reltuples)
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'archived_scores'::regclass AND c.reltuples > 0`).Scan(&heap, &keys)
	if err != nil {
		return err
	}
	fmt.Printf("\nPostgres, for each user and day: %.0f bytes of rows, %.0f of indexes\n", heap, keys)
	return nil
}
