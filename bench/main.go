// Command bench compares the service with the raw commands that it uses, on one
// machine and in one run: rates, ratios, and memory. `make bench` starts the servers
// for it; docs/performance.md explains the figures.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

// settings holds the parameters of a run.
type settings struct {
	board, viewers, friends, limit int
	rounds                         int
	only                           string
	seconds                        time.Duration
}

func main() {
	var s settings
	flag.IntVar(&s.board, "board", 1_000_000, "users on the board")
	flag.IntVar(&s.viewers, "viewers", 1000, "users who read their ranking")
	flag.IntVar(&s.friends, "friends", 200, "friends of each")
	flag.IntVar(&s.limit, "limit", 50, "entries of a page")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds; the medians are printed")
	flag.DurationVar(&s.seconds, "time", 4*time.Second, "time of each measurement")
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = part.name
	}
	flag.StringVar(&s.only, "only", "", "one of "+strings.Join(names, ", ")+"; empty for all")
	bare := flag.String("bare", "", "run as the bare handler that the service is compared with, on the Redis of this address")
	var keys sharedKeys
	flag.StringVar(&keys.prefix, "prefix", "", "with -bare: the prefix of the service's keys")
	flag.StringVar(&keys.board, "key", "", "with -bare: the key of the service's board")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := func() error { return bench(ctx, s) }
	if *bare != "" {
		run = func() error { return serveBare(ctx, *bare, keys, s.limit) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parts are the parts of the benchmark, in the order in which they run.
var parts = []struct {
	name string
	run  func(*environment, context.Context) error
}{
	{"serving", (*environment).servingBench},
	{"cold", (*environment).coldBench},
	{"near", (*environment).nearBench},
	{"ingest", (*environment).ingestBench},
	{"ledger", (*environment).ledgerBench},
	{"capacity", (*environment).capacityBench},
	{"archive", (*environment).archiveBench},
}

// bench creates the data, starts the servers and prints the tables.
func bench(ctx context.Context, s settings) (err error) {
	e, err := newEnvironment(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	version, err := serverInfo(ctx, e.rdb, "redis_version")
	if err != nil {
		return err
	}
	fmt.Printf("%d cores, %s; Redis %s; board of %d, %d viewers with %d friends each, pages of %d; %d rounds of %v, medians\n\n",
		runtime.NumCPU(), runtime.Version(), version, s.board, s.viewers, s.friends, s.limit, s.rounds, s.seconds)

	for _, part := range parts {
		if s.only == "" || s.only == part.name {
			if err := part.run(e, ctx); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return nil
}

// servingBench measures rankings and uploads.
func (e *environment) servingBench(ctx context.Context) error {
	rows := []row{
		{name: "friend ranking: go-redis loop, SMEMBERS + ZMSCORE, 32 goroutines", measure: e.redisRanking},
		{name: "friend ranking: bare Gin handler, 32 connections", measure: e.bareRanking, process: e.bare},
		{name: "friend ranking: Stepboard, 32 connections", measure: e.serviceRanking, process: e.service},
		{name: "upload: bare Gin handler, one ZADD a request, 64 connections", measure: e.bareUpload, process: e.bare},
		{name: "upload: Stepboard, 64 connections", measure: e.serviceUpload, process: e.service},
	}
	// Each round measures all rows, so that other load on the machine affects all
	// of them alike.
	for range e.rounds {
		for i := range rows {
			if err := rows[i].run(ctx, e); err != nil {
				return fmt.Errorf("%s: %w", rows[i].name, err)
			}
		}
	}
	fmt.Println("| what | a second | ratio | Redis, µs of CPU each | server | client |")
	fmt.Println("| --- | ---: | --- | ---: | ---: | ---: |")
	loop, bareRank, bareUp := rows[0].median(), rows[1].median(), rows[3].median()
	ratios := []string{
		"1",
		fmt.Sprintf("%.2f of the loop", bareRank/loop),
		fmt.Sprintf("%.2f of the loop, %.2f of the bare handler", rows[2].median()/loop, rows[2].median()/bareRank),
		"1",
		fmt.Sprintf("%.2f of the bare handler", rows[4].median()/bareUp),
	}
	for i, r := range rows {
		fmt.Printf("| %s | %.0f | %s | %.0f | %.0f | %.0f |\n", r.name, r.median(), ratios[i], r.redis.each(), r.server.each(), r.client.each())
	}
	fmt.Println()
	return e.printMemory(ctx)
}

// row is one line of a table.
type row struct {
	name    string
	measure func(context.Context) (float64, error)
	process *process // the server; nil without one
	// postgres is the process of Postgres; nil if its CPU time is not printed.
	postgres *process
	rates    []float64

	redis, server, sql, client share
}

// share is the CPU time that one process has used for a number of operations.
type share struct {
	spent time.Duration
	ops   float64
}

// each returns the CPU time of one operation in microseconds.
func (s share) each() float64 { return float64(s.spent.Microseconds()) / s.ops }

func (s *share) add(spent time.Duration, ops float64) {
	s.spent += spent
	s.ops += ops
}

// run measures once.
func (r *row) run(ctx context.Context, e *environment) error {
	self := &process{pid: os.Getpid()}
	before := []time.Duration{e.redisServer.cpu(), r.process.cpu(), r.postgres.cpu(), self.cpu()}
	start := time.Now()
	rate, err := r.measure(ctx)
	if err != nil {
		return err
	}
	ops := rate * time.Since(start).Seconds()
	r.rates = append(r.rates, rate)
	r.redis.add(e.redisServer.cpu()-before[0], ops)
	r.server.add(r.process.cpu()-before[1], ops)
	r.sql.add(r.postgres.cpu()-before[2], ops)
	r.client.add(self.cpu()-before[3], ops)
	return nil
}

func (r *row) median() float64 { return median(r.rates) }

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
