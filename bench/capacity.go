package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"time"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/board"
	"stepboard/services/score"
)

// capacityUsers is the number of entries that the capacity is measured with.
const capacityUsers = 500_000

// capacityBench measures the memory of Redis for each user and day, by the length
// of the row ids and the number of shards.
func (e *environment) capacityBench(ctx context.Context) error {
	fmt.Printf("\n| %d users on a day | shards | bytes of Redis each |\n| --- | ---: | ---: |\n", capacityUsers)
	for _, digits := range []int{7, 10, 16} {
		for _, shards := range []int{1, 16, 128} {
			n, err := e.bytesPerUser(ctx, digits, shards)
			if err != nil {
				return err
			}
			fmt.Printf("| row ids of %d digits | %d | %.0f |\n", digits, shards, n)
		}
	}
	return nil
}

// bytesPerUser returns the bytes of Redis for one user of a day.
func (e *environment) bytesPerUser(ctx context.Context, digits, shards int) (float64, error) {
	now := time.Now()
	bucket := &models.Bucket{
		Board: "capacity", Name: "20260101", StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), ClosesAt: now.Add(time.Hour),
		ColdAt: now.Add(24 * time.Hour), TickMS: 1, TimeBits: 28, MaxScore: 100_000, Shards: shards,
	}
	keys := keys.Builder{Prefix: e.config.Redis.KeyPrefix}
	store := board.NewStore(e.rdb, keys, time.Now)
	rng := mathrand.New(mathrand.NewPCG(5, 6))
	first := int64(math.Pow10(digits - 1))
	grown, err := e.memoryGrowth(ctx, func() error {
		for from := 0; from < capacityUsers; from += 10_000 {
			raises := make([]models.Raise, 10_000)
			for i := range raises {
				composite, err := score.Of(bucket).Encode(int64(rng.IntN(30_000)), models.TimestampOf(now))
				if err != nil {
					return err
				}
				raises[i] = models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(first + int64(from+i)), Composite: composite}}
			}
			if errs := store.Raise(ctx, raises); errs != nil {
				return errors.Join(errs...)
			}
		}
		return nil
	})
	for shard := range shards {
		err = errors.Join(err, e.rdb.Del(ctx, keys.Board(bucket, shard)).Err())
	}
	return float64(grown) / capacityUsers, err
}
