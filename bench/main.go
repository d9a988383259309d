// Command bench measures the service against the raw commands that it is made
// of, on one machine, in one run: rates, ratios, and memory. `make bench`
// starts the servers for it; docs/performance.md says what the figures mean.
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
	"time"
)

// settings is what a run is made with.
type settings struct {
	board, viewers, friends, limit int
	rounds                         int
	only                           string
	seconds                        time.Duration
}

func main() {
	var s settings
	flag.IntVar(&s.board, "board", 1_000_000, "users on the board")
	flag.IntVar(&s.viewers, "viewers", 1000, "users who look at their ranking")
	flag.IntVar(&s.friends, "friends", 200, "friends of each")
	flag.IntVar(&s.limit, "limit", 50, "lines of a page")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds; of each figure the median counts")
	flag.DurationVar(&s.seconds, "time", 4*time.Second, "time of each measurement")
	flag.StringVar(&s.only, "only", "", "serving, cost, ingest, ledger, capacity, archive or reasons; empty for all")
	bare := flag.String("bare", "", "be the bare handler that the service is compared with: the address of its Redis")
	var keys sharedKeys
	flag.StringVar(&keys.prefix, "prefix", "", "with -bare: what stands before the service's keys")
	flag.StringVar(&keys.board, "key", "", "with -bare: the service's board")
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

// bench makes the data, starts the servers and prints the tables.
func bench(ctx context.Context, s settings) (err error) {
	w, err := newSetup(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	version, err := serverInfo(ctx, w.rdb, "redis_version")
	if err != nil {
		return err
	}
	fmt.Printf("%d cores, %s; Redis %s; board of %d, %d viewers with %d friends each, pages of %d; %d rounds of %v, medians\n\n",
		runtime.NumCPU(), runtime.Version(), version, s.board, s.viewers, s.friends, s.limit, s.rounds, s.seconds)

	parts := map[string]func(context.Context) error{"serving": w.servingBench, "cost": w.costBench, "ingest": w.ingestBench, "ledger": w.ledgerBench, "capacity": w.capacityBench, "archive": w.archiveBench, "reasons": w.reasonsBench}
	for _, name := range []string{"serving", "cost", "ingest", "ledger", "capacity", "archive", "reasons"} {
		if s.only == "" || s.only == name {
			if err := parts[name](ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// servingBench measures rankings and uploads.
func (w *setup) servingBench(ctx context.Context) error {
	rows := []row{
		{name: "friend ranking: go-redis loop, SMEMBERS + ZMSCORE, 32 goroutines", measure: w.redisRanking},
		{name: "friend ranking: bare Gin handler, 32 connections", measure: w.bareRanking, process: w.bare},
		{name: "friend ranking: Stepboard, 32 connections", measure: w.serviceRanking, process: w.service},
		{name: "upload: bare Gin handler, one ZADD a request, 64 connections", measure: w.bareUpload, process: w.bare},
		{name: "upload: Stepboard, 64 connections", measure: w.serviceUpload, process: w.service},
	}
	// Round by round, so that what else the machine does falls on all alike.
	for range w.rounds {
		for i := range rows {
			if err := rows[i].run(ctx, w); err != nil {
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
	return w.printMemory(ctx)
}

// row is one measured thing.
type row struct {
	name    string
	measure func(context.Context) (float64, error)
	process *process // the server, if there is one
	// redises are its Redis, where that is not the world's.
	redises []*process
	rates   []float64

	redis, server, client share
}

// share is the CPU time that one side has spent, and on how much.
type share struct {
	spent time.Duration
	ops   float64
}

// each is what one operation has cost, in microseconds.
func (s share) each() float64 { return float64(s.spent.Microseconds()) / s.ops }

func (s *share) add(spent time.Duration, ops float64) {
	s.spent += spent
	s.ops += ops
}

// run measures once.
func (r *row) run(ctx context.Context, w *setup) error {
	self := &process{pid: os.Getpid()}
	redises := r.redises
	if redises == nil {
		redises = []*process{w.redisServer}
	}
	before := []time.Duration{cpuOf(redises), r.process.cpu(), self.cpu()}
	start := time.Now()
	rate, err := r.measure(ctx)
	if err != nil {
		return err
	}
	ops := rate * time.Since(start).Seconds()
	r.rates = append(r.rates, rate)
	r.redis.add(cpuOf(redises)-before[0], ops)
	r.server.add(r.process.cpu()-before[1], ops)
	r.client.add(self.cpu()-before[2], ops)
	return nil
}

// cpuOf is the CPU time that processes have spent together.
func cpuOf(processes []*process) (sum time.Duration) {
	for _, p := range processes {
		sum += p.cpu()
	}
	return sum
}

func (r *row) median() float64 { return median(r.rates) }

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
