package app

import (
	"context"
	"errors"
	"time"

	"stepboard/models"
	"stepboard/services/catalog"
	"stepboard/services/score"
)

const (
	// demoDays is how many days lie behind a demo's people, today included: as
	// many as a history shows.
	demoDays = 31
	// demoRemembered is how many people of a large demo have more days behind
	// them than those that still take uploads. The first ones, and among them
	// those whom the page offers to be.
	demoRemembered = 2000
)

// remember stores the people's days that take no more uploads: where they are
// read, in the archive or still in Redis.
func (p *people) remember(ctx context.Context, a *App, board *catalog.Board, now time.Time, line progress) error {
	defer line.clear()
	today := board.Today(now)
	for ago := demoOpenDays; ago < demoDays; ago++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line.show("remembering: day %d of %d", ago, demoDays)
		bucket, err := a.Catalog.Buckets.ForImport(ctx, board, today-models.Date(ago), now)
		if err != nil {
			return err
		}
		raises, err := p.day(bucket)
		if err != nil {
			return err
		}
		if errs := a.Boards.Raise(ctx, raises); errs != nil {
			return errors.Join(errs...)
		}
		if !bucket.Cold(now) {
			continue
		}
		_, err = a.Archive.Archive(ctx, bucket, func(int64) {})
		// In the first hour after it has turned cold the archive leaves it alone.
		if err != nil && models.CodeOf(err) != models.CodeBucketHot {
			return err
		}
	}
	return nil
}

// day is what the people had walked on a past day, by its evening.
func (p *people) day(bucket *models.Bucket) ([]models.Raise, error) {
	codec := score.Of(bucket)
	n := min(len(p.ids), demoRemembered)
	raises := make([]models.Raise, 0, n)
	for at, id := range p.ids[:n] {
		// Some days are lazy ones, and on some the phone stayed at home.
		mood := 0.45 + 1.1*p.rng.Float64()
		reachedAt := bucket.EndsAt.Add(-time.Duration(p.rng.Int64N(int64(4 * time.Hour))))
		if p.rng.Float64() < 0.03 {
			continue
		}
		composite, err := codec.Encode(tired(p.walked(at, 24)*mood), codec.Cut(models.TimestampOf(reachedAt)))
		if err != nil {
			return nil, err
		}
		raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: id, Composite: composite}})
	}
	return raises, nil
}
