// Package clock compares the clock of this machine with the database's, which all
// processes share. A process whose clock is days ahead would archive days in
// progress and purge what is still needed.
package clock

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"stepboard/models"
)

const (
	// Limit is how far the two clocks may be apart.
	Limit = time.Minute
	// CompareEvery is how often Compare should be called. In between the machine's monotonic
	// clock shows whether its clock was set.
	CompareEvery = 10 * time.Second
	// timeout bounds one comparison. It is less than Limit, so that a slow database
	// is no drift.
	timeout = 5 * time.Second
)

// Guard refuses work while the clocks are further apart than Limit. Safe for
// concurrent use.
type Guard struct {
	machine models.Clock
	elapsed models.Clock
	db      *sql.DB
	last    atomic.Pointer[comparison]
}

// comparison is the database's time at a moment.
type comparison struct {
	database time.Time
	at       time.Time // by the clock elapsed
}

// NewGuard returns a guard that compares the machine's clock, without the
// service's clock.offset, with that of a Postgres. The time since the last comparison is measured
// by elapsed, which nobody sets: time.Now, whose differences are those of the monotonic clock. With
// a nil db it permits everything.
func NewGuard(machine, elapsed models.Clock, db *sql.DB) *Guard {
	return &Guard{machine: machine, elapsed: elapsed, db: db}
}

// Compare compares the clocks. If the database does not respond, the last comparison stays in
// use. It returns CodeUnavailable if they are further apart than Limit, or if the database does
// not respond within timeout. One query.
func (g *Guard) Compare(ctx context.Context) error {
	if g.db == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	before := g.elapsed()
	var database time.Time
	if err := g.db.QueryRowContext(ctx, "SELECT clock_timestamp()").Scan(&database); err != nil {
		return models.Unavailable("read the database's clock", err)
	}
	g.last.Store(&comparison{database: database, at: before.Add(g.elapsed().Sub(before) / 2)})
	return g.Check()
}

// Check returns CodeUnavailable if the clocks are further apart than Limit, going by
// the last comparison. No I/O.
func (g *Guard) Check() error {
	here, database := g.read()
	if here.Sub(database).Abs() <= Limit {
		return nil
	}
	return models.Unavailable("compare clocks", fmt.Errorf(
		"this machine's clock says %s and Postgres's says %s: set them right",
		here.UTC().Format(time.RFC3339), database.UTC().Format(time.RFC3339)))
}

// Drift returns how far this machine's clock is ahead of the database's, going by
// the last comparison. No I/O.
func (g *Guard) Drift() time.Duration {
	here, database := g.read()
	return here.Sub(database)
}

// read returns the present time by both clocks, twice that of the machine before the
// first comparison.
func (g *Guard) read() (here, database time.Time) {
	here = g.machine()
	last := g.last.Load()
	if last == nil {
		return here, here
	}
	return here, last.database.Add(g.elapsed().Sub(last.at))
}
