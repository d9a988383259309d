package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// row is one line of a table: something that is measured.
type row struct {
	name string
	// base is the row whose rate this one's is compared with; nil for none.
	base *row
	// process is the server that is measured; nil without one.
	process *process
	// prepare, unless it is nil, is called before each measurement.
	prepare func(context.Context)
	// measure returns how many operations were done in a second.
	measure func(context.Context) float64

	rates []float64
	// The processor time of an operation, in Redis, the process, Postgres and this client.
	redis, server, postgres, client share
	others                          share  // in all other processes, for a second
	resident                        uint64 // the largest memory of the process after a measurement
}

// loadRow returns a row of a process that gets requests over a number of connections. Each
// request counts as a number of operations.
func (e *environment) loadRow(name string, p *process, connections, operations int, next func() []byte) *row {
	return &row{name: name, process: p, measure: func(ctx context.Context) float64 {
		return float64(operations) * load(ctx, p.addr, connections, e.seconds, next)
	}}
}

// printTable measures rows and prints them. Each round measures all of them, so that other load
// on the machine affects all of them alike.
func (e *environment) printTable(ctx context.Context, title string, rows ...*row) {
	for range e.rounds {
		for _, r := range rows {
			named(r.name, func() { r.run(ctx, e) })
		}
	}
	fmt.Printf("\n| %s | a second | ratio | Redis, µs of CPU each | server | Postgres | client | server, MB | other processes, cores |\n| --- |%s\n",
		title, strings.Repeat(" ---: |", 8))
	for _, r := range rows {
		fmt.Printf("| %s | %.0f | %.2f | %v | %v | %v | %v | %d | %.2f |\n", r.name, r.median(), r.median()/cmp.Or(r.base, r).median(),
			r.redis, r.server, r.postgres, r.client, r.resident>>20, r.others.spent.Seconds()/r.others.operations)
	}
}

// run measures once.
func (r *row) run(ctx context.Context, e *environment) {
	if r.prepare != nil {
		r.prepare(ctx)
	}
	processes := []*process{e.redisServer, r.process, e.postgresServer, {pid: os.Getpid()}}
	before := make([]time.Duration, len(processes))
	for i, p := range processes {
		before[i] = p.cpu()
	}
	start, others := time.Now(), machineTime()
	rate := r.measure(ctx)
	took := time.Since(start).Seconds()
	others = machineTime() - others
	for i, s := range []*share{&r.redis, &r.server, &r.postgres, &r.client} {
		spent := processes[i].cpu() - before[i]
		s.spent += spent
		s.operations += rate * took
		others -= spent
	}
	r.others.spent += others
	r.others.operations += took
	r.rates = append(r.rates, rate)
	r.resident = max(r.resident, r.process.status().VmRSS)
}

func (r *row) median() float64 { return median(r.rates) }

// share is the CPU time that one process has used for a number of operations.
type share struct {
	spent      time.Duration
	operations float64
}

// String returns the CPU time of one operation in microseconds.
func (s share) String() string {
	each := float64(s.spent.Microseconds()) / s.operations
	if each < 10 {
		return fmt.Sprintf("%.2f", each)
	}
	return fmt.Sprintf("%.0f", each)
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
