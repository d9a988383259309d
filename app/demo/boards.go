package demo

import (
	"time"

	"stepboard/config"
	"stepboard/models"
)

const (
	// stepsBoard is the board of daily steps, in one time zone.
	stepsBoard = "steps"
	// localBoard is the board of daily steps whose days are each person's own.
	localBoard = "steps-local"
	// giftsBoard is the board of an event: whoever gives the most coins leads.
	giftsBoard = "gifts"
	// lapsBoard is the board of an event that takes the best, lowest first: each person's fastest
	// lap. It takes laps that were run up to eventBegan ago.
	lapsBoard = "laps"
	// activeBoard is the rolling board: points of the last 24 hours.
	activeBoard = "active-24h"

	// eventBegan is how long before the demo the events began. They last for eventLasts, that
	// of the laps a day less.
	eventBegan = 2 * 24 * time.Hour
	eventLasts = 9*24*time.Hour + 4*time.Hour
	// slowestLap is the longest time of a lap, in seconds.
	slowestLap = 600

	// One person's score of the first day is shakenScore: the phone was shaken. Nobody
	// else's ever exceeds demoReviewAbove.
	shakenScore     = 98_800
	demoReviewAbove = 95_000
	// heldScore is what another phone has counted in a car. It is above demoHoldAbove, as nothing else.
	heldScore     = 99_900
	demoHoldAbove = 99_000
)

// boards returns the demo's boards.
func boards(now time.Time) []config.Board {
	steps, gifts := config.Default().Boards[0], config.Default().Boards[0]
	steps.Unit, steps.ReviewAbove = "steps", demoReviewAbove
	local := steps
	local.Name, local.TimeZone = localBoard, models.LocalZone
	steps.HoldAbove = demoHoldAbove

	gifts.OpenDays, gifts.MaxScore = 0, 1_000_000
	active := gifts
	active.Name, active.Kind, active.Unit, active.ChangeStream = activeBoard, string(models.KindRolling), "points", false
	gifts.Name, gifts.Kind, gifts.Unit = giftsBoard, string(models.KindEvent), "coins"
	gifts.Start = now.Add(-eventBegan).Truncate(time.Hour)
	gifts.End = gifts.Start.Add(eventLasts)
	laps := gifts
	laps.Name, laps.Unit, laps.End = lapsBoard, "s", laps.End.Add(-24*time.Hour)
	laps.MaxScore, laps.Takes, laps.Order, laps.Late = slowestLap, string(models.TakesBest), string(models.OrderLow), eventBegan
	return []config.Board{steps, local, gifts, active, laps}
}
