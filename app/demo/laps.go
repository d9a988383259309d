package demo

import (
	"context"
	"fmt"
	"time"

	"stepboard/app"
	"stepboard/config"
	"stepboard/models"
	"stepboard/services/boards/ledger"
)

const (
	// lapsBoard is the board of an event that takes the best, lowest first: each person's fastest lap.
	lapsBoard = "laps"
	// slowestLap is the longest time of a lap, in seconds.
	slowestLap = 600
	// lapsAtMost is how often a person runs at most.
	lapsAtMost = 3
)

// lapsEvent returns the board of the laps: it began with the gifts, ends a day earlier, and takes laps
// that were run up to eventBegan ago.
func lapsEvent(now time.Time) config.Board {
	laps := eventOf(lapsBoard, now)
	laps.End = laps.End.Add(-24 * time.Hour)
	laps.MaxScore, laps.Takes, laps.Order, laps.Unit = slowestLap, string(models.TakesBest), string(models.OrderLow), "s"
	laps.Late = eventBegan
	return laps
}

// lapsRun returns the laps that people have run before the demo began. They follow from the people's
// positions, so they are the same in each demo.
func lapsRun(p *people, now time.Time) (laps []ledger.Increment) {
	for position, id := range p.ids[:min(len(p.ids), peopleWithPast)] {
		if position%3 == 1 {
			continue // does not run
		}
		for lap := range 1 + position%lapsAtMost {
			minutes := (position*37 + lap*401) % int((eventBegan-time.Hour)/time.Minute)
			run := models.TimestampOf(now.Add(-time.Duration(minutes) * time.Minute))
			laps = append(laps, ledger.Increment{
				User: id, Result: true, Amount: int64(62 + (430+position*389+lap*211)%120),
				EventID: fmt.Sprintf("lap-%d-%d", position, lap), OccurredAt: &run,
			})
		}
	}
	return laps
}

// runLaps stores the laps.
func runLaps(ctx context.Context, a *app.App, p *people, now time.Time) error {
	return addAll(ctx, a, lapsBoard, lapsRun(p, now))
}
