package main

import (
	"context"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
	"stepboard/services/people/cache"
	"stepboard/services/people/friends"
)

// firstUser is the row id of the first user. Row ids are dense, and the user id of each
// is its decimal text.
const firstUser = 1

func viewer(v int) models.RowID { return models.RowID(firstUser + v) }

// userID returns the user id of a row.
func userID(row models.RowID) models.UserID { return models.UserID(row.String()) }

// The profile of a user is made of these texts and the user id.
const (
	namePrefix    = "user "
	picturePrefix = "https://example.com/avatars/"
	pictureSuffix = ".jpg"
)

// fillUsers creates users with names and pictures, as if they had never changed these.
func (e *environment) fillUsers(ctx context.Context, first models.RowID, users int) {
	check(e.stores.Gorm.WithContext(ctx).Exec(`
		WITH RECURSIVE numbers (i) AS (SELECT CAST(? AS bigint) UNION ALL SELECT i + 1 FROM numbers WHERE i < ?)
		INSERT INTO users (user_id, external_id, nickname, avatar_url, created_at)
		SELECT i, CAST(i AS text), CAST(? AS text) || i, CAST(? AS text) || i || CAST(? AS text), ? FROM numbers`,
		first, first+models.RowID(users)-1, namePrefix, picturePrefix, pictureSuffix, time.Now().AddDate(0, 0, -1)).Error)
	if e.stores.Folder == nil {
		must(e.stores.Pool.Exec(ctx, "SELECT setval(pg_get_serial_sequence('users', 'user_id'), max(user_id)) FROM users"))
	}
	e.vacuum(ctx, "users")
}

// vacuum does what autovacuum might otherwise do during a measurement.
func (e *environment) vacuum(ctx context.Context, table string) {
	if e.stores.Folder != nil {
		check(e.stores.Analyze(ctx, table))
		return
	}
	must(e.stores.Pool.Exec(ctx, "VACUUM ANALYZE "+table))
}

// fill creates the users, the board and the friendships of the viewers.
func (e *environment) fill(ctx context.Context) {
	e.fillUsers(ctx, firstUser, max(e.board, ledgerUsers))
	e.boardBytes = e.memoryGrowth(ctx, func() {
		e.keys.board = e.keys.Board(e.fillBoard(ctx, "steps", 0), 0)
	})
	e.befriend(ctx, 0, e.viewers)
	e.friendBytes = e.memoryGrowth(ctx, func() {
		for v := range e.viewers {
			must(e.app.Friends.IDs(ctx, viewer(v)))
		}
	})
}

// fillBoard gives the users a score on a day of a board, as their uploads would have, and returns
// its bucket. The day is a number of days ago.
func (e *environment) fillBoard(ctx context.Context, name string, ago int) *models.Bucket {
	bucket := e.bucket(ctx, name, ago)
	raise(ctx, e.app.Entries.EntriesAt(bucket.StartsAt), bucket, firstUser, e.board)
	return bucket
}

// bucket creates the bucket of a day, if there is none.
func (e *environment) bucket(ctx context.Context, name string, ago int) *models.Bucket {
	b, now := must(e.app.Catalog.Definitions.Board(name)), time.Now()
	return must(e.app.Catalog.Buckets.ForImport(ctx, b, b.Today(now)-models.Date(ago), now))
}

// raise gives a number of users, from the first one on, random scores of a bucket.
func raise(ctx context.Context, boards board.Entries, bucket *models.Bucket, first models.RowID, users int) {
	rng := mathrand.New(mathrand.NewPCG(1, uint64(bucket.StartsAt.Unix())))
	codec, begun := score.Of(bucket), min(time.Since(bucket.StartsAt), bucket.EndsAt.Sub(bucket.StartsAt))
	const batch = 10_000
	for from := 0; from < users; from += batch {
		raises := make([]models.Raise, min(batch, users-from))
		for i := range raises {
			reachedAt := bucket.StartsAt.Add(time.Duration(rng.Int64N(int64(begun))))
			composite := must(codec.Encode(bucket.Points(int64(rng.IntN(30_000))), models.TimestampOf(reachedAt)))
			raises[i] = models.Raise{Bucket: bucket, Entry: models.Entry{User: first + models.RowID(from+i), Composite: composite}}
		}
		check(errors.Join(boards.Raise(ctx, raises)...))
	}
}

// befriend gives a number of viewers, from the first one on, friends in Postgres.
func (e *environment) befriend(ctx context.Context, first, viewers int) {
	const batch = 250
	for from := first; from < first+viewers; from += batch {
		var edges []friends.Edge
		for v := from; v < min(from+batch, first+viewers); v++ {
			for _, friend := range e.randomFriends(viewer(v)) {
				edges = append(edges, friends.Edge{A: userID(viewer(v)), B: userID(friend)})
			}
		}
		_, _, err := e.app.Friends.Import(ctx, must(e.app.Friends.Resolve(ctx, edges)))
		check(err)
	}
	e.vacuum(ctx, "friendships")
}

// randomFriends returns friends of a user, the same ones in every call. None is one of the first
// viewers, so that each of these has exactly e.friends friends.
func (e *environment) randomFriends(user models.RowID) []models.RowID {
	rng := mathrand.New(mathrand.NewPCG(15, uint64(user)))
	var list []models.RowID
	for len(list) < e.friends {
		id := viewer(e.viewers + rng.IntN(e.board-e.viewers))
		if id != user && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// storeFriendSets gives the first users friends in Redis only, where rankings read them.
func (e *environment) storeFriendSets(ctx context.Context, viewers int) {
	load := func(_ context.Context, users []models.RowID) (map[models.RowID][]models.RowID, error) {
		loaded := make(map[models.RowID][]models.RowID)
		for _, user := range users {
			loaded[user] = e.randomFriends(user)
		}
		return loaded, nil
	}
	sets := cache.New(e.app.Sets, keys.Friends, load, slog.New(slog.DiscardHandler))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rankingCallers)
	for v := range viewers {
		g.Go(func() error {
			_, err := sets.Members(ctx, viewer(v))
			return err
		})
	}
	check(g.Wait())
}

// dropFriendSets removes the friend sets of viewers from Redis.
func (e *environment) dropFriendSets(ctx context.Context, first, viewers int) {
	pipe := e.rdb.Pipeline()
	for v := range viewers {
		pipe.Unlink(ctx, e.keys.set(viewer(first+v)))
	}
	must(pipe.Exec(ctx))
}
