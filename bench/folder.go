package main

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"stepboard/config"
	"stepboard/models"
)

const (
	// folderDays is how many days of the board the stores have when services start, today included.
	// None may be archived yet, since a service does that when it starts.
	folderDays = 4
	// archivedDay is archived later: as many days ago that it may be, at any time of day.
	archivedDay = 5
)

// formNames are the names of what folderBench compares.
var formNames = []string{"Redis and Postgres", "data folder"}

// folderBench compares a service on a data folder with one on Redis and Postgres: how it starts, its
// memory, calls, and the archive of a day. Both have the same people, friends and days.
func (e *environment) folderBench(ctx context.Context) {
	e.fillDays(ctx, 1)
	f := e.newFolder(ctx, "data")
	forms := []*environment{e, f}
	defer func() { check(f.stop()) }()
	fmt.Printf("\n| %d users | start | memory after it, MB | friend rankings a second, each viewer's first |\n| --- | ---: | ---: | ---: |\n", e.board)
	for i, form := range forms {
		var took []time.Duration
		for range e.rounds {
			took = append(took, form.restart(ctx))
		}
		memory, begun := form.memory(), time.Now()
		askOnce(ctx, form.service, e.rankings)
		fmt.Printf("| %s | %v | %d | %.0f |\n", formNames[i], median(took).Round(time.Millisecond), memory>>20, float64(e.viewers)/time.Since(begun).Seconds())
	}
	rankings := e.folderCalls(ctx, forms)
	fmt.Printf("\nmemory of Redis, Postgres and the service after these calls: %d MB; of the service on the folder: %d MB\n",
		e.memory()>>20, f.memory()>>20)
	day := e.fillBoard(ctx, "steps", archivedDay)
	f.copyDay(ctx, day)
	e.folderLatencies(ctx, f, day, max(1, int(rankings/4)))
}

// fillDays fills the days of the board up to a number of days ago.
func (e *environment) fillDays(ctx context.Context, last int) {
	for ago := folderDays - 1; ago >= last; ago-- {
		e.fillBoard(ctx, "steps", ago)
	}
}

// copyDay gives a day the scores of the first one, while the service of the folder runs. A service
// that starts archives what is due, and no call or command adds to such a day without archiving it,
// so this writes to the database itself.
func (e *environment) copyDay(ctx context.Context, day *models.Bucket) {
	db := must(sql.Open("sqlite", "file:"+filepath.Join(e.config.Data.Dir, "stepboard.db")+"?_pragma=busy_timeout(60000)"))
	defer func() { check(db.Close()) }()
	must(db.ExecContext(ctx, `INSERT INTO hot_scores SELECT board, ?, user_id, composite FROM hot_scores
		WHERE board = ? AND bucket = (SELECT min(bucket) FROM hot_scores)`, day.Name, day.Board))
	must(db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"))
}

// copiesBench compares uploads to a data folder that is copied each second with those to one that is not.
// The copies are beside it, on the same disk.
func (e *environment) copiesBench(ctx context.Context) {
	var sent atomic.Int64
	var rows []*row
	requests := e.risingUploads("steps")
	for _, form := range []struct{ name, to string }{
		{"no copies", ""}, {"copies", (&url.URL{Scheme: "file", Path: filepath.Join(e.folder, "elsewhere")}).String()},
	} {
		f := e.newFolder(ctx, form.name)
		f.service = f.serve(ctx, form.name, "--backup.to="+form.to)
		defer func() { check(f.stop()) }()
		askOnce(ctx, f.service, render(requests, &sent))
		rows = append(rows, e.loadRow(form.name, f.service, uploadCallers, 1, rising(requests, &sent)))
		rows[len(rows)-1].base = rows[0]
	}
	e.printTable(ctx, fmt.Sprintf("uploads of %d people to a data folder", len(requests)), rows...)
}

// newFolder fills a data folder as the servers are filled. Its service is not started.
func (e *environment) newFolder(ctx context.Context, name string) *environment {
	f := &environment{settings: e.settings, folder: e.folder, flags: maps.Clone(e.flags)}
	maps.DeleteFunc(f.flags, func(key, _ string) bool {
		return strings.HasPrefix(key, "redis.") || strings.HasPrefix(key, "postgres.")
	})
	f.flags["data.dir"] = filepath.Join(e.folder, name)
	f.config = must(config.Load(config.Sources{Flags: f.flags}))
	f.openApp(ctx)
	defer func() { check(f.app.Close()) }() // it closes the stores
	f.fillUsers(ctx, firstUser, f.board)
	f.fillDays(ctx, 0)
	f.bucket(ctx, "steps", archivedDay)
	f.befriend(ctx, 0, f.viewers)
	return f
}

// restart stops the service if it runs, starts it, and returns how long it takes to be ready.
func (e *environment) restart(ctx context.Context) time.Duration {
	if e.service != nil {
		e.service.stop()
	}
	begun := time.Now()
	e.service = e.serve(ctx, "service")
	until(ctx, time.Millisecond, func() bool { return e.call(ctx, "GET", "/readyz", nil, nil) == nil })
	return time.Since(begun)
}

// memory returns the resident memory of the service and of its servers, in bytes.
func (e *environment) memory() uint64 {
	return e.service.share() + e.redisServer.share() + e.postgresServer.share()
}

// folderCalls prints the rates of calls of the same viewers, and returns the smallest one of friend
// rankings. Every upload raises a score.
func (e *environment) folderCalls(ctx context.Context, forms []*environment) (rankings float64) {
	var sent atomic.Int64
	var rows []*row
	for _, call := range []struct {
		name                   string
		connections, operation int
		requests               [][]byte
	}{
		{"friend ranking", rankingCallers, 1, e.rankings},
		{"me", rankingCallers, 1, e.viewerRequests("/v1/boards/steps/me", 0, e.viewers)},
		{"top", rankingCallers, 1, e.viewerRequests(fmt.Sprintf("/v1/boards/steps/top?limit=%d", pageRows), 0, e.viewers)},
		{"upload", uploadCallers, 1, e.risingUploads("steps")},
		{fmt.Sprintf("upload, %d a request", batchScores), batchCallers, batchScores, e.risingBatches("steps")},
	} {
		var first *row
		for i, name := range formNames {
			r := e.loadRow(call.name+": "+name, forms[i].service, call.connections, call.operation, rising(call.requests, &sent))
			if r.base, first = first, r; i == 0 {
				first = r
			}
			// Everybody's row id and name gets into memory.
			askOnce(ctx, forms[i].service, render(call.requests, &sent))
			rows = append(rows, r)
		}
	}
	e.printTable(ctx, fmt.Sprintf("calls of %d viewers with %d friends, board of %d", e.viewers, e.friends, e.board), rows...)
	return min(rows[0].median(), rows[1].median())
}

// folderLatencies prints the latencies of friend rankings at a constant rate, while nothing else is
// done, while a day is archived, and while the data folder is copied.
func (e *environment) folderLatencies(ctx context.Context, f *environment, day *models.Bucket, rate int) {
	backup := filepath.Join(e.folder, "backup")
	fmt.Printf("\n| friend rankings, %d a second | p99 | slowest | it takes | memory after it, MB |\n| --- |%s\n", rate, strings.Repeat(" ---: |", 4))
	for _, m := range []struct {
		name string
		form *environment
		work func(context.Context)
	}{
		{"Redis and Postgres: nothing else", e, e.wait},
		{"data folder: nothing else", f, f.wait},
		{"Redis and Postgres: a day is archived", e, func(ctx context.Context) { e.archiveDay(ctx, day) }},
		{"data folder: a day is archived", f, func(ctx context.Context) { f.archiveDay(ctx, day) }},
		{"data folder: a backup is made", f, func(ctx context.Context) {
			runCommand(ctx, filepath.Join(f.folder, "stepboard"), "backup", backup, "--data.dir="+f.config.Data.Dir)
		}},
	} {
		named(m.name, func() {
			begun := time.Now()
			took := latencies(ctx, m.form.service, rankingCallers, rate, e.rankings, m.work)
			fmt.Printf("| %s | %v | %v | %v | %d |\n", m.name, p99(took).Round(10*time.Microsecond),
				took[len(took)-1].Round(10*time.Microsecond), time.Since(begun).Round(time.Millisecond), m.form.memory()>>20)
		})
	}
	printBackup(ctx, backup)
}

// printBackup prints the size of a backup, and of each row in it.
func printBackup(ctx context.Context, path string) {
	fmt.Printf("\n| the backup has %d MB | rows | bytes each, with indexes |\n| --- | ---: | ---: |\n", must(os.Stat(path)).Size()>>20)
	db := must(sql.Open("sqlite", "file:"+path))
	defer func() { check(db.Close()) }()
	for _, table := range []string{"users", "friendships", "hot_scores", "archived_scores", "archived_ranks"} {
		var rows int
		var bytes float64
		check(db.QueryRowContext(ctx, `SELECT count(*), (SELECT sum(s.pgsize) FROM dbstat s JOIN sqlite_schema m ON m.name = s.name
			WHERE m.tbl_name = ?) FROM `+table, table).Scan(&rows, &bytes))
		fmt.Printf("| %s | %d | %.0f |\n", table, rows, bytes/float64(rows))
	}
}
