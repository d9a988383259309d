package demo

import (
	"context"
	"errors"
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
		p.walkDay.advance(now, board.Today(now))
		for i, zone := range homeZones {
			p.homeDays[i].advance(now, zone.today(now))
		}
		var uploads, local []ingest.Upload
		for position, id := range p.ids {
			if p.rng.Float64() < uploadShare {
				uploads = append(uploads, p.totalOf(position, id, &p.walkDay))
				local = append(local, p.totalOf(position, id, p.homeDay(position)))
			}
		}
		err := errors.Join(uploadAll(ctx, a, stepsBoard, uploads), uploadAll(ctx, a, localBoard, local))
		if err != nil && ctx.Err() == nil {
			log.Warn("a report of steps was lost", "error", err)
		}
	}
}

// totalOf returns the upload of a person's steps so far on a day.
func (p *people) totalOf(position int, id models.UserID, day *walkDay) ingest.Upload {
	return ingest.Upload{User: id, Date: day.day, Score: dailyScore(p.stepsBetween(position, day.began, day.now))}
}
