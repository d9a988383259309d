package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/rankings/ranking"
)

const (
	// alternativeReaders is the number of concurrent reads.
	alternativeReaders = 32
	// raiseSize is the number of users that an update raises, and raiseWriters the
	// number of concurrent updates.
	raiseSize, raiseWriters = 1000, 4
)

// alternatives holds the same day in Redis and in Postgres, to compare several ways
// to compute the same rankings and ranks.
type alternatives struct {
	*environment
	bucket *models.Bucket
	codec  score.Codec
	store  *board.Store
	sql    *alternativesSQL
}

// alternativesBench measures the design of the service and its alternatives.
// docs/architecture.md has its figures.
func (e *environment) alternativesBench(ctx context.Context) (err error) {
	alt, err := e.newAlternatives(ctx)
	if err != nil {
		return err
	}
	defer alt.sql.pool.Close()
	if err := alt.checkResults(ctx); err != nil {
		return err
	}
	friends := []row{
		{name: "friend ranking: SMEMBERS + ZMSCORE, ranked in the process", measure: alt.each(alt.inProcess)},
		{name: "friend ranking: ZINTER of friends and board on Redis", measure: alt.each(alt.zinter)},
		{name: "friend ranking: ZINTERSTORE, then ZREVRANGE and ZREVRANK", measure: alt.each(alt.zinterstore)},
		{name: "friend ranking: SMEMBERS, then a ZSCORE for each friend", measure: alt.each(alt.zscoreLoop)},
		{name: "friend ranking: Postgres, friendships joined with the day's scores", measure: alt.each(alt.sql.friends), process: alt.sql.server},
	}
	global := []row{
		{name: "global rank: the board's own, by ZREVRANK", measure: alt.each(alt.globalRank)},
		{name: "global rank: Postgres, count(*) of the users ahead, by an index", measure: alt.each(alt.sql.ahead), process: alt.sql.server},
	}
	updates := []row{
		{name: "raise 1000 users: one variadic ZADD GT", measure: alt.raises(alt.zadd)},
		{name: "raise 1000 users: Postgres, one upsert, primary key alone", measure: alt.raises(alt.sql.upsert("scores_plain")), process: alt.sql.server},
		{name: "raise 1000 users: Postgres, one upsert, with the index of ranks", measure: alt.raises(alt.sql.upsert("scores_ranked")), process: alt.sql.server},
	}
	fmt.Println("| what | a second | ratio | Redis, µs of CPU each | Postgres | client |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: |")
	// Updates come last, so that reads find the tables as a vacuum leaves them.
	for _, rows := range [][]row{friends, global, updates} {
		for range e.rounds {
			for i := range rows {
				if err := rows[i].run(ctx, e); err != nil {
					return fmt.Errorf("%s: %w", rows[i].name, err)
				}
			}
		}
		for _, row := range rows {
			fmt.Printf("| %s | %.0f | %.3f | %.1f | %.1f | %.1f |\n", row.name, row.median(), row.median()/rows[0].median(), row.redis.each(), row.server.each(), row.client.each())
		}
	}
	return nil
}

// newAlternatives copies the day to Postgres, and the friend sets to keys that
// include the viewer.
func (e *environment) newAlternatives(ctx context.Context) (*alternatives, error) {
	c := catalog.New(catalog.NewStore(e.stores.Gorm), time.Now, e.config.HotDays, e.log())
	if err := c.Definitions.Refresh(ctx); err != nil {
		return nil, err
	}
	b, err := c.Definitions.Board("steps")
	if err != nil {
		return nil, err
	}
	bucket, err := c.Buckets.Current(b, time.Now(), models.UTCOffset{})
	if err != nil {
		return nil, err
	}
	alt := &alternatives{environment: e, bucket: bucket, codec: score.Of(bucket), store: board.NewStore(e.rdb, keys.Builder{Prefix: e.config.Redis.KeyPrefix}, time.Now)}
	for v := range e.viewers {
		// An intersection ranks the members of the set, so the viewer must be one.
		user := viewer(v).String()
		members, err := e.keys.friends(ctx, e.rdb, viewer(v))
		if err != nil {
			return nil, err
		}
		if err := e.rdb.SAdd(ctx, alt.circle(user), append(members, user)).Err(); err != nil {
			return nil, err
		}
	}
	alt.sql, err = e.newAlternativesSQL(ctx, bucket.Day, alt.day)
	return alt, err
}

// day calls each for all entries of the board, in ranking order.
func (alt *alternatives) day(ctx context.Context, each func(user models.RowID, score int64, reachedAt time.Time) error) error {
	const chunk = 10_000
	for from := int64(0); ; from += chunk {
		entries, err := alt.rdb.ZRevRangeWithScores(ctx, alt.keys.board, from, from+chunk-1).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			user, err := models.ParseRowID(e.Member.(string))
			if err != nil {
				return err
			}
			points, at := alt.codec.Decode(models.Composite(e.Score))
			if err := each(user, points, at.Time()); err != nil {
				return err
			}
		}
	}
}

// circle names the set of a user's friends and the user.
func (alt *alternatives) circle(user string) string {
	return alt.config.Redis.KeyPrefix + "circle:{" + user + "}"
}

// each returns a measurement that calls ask for one viewer after the other.
func (alt *alternatives) each(ask func(ctx context.Context, user models.RowID) (result, error)) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		return loop(ctx, alternativeReaders, alt.seconds, func(ctx context.Context, i int) error {
			_, err := ask(ctx, viewer(i%alt.viewers))
			return err
		})
	}
}

// result holds what all alternatives must agree on: the users of the first page, and
// the viewer's rank.
type result struct {
	page []string
	rank int64
}

// checkResults checks that all alternatives have the same results.
func (alt *alternatives) checkResults(ctx context.Context) error {
	groups := [][]func(context.Context, models.RowID) (result, error){
		{alt.inProcess, alt.zinter, alt.zinterstore, alt.zscoreLoop, alt.sql.friends},
		{alt.globalRank, alt.sql.ahead},
	}
	for v := range min(alt.viewers, 20) {
		for _, ways := range groups {
			var first result
			for i, ask := range ways {
				res, err := ask(ctx, viewer(v))
				if err != nil {
					return err
				}
				if i == 0 {
					first = res
				}
				if res.rank != first.rank || !slices.Equal(res.page, first.page) {
					return fmt.Errorf("alternative %d returns %v for %v, alternative 0 %v", i, res, viewer(v), first)
				}
			}
		}
	}
	return nil
}

// inProcess does what the service does.
func (alt *alternatives) inProcess(ctx context.Context, user models.RowID) (result, error) {
	members, err := alt.keys.friends(ctx, alt.rdb, user)
	if err != nil {
		return result{}, err
	}
	members = append(members, user.String())
	composites, err := alt.rdb.ZMScore(ctx, alt.keys.board, members...).Result()
	if err != nil {
		return result{}, err
	}
	return alt.ranked(user, members, composites)
}

// zscoreLoop makes one round trip for each friend.
func (alt *alternatives) zscoreLoop(ctx context.Context, user models.RowID) (result, error) {
	members, err := alt.keys.friends(ctx, alt.rdb, user)
	if err != nil {
		return result{}, err
	}
	members = append(members, user.String())
	composites := make([]float64, len(members))
	for i, member := range members {
		composites[i], err = alt.rdb.ZScore(ctx, alt.keys.board, member).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return result{}, err
		}
	}
	return alt.ranked(user, members, composites)
}

func (alt *alternatives) ranked(user models.RowID, members []string, composites []float64) (result, error) {
	entries := make([]models.Entry, len(members))
	for i, member := range members {
		id, err := models.ParseRowID(member)
		if err != nil {
			return result{}, err
		}
		entries[i] = models.Entry{User: id, Composite: models.Composite(composites[i])}
	}
	page := ranking.Rank(entries, user, models.Entry{}, alt.limit)
	res := result{rank: int64(page.MyRank)}
	for _, e := range page.Entries {
		res.page = append(res.page, e.User.String())
	}
	return res, nil
}

// zinter lets Redis intersect and sort. It returns all entries, the last first.
func (alt *alternatives) zinter(ctx context.Context, user models.RowID) (result, error) {
	all, err := alt.rdb.ZInterWithScores(ctx, alt.intersection(user)).Result()
	if err != nil {
		return result{}, err
	}
	var res result
	slices.Reverse(all)
	for i, e := range all {
		member := e.Member.(string)
		if i < alt.limit {
			res.page = append(res.page, member)
		}
		if member == user.String() {
			res.rank = int64(i + 1)
		}
	}
	return res, nil
}

// intersection returns the arguments of an intersection of circle and board, which
// keeps the composites of the board.
func (alt *alternatives) intersection(user models.RowID) *redis.ZStore {
	return &redis.ZStore{Keys: []string{alt.circle(user.String()), alt.keys.board}, Weights: []float64{0, 1}}
}

// zinterstore lets Redis store the intersection and return a page of it, in one
// round trip.
func (alt *alternatives) zinterstore(ctx context.Context, user models.RowID) (result, error) {
	to := alt.circle(user.String()) + ":ranked"
	pipe := alt.rdb.TxPipeline()
	pipe.ZInterStore(ctx, to, alt.intersection(user))
	page := pipe.ZRevRangeWithScores(ctx, to, 0, int64(alt.limit-1))
	rank := pipe.ZRevRank(ctx, to, user.String())
	pipe.ZCard(ctx, to)
	pipe.Del(ctx, to)
	if _, err := pipe.Exec(ctx); err != nil {
		return result{}, err
	}
	res := result{rank: rank.Val() + 1}
	for _, e := range page.Val() {
		res.page = append(res.page, e.Member.(string))
	}
	return res, nil
}

// globalRank reads the rank as the service does.
func (alt *alternatives) globalRank(ctx context.Context, user models.RowID) (result, error) {
	s, err := alt.store.Positions(ctx, []*models.Bucket{alt.bucket}, user)
	if err != nil {
		return result{}, err
	}
	return result{rank: s[0].Rank}, nil
}

// raiseBatch raises users to a score higher than any before.
type raiseBatch struct {
	users  []int64
	points int64
	at     time.Time
}

// raises returns a measurement that raises consecutive users, batch by batch, and
// returns the number of users a second.
func (alt *alternatives) raises(raise func(context.Context, raiseBatch) error) func(context.Context) (float64, error) {
	began := time.Now()
	batches := max(1, alt.board/raiseSize)
	return func(ctx context.Context) (float64, error) {
		calls, err := loop(ctx, raiseWriters, alt.seconds, func(ctx context.Context, i int) error {
			at := time.Now()
			b := raiseBatch{users: make([]int64, raiseSize), points: 30_000 + at.Sub(began).Milliseconds(), at: at.Truncate(time.Millisecond)}
			for n := range b.users {
				b.users[n] = int64(firstUser + (i%batches)*raiseSize + n)
			}
			return raise(ctx, b)
		})
		return calls * raiseSize, err
	}
}

// zadd raises users on a copy of the board.
func (alt *alternatives) zadd(ctx context.Context, b raiseBatch) error {
	args := make([]any, 0, 3+2*len(b.users))
	args = append(args, "zadd", uploadKey, "gt")
	composite, err := alt.codec.Encode(b.points, models.TimestampOf(b.at))
	if err != nil {
		return err
	}
	for _, user := range b.users {
		args = append(args, int64(composite), strconv.FormatInt(user, 10))
	}
	return alt.rdb.Do(ctx, args...).Err()
}
