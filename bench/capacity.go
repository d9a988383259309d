package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"stepboard/models"
)

// capacityUsers is the number of entries that the capacity is measured with.
const capacityUsers = 500_000

// capacityBench measures the memory of Redis for each user and day, by the length
// of the row ids and the number of shards.
func (e *environment) capacityBench(ctx context.Context) {
	fmt.Printf("\n| %d users on a day | shards | bytes of Redis each |\n| --- | ---: | ---: |\n", capacityUsers)
	for _, digits := range []int{7, 10, 16} {
		for _, shards := range []int{1, 16, 128} {
			fmt.Printf("| row ids of %d digits | %d | %.0f |\n", digits, shards, e.bytesPerUser(ctx, digits, shards))
		}
	}
	e.printRecords(ctx)
}

// recordUsers is the number of users whose records are stored in Redis.
const recordUsers = 200_000

// printRecords prints the memory and the space of a user's record: in Redis, where it is kept
// for a week after somebody has asked for it, and in Postgres.
func (e *environment) printRecords(ctx context.Context) {
	// These users are new, so that neither a process nor Redis has their records.
	first := models.RowID(firstUser + max(e.board, ledgerUsers))
	e.fillUsers(ctx, first, recordUsers)
	rows, ids := make([]models.RowID, recordUsers), make([]models.UserID, recordUsers)
	for i := range rows {
		rows[i] = first + models.RowID(i)
		ids[i] = userID(rows[i])
	}
	grown := e.memoryGrowth(ctx, func() {
		for from := 0; from < len(rows); from += 1000 {
			must(e.app.Directory.Records(ctx, rows[from:from+1000]))
			must(e.app.Directory.Find(ctx, ids[from:from+1000]...))
		}
	})
	var heap, indexes float64
	check(e.stores.Pool.QueryRow(ctx, `
		SELECT pg_relation_size('users')::float8 / n, pg_indexes_size('users')::float8 / n
		FROM (SELECT count(*) AS n FROM users) AS counted`).Scan(&heap, &indexes))
	last := ids[len(ids)-1]
	fmt.Printf("\n| a user's record: id of %d digits, nickname of %d characters, avatar of %d | bytes |\n| --- | ---: |\n",
		len(last), len(namePrefix+last), len(picturePrefix+last+pictureSuffix))
	fmt.Printf("| Redis, both keys | %.0f |\n", float64(grown)/float64(len(rows)))
	fmt.Printf("| Postgres, rows | %.0f |\n| Postgres, indexes | %.0f |\n", heap, indexes)
}

// bytesPerUser returns the bytes of Redis for one user of a day.
func (e *environment) bytesPerUser(ctx context.Context, digits, shards int) float64 {
	now := time.Now()
	bucket := &models.Bucket{
		Board: "capacity", Name: "20260101", StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), ClosesAt: now.Add(time.Hour),
		ColdAt: now.Add(24 * time.Hour), TickMS: 1, TimeBits: 28, MaxScore: 100_000, Order: models.OrderHigh, Shards: shards,
	}
	grown := e.memoryGrowth(ctx, func() {
		raise(ctx, e.app.Entries, bucket, models.RowID(math.Pow10(digits-1)), capacityUsers)
	})
	for shard := range shards {
		check(e.rdb.Del(ctx, e.keys.Board(bucket, shard)).Err())
	}
	return float64(grown) / capacityUsers
}
