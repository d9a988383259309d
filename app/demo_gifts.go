package app

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"stepboard/config"
	"stepboard/models"
	"stepboard/services/ledger"
)

const (
	// demoGifts is the board of an event at which people give gifts: whoever
	// gives the most coins leads.
	demoGifts = "gifts"
	// demoActive is the rolling board: points of the last 24 hours.
	demoActive = "active-24h"
	// demoEventBegan and demoEventLasts place the event around now.
	demoEventBegan = 2 * 24 * time.Hour
	demoEventLasts = 9*24*time.Hour + 4*time.Hour
	// demoGiftTick is how often somebody gives a gift and others are active.
	demoGiftTick = 2 * time.Second
)

// giftCoins are the gifts that there are, small ones more often.
var giftCoins = []int64{1, 1, 1, 5, 5, 10, 10, 20, 66, 188}

// demoBoards are the boards of a demo beside the daily one.
func demoBoards(now time.Time) []config.Board {
	event, rolling := config.Default().Boards[0], config.Default().Boards[0]
	event.Name, event.Kind, event.MaxScore = demoGifts, string(models.KindEvent), 1_000_000
	event.Start = now.Add(-demoEventBegan).Truncate(time.Hour)
	event.End = event.Start.Add(demoEventLasts)
	rolling.Name, rolling.Kind, rolling.MaxScore = demoActive, string(models.KindRolling), 1_000_000
	return []config.Board{event, rolling}
}

// gifts counts what is given in a demo. Safe for concurrent use.
type gifts struct {
	given atomic.Int64
}

// increment is an addition to a score, which counts once.
func (g *gifts) increment(user models.UserID, delta int64) ledger.Increment {
	return ledger.Increment{User: user, Delta: delta, EventID: "demo-" + strconv.FormatInt(g.given.Add(1), 10)}
}

// begin gives what was given before the demo began.
func (g *gifts) begin(ctx context.Context, a *App, p *people) error {
	for _, board := range []string{demoGifts, demoActive} {
		var items []ledger.Increment
		for _, id := range p.ids[:min(len(p.ids), demoRemembered)] {
			if p.rng.Float64() < 0.4 {
				items = append(items, g.increment(id, 1+int64(300*p.rng.ExpFloat64())))
			}
		}
		for chunk := range slices.Chunk(items, 500) {
			if _, err := a.Ledger.Add(ctx, board, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// run lets people give gifts and be active now and then, until ctx ends. Half
// of them are of the first, whom the page offers to be, or their friends.
func (g *gifts) run(ctx context.Context, a *App, p *people, log *slog.Logger) {
	ticker := time.NewTicker(demoGiftTick)
	defer ticker.Stop()
	somebody := func() models.UserID {
		n := len(p.ids)
		if rand.IntN(2) == 0 {
			n = min(n, 2*demoChoices)
		}
		return p.ids[rand.IntN(n)]
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_, err := a.Ledger.Add(ctx, demoGifts, []ledger.Increment{g.increment(somebody(), giftCoins[rand.IntN(len(giftCoins))])})
		if err == nil {
			_, err = a.Ledger.Add(ctx, demoActive, []ledger.Increment{
				g.increment(somebody(), 1+rand.Int64N(9)), g.increment(somebody(), 1+rand.Int64N(9)), g.increment(somebody(), 1+rand.Int64N(9)),
			})
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("a gift was lost", "error", err)
		}
	}
}

// giveGift lets a visitor give one: a demo has no wallets and asks for no
// token.
func (w *demo) giveGift(c *gin.Context) {
	var body struct {
		UserID models.UserID `json:"user_id"`
	}
	if err := c.ShouldBindJSON(&body); err != nil {
		c.AbortWithStatus(http.StatusBadRequest)
		return
	}
	if _, known := slices.BinarySearch(w.people.ids, body.UserID); !known {
		c.AbortWithStatus(http.StatusNotFound)
		return
	}
	coins := giftCoins[rand.IntN(len(giftCoins))]
	results, err := w.app.Ledger.Add(c, demoGifts, []ledger.Increment{w.gifts.increment(body.UserID, coins)})
	if err != nil || results[0].Err != nil {
		c.AbortWithStatus(http.StatusServiceUnavailable)
		return
	}
	c.JSON(http.StatusOK, gin.H{"coins": coins, "score": results[0].Score})
}
