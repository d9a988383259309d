package demo

import (
	"context"
	"log/slog"
	"time"

	"stepboard/app"
	"stepboard/models"
	"stepboard/services/ingest"
)

const (
	// uploadInterval is how often some people's phones upload.
	uploadInterval = 500 * time.Millisecond
	// uploadShare is the share of the people whose phones upload each time.
	uploadShare = 1.0 / 20
)

// walk lets people walk until ctx ends, fast enough to be watched.
func (p *people) walk(ctx context.Context, a *app.App, clock models.Clock, log *slog.Logger) {
	board, err := a.Catalog.Definitions.Board(stepsBoard)
	if err != nil {
		log.Error("nobody walks", "error", err)
		return
	}
	ticker := time.NewTicker(uploadInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := clock()
		from, to := p.walkDay.advance(now, board.Today(now))
		var uploads []ingest.Upload
		for position, id := range p.ids {
			if p.rng.Float64() < uploadShare {
				steps := p.stepsBetween(position, from, to)
				uploads = append(uploads, ingest.Upload{User: id, Date: p.walkDay.day, Score: dailyScore(steps)})
			}
		}
		if err := uploadAll(ctx, a, uploads); err != nil && ctx.Err() == nil {
			log.Warn("a report of steps was lost", "error", err)
		}
	}
}
