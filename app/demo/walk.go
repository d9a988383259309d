package demo

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"stepboard/app"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/ingest"
)

const (
	// uploadInterval is how often some people's phones upload.
	uploadInterval = 500 * time.Millisecond
	// uploadShare is the share of the people whose phones upload each time.
	uploadShare = 1.0 / 20
)

// every calls do at an interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	for pause.For(ctx, interval) == nil {
		do()
	}
}

// walk lets people walk until ctx ends, fast enough to be watched.
func (p *people) walk(ctx context.Context, a *app.App, clock models.Clock, log *slog.Logger) {
	every(ctx, uploadInterval, func() {
		now := clock()
		p.walkDay.advance(now, p.board.Today(now))
		for i, zone := range homeZones {
			p.homeDays[i].advance(now, zone.today(now))
		}
		if err := p.uploadSome(ctx, a); err != nil && ctx.Err() == nil {
			log.Warn("a report of steps was lost", "error", err)
		}
	})
}

// uploadSome uploads the steps so far of some people.
func (p *people) uploadSome(ctx context.Context, a *app.App) error {
	var some []models.UserID
	for _, id := range p.ids {
		if p.rng.Float64() < uploadShare {
			some = append(some, id)
		}
	}
	some, _, err := present(ctx, a, some)
	if err != nil {
		return err
	}
	var uploads, local []ingest.Upload
	for _, id := range some {
		position := p.positions[id]
		uploads = append(uploads, p.totalOf(position, id, &p.walkDay))
		local = append(local, p.totalOf(position, id, p.homeDay(position)))
	}
	return errors.Join(uploadAll(ctx, a, stepsBoard, uploads), uploadAll(ctx, a, localBoard, local))
}

// present returns those users who exist, with their rows. A visitor may have erased one, who
// would come into being again with the next upload.
func present(ctx context.Context, a *app.App, ids []models.UserID) (there []models.UserID, rows []models.RowID, err error) {
	found, err := a.Directory.Find(ctx, ids...)
	if err != nil {
		return nil, nil, err
	}
	for i, row := range found {
		if row != 0 {
			there, rows = append(there, ids[i]), append(rows, row)
		}
	}
	return there, rows, nil
}

// totalOf returns the upload of a person's steps so far on a day.
func (p *people) totalOf(position int, id models.UserID, day *walkDay) ingest.Upload {
	return ingest.Upload{User: id, Date: day.day, Score: dailyScore(p.stepsBetween(position, day.began, day.now))}
}
