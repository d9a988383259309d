package demo

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"stepboard/app"
	"stepboard/config"
	"stepboard/models"
	"stepboard/services/boards/ledger"
)

const (
	// giftsBoard is the board of an event: whoever gives the most coins leads.
	giftsBoard = "gifts"
	// activeBoard is the rolling board: points of the last 24 hours.
	activeBoard = "active-24h"
	// eventBegan is how long before the demo the event began, eventLasts how long
	// it lasts.
	eventBegan = 2 * 24 * time.Hour
	eventLasts = 9*24*time.Hour + 4*time.Hour
	// giftInterval is how often somebody gives a gift and others are active.
	giftInterval = 2 * time.Second
	// firstGiftsBatch is how many increments from before the demo are stored at once.
	firstGiftsBatch = 100
	// maxGift is the largest body of a visitor's gift, in bytes.
	maxGift = 1 << 10
)

// giftCoins are the prices of the gifts. Small ones are given more often.
var giftCoins = []int64{1, 1, 1, 5, 5, 10, 10, 20, 66, 188}

// giftBoards returns the boards that take increments.
func giftBoards(now time.Time) []config.Board {
	event, rolling := eventOf(giftsBoard, now), config.Default().Boards[0]
	rolling.OpenDays, rolling.ChangeStream = 0, false
	rolling.Name, rolling.Kind = activeBoard, string(models.KindRolling)
	event.MaxScore, rolling.MaxScore = 1_000_000, 1_000_000
	event.Unit, rolling.Unit = "coins", "points"
	return []config.Board{event, rolling, lapsEvent(now)}
}

// eventOf returns the board of an event that is under way.
func eventOf(name string, now time.Time) config.Board {
	event := config.Default().Boards[0]
	event.Name, event.Kind, event.OpenDays = name, string(models.KindEvent), 0
	event.Start = now.Add(-eventBegan).Truncate(time.Hour)
	event.End = event.Start.Add(eventLasts)
	return event
}

// gifts makes increments. Safe for concurrent use.
type gifts struct {
	given atomic.Int64
}

// increment returns an increment with an event id of its own.
func (g *gifts) increment(user models.UserID, delta int64) ledger.Increment {
	return ledger.Increment{User: user, Amount: delta, EventID: "demo-" + strconv.FormatInt(g.given.Add(1), 10)}
}

// giveFirst stores gifts and points from before the demo began.
func (g *gifts) giveFirst(ctx context.Context, a *app.App, p *people) error {
	for _, board := range []string{giftsBoard, activeBoard} {
		var items []ledger.Increment
		for _, id := range p.ids[:min(len(p.ids), peopleWithPast)] {
			if p.rng.Float64() < 0.4 {
				items = append(items, g.increment(id, 1+int64(300*p.rng.ExpFloat64())))
			}
		}
		if err := addAll(ctx, a, board, items); err != nil {
			return err
		}
	}
	return nil
}

// addAll makes many increments, in batches.
func addAll(ctx context.Context, a *app.App, board string, increments []ledger.Increment) error {
	for batch := range slices.Chunk(increments, firstGiftsBatch) {
		if _, err := a.Ledger.Add(ctx, board, batch); err != nil {
			return err
		}
	}
	return nil
}

// run lets people give gifts and be active until ctx ends. Half of them are
// among the first, whom the page offers, and their friends.
func (g *gifts) run(ctx context.Context, a *app.App, p *people, log *slog.Logger) {
	somebody := func() models.UserID {
		n := len(p.ids)
		if rand.IntN(2) == 0 {
			n = min(n, 2*offeredPeople)
		}
		return p.ids[rand.IntN(n)]
	}
	points := func() ledger.Increment { return g.increment(somebody(), 1+rand.Int64N(9)) }
	every(ctx, giftInterval, func() {
		err := addOfPresent(ctx, a, giftsBoard, g.increment(somebody(), giftCoins[rand.IntN(len(giftCoins))]))
		if err == nil {
			err = addOfPresent(ctx, a, activeBoard, points(), points(), points())
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("a gift was lost", "error", err)
		}
	})
}

// addOfPresent makes those increments whose users exist.
func addOfPresent(ctx context.Context, a *app.App, board string, increments ...ledger.Increment) error {
	ids := make([]models.UserID, len(increments))
	for i, one := range increments {
		ids[i] = one.User
	}
	there, _, err := present(ctx, a, ids)
	if err != nil {
		return err
	}
	increments = slices.DeleteFunc(increments, func(one ledger.Increment) bool { return !slices.Contains(there, one.User) })
	if len(increments) == 0 {
		return nil
	}
	_, err = a.Ledger.Add(ctx, board, increments)
	return err
}

// refuseBody answers a request whose body could not be read.
func refuseBody(c *gin.Context, err error) {
	status := http.StatusBadRequest
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	c.AbortWithStatus(status)
}

// giveGift handles a visitor's gift. A demo has no wallets and needs no token.
func (s *simulation) giveGift(c *gin.Context) {
	var body struct {
		UserID models.UserID `json:"user_id"`
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxGift)
	if err := c.ShouldBindJSON(&body); err != nil {
		refuseBody(c, err)
		return
	}
	if _, known := s.people.positions[body.UserID]; !known {
		c.AbortWithStatus(http.StatusNotFound)
		return
	}
	coins := giftCoins[rand.IntN(len(giftCoins))]
	results, err := s.app.Ledger.Add(c, giftsBoard, []ledger.Increment{s.gifts.increment(body.UserID, coins)})
	if err != nil || results[0].Err != nil {
		c.AbortWithStatus(http.StatusServiceUnavailable)
		return
	}
	c.JSON(http.StatusOK, gin.H{"coins": coins, "score": results[0].Score})
}
