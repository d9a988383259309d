// Command bench compares the service with the raw commands that it uses, on one
// machine and in one run: rates, ratios, and memory. `make bench` starts the servers
// for it; docs/performance.md explains the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"
)

// pageRows is the number of entries of a page of a ranking.
const pageRows = 50

// settings holds the parameters of a run.
type settings struct {
	board, viewers, friends, rounds int
	only                            string
	seconds                         time.Duration
}

func main() {
	var s settings
	flag.IntVar(&s.board, "board", 1_000_000, "users on the board")
	flag.IntVar(&s.viewers, "viewers", 1000, "users who read their ranking")
	flag.IntVar(&s.friends, "friends", 200, "friends of each")
	flag.IntVar(&s.rounds, "rounds", 3, "rounds; the medians are printed")
	flag.DurationVar(&s.seconds, "time", 4*time.Second, "time of each measurement")
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = part.name
	}
	flag.StringVar(&s.only, "only", "", "one of "+strings.Join(names, ", ")+"; empty for all")
	bare := flag.String("bare", "", "run as the bare handler that the service is compared with, on the Redis of this address")
	var keys sharedKeys
	flag.StringVar(&keys.Prefix, "prefix", "", "with -bare: the prefix of the service's keys")
	flag.StringVar(&keys.board, "key", "", "with -bare: the key of the service's board")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := func() error { return bench(ctx, s) }
	if *bare != "" {
		run = func() error { return serveBare(ctx, *bare, keys) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parts are the parts of the benchmark, in the order in which they run.
var parts = []struct {
	name string
	run  func(*environment, context.Context)
}{
	// It is the first, because it measures the memory of Redis and Postgres.
	{"folder", (*environment).folderBench},
	{"copies", (*environment).copiesBench},
	{"serving", (*environment).servingBench},
	{"cold", (*environment).coldBench},
	{"near", (*environment).nearBench},
	{"ranks", (*environment).ranksBench},
	{"ingest", (*environment).ingestBench},
	{"ledger", (*environment).ledgerBench},
	{"capacity", (*environment).capacityBench},
	{"competitions", (*environment).competitionsBench},
	{"archive", (*environment).archiveBench},
}

// bench creates the data, starts the servers and prints the tables.
func bench(ctx context.Context, s settings) (err error) {
	e := &environment{settings: s}
	defer func() { err = errors.Join(err, e.close()) }()
	return caught(func() {
		e.prepare(ctx)
		fmt.Printf("%d cores, %s; Redis %s; board of %d, %d viewers with %d friends each, pages of %d; %d rounds of %v, medians\n",
			runtime.NumCPU(), runtime.Version(), redisInfo(ctx, e.rdb, "redis_version"), e.board, e.viewers, e.friends, pageRows, e.rounds, e.seconds)
		for _, part := range parts {
			if e.only == "" || e.only == part.name {
				named(part.name, func() { part.run(e, ctx) })
			}
		}
	})
}

// failure is an error that ends the run. A measurement that fails is of no use, and neither is the rest
// of its part: so check and must panic with one, bench returns it, and the parts read as their steps.
type failure struct{ error }

// check ends the run if there is an error. It must not be called in a goroutine, unless below caught.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns a value, or ends the run if there is an error.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// caught does work and returns the error by which it ends the run; nil if it does not.
func caught(work func()) (err error) {
	defer func() {
		switch end := recover().(type) {
		case nil:
		case failure:
			err = end.error
		default:
			panic(end)
		}
	}()
	work()
	return nil
}

// named does work. An error by which it ends the run gets a name.
func named(name string, work func()) {
	if err := caught(work); err != nil {
		check(fmt.Errorf("%s: %w", name, err))
	}
}
