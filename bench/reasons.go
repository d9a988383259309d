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
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/ranking"
	"stepboard/services/score"
)

const (
	// reasonReaders is how many rankings or ranks are asked for at a time.
	reasonReaders = 32
	// reasonBatch is how many users an update raises, and reasonWriters how
	// many updates are made at a time.
	reasonBatch, reasonWriters = 1000, 4
)

// reasons is the same day in Redis and in Postgres, to be asked the same
// questions in several ways.
type reasons struct {
	*setup
	bucket *models.Bucket
	codec  score.Codec
	store  *board.Store
	sql    *reasonsSQL
}

// reasonsBench measures the ways that were not taken beside those that were:
// docs/design.md argues with its figures.
func (w *setup) reasonsBench(ctx context.Context) (err error) {
	r, err := w.newReasons(ctx)
	if err != nil {
		return err
	}
	defer r.sql.pool.Close()
	if err := r.sameAnswers(ctx); err != nil {
		return err
	}
	friends := []row{
		{name: "friend ranking: SMEMBERS + ZMSCORE, ranked in the process", measure: r.each(r.inProcess)},
		{name: "friend ranking: ZINTER of friends and board on Redis", measure: r.each(r.inter)},
		{name: "friend ranking: ZINTERSTORE, then ZREVRANGE and ZREVRANK", measure: r.each(r.interStore)},
		{name: "friend ranking: SMEMBERS, then a ZSCORE for each friend", measure: r.each(r.oneByOne)},
		{name: "friend ranking: Postgres, friendships joined with the day's scores", measure: r.each(r.sql.friends), process: r.sql.server},
	}
	global := []row{
		{name: "rank among everybody: the board's own, by ZREVRANK", measure: r.each(r.standing)},
		{name: "rank among everybody: Postgres, count(*) of those ahead, by an index", measure: r.each(r.sql.ahead), process: r.sql.server},
	}
	updates := []row{
		{name: "raise 1000 users: one variadic ZADD GT", measure: r.raises(r.zadd)},
		{name: "raise 1000 users: Postgres, one upsert, primary key alone", measure: r.raises(r.sql.upsert("reason_plain")), process: r.sql.server},
		{name: "raise 1000 users: Postgres, one upsert, with the index of ranks", measure: r.raises(r.sql.upsert("reason_scores")), process: r.sql.server},
	}
	fmt.Println("| what | a second | ratio | Redis, µs of CPU each | Postgres | client |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: |")
	// Updates come last, so that who reads finds tables as a vacuum leaves them.
	for _, rows := range [][]row{friends, global, updates} {
		for range w.rounds {
			for i := range rows {
				if err := rows[i].run(ctx, w); err != nil {
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

// newReasons copies the day and the friend sets to where they are asked.
func (w *setup) newReasons(ctx context.Context) (*reasons, error) {
	c := catalog.New(catalog.NewStore(w.stores.Gorm), time.Now, w.config.HotDays, w.log())
	if err := c.Definitions.Refresh(ctx); err != nil {
		return nil, err
	}
	b, err := c.Definitions.Board("steps")
	if err != nil {
		return nil, err
	}
	bucket := c.Buckets.Current(b, time.Now())
	r := &reasons{setup: w, bucket: bucket, codec: score.Of(bucket), store: board.NewStore(w.rdb, keys.Builder{Prefix: w.config.Redis.KeyPrefix}, time.Now)}
	for v := range w.viewers {
		// An intersection ranks who is in the set, and so the viewer must be.
		user := viewer(v).String()
		pipe := w.rdb.Pipeline()
		pipe.SUnionStore(ctx, r.circle(user), w.keys.friends(user))
		pipe.SAdd(ctx, r.circle(user), user)
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, err
		}
	}
	r.sql, err = w.newReasonsSQL(ctx, bucket.Day, r.day)
	return r, err
}

// day gives all entries of the board, in its order.
func (r *reasons) day(ctx context.Context, each func(user models.UserID, score int64, reachedAt time.Time) error) error {
	const chunk = 10_000
	for from := int64(0); ; from += chunk {
		entries, err := r.rdb.ZRevRangeWithScores(ctx, r.keys.board, from, from+chunk-1).Result()
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			user, err := models.ParseUserID(e.Member.(string))
			if err != nil {
				return err
			}
			points, at := r.codec.Decode(models.Composite(e.Score))
			if err := each(user, points, at.Time()); err != nil {
				return err
			}
		}
	}
}

// circle is the set of a user's friends and the user.
func (r *reasons) circle(user string) string {
	return r.config.Redis.KeyPrefix + "circle:{" + user + "}"
}

// each asks one question for one viewer after the other.
func (r *reasons) each(ask func(ctx context.Context, user models.UserID) (answer, error)) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		return loop(ctx, reasonReaders, r.seconds, func(ctx context.Context, i int) error {
			_, err := ask(ctx, viewer(i%r.viewers))
			return err
		})
	}
}

// answer is what all ways must agree on: who is on the first page, and the own
// rank.
type answer struct {
	page []string
	rank int64
}

// sameAnswers makes sure that the ways differ in cost alone.
func (r *reasons) sameAnswers(ctx context.Context) error {
	questions := [][]func(context.Context, models.UserID) (answer, error){
		{r.inProcess, r.inter, r.interStore, r.oneByOne, r.sql.friends},
		{r.standing, r.sql.ahead},
	}
	for v := range min(r.viewers, 20) {
		for _, ways := range questions {
			var first answer
			for i, ask := range ways {
				a, err := ask(ctx, viewer(v))
				if err != nil {
					return err
				}
				if i == 0 {
					first = a
				}
				if a.rank != first.rank || !slices.Equal(a.page, first.page) {
					return fmt.Errorf("way %d answers %v %v, way 0 %v", i, viewer(v), a, first)
				}
			}
		}
	}
	return nil
}

// inProcess is what the service does.
func (r *reasons) inProcess(ctx context.Context, user models.UserID) (answer, error) {
	members, err := r.rdb.SMembers(ctx, r.keys.friends(user.String())).Result()
	if err != nil {
		return answer{}, err
	}
	members = append(members, user.String())
	composites, err := r.rdb.ZMScore(ctx, r.keys.board, members...).Result()
	if err != nil {
		return answer{}, err
	}
	return r.ranked(user, members, composites)
}

// oneByOne is a loop of round trips.
func (r *reasons) oneByOne(ctx context.Context, user models.UserID) (answer, error) {
	members, err := r.rdb.SMembers(ctx, r.keys.friends(user.String())).Result()
	if err != nil {
		return answer{}, err
	}
	members = append(members, user.String())
	composites := make([]float64, len(members))
	for i, member := range members {
		composites[i], err = r.rdb.ZScore(ctx, r.keys.board, member).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return answer{}, err
		}
	}
	return r.ranked(user, members, composites)
}

func (r *reasons) ranked(user models.UserID, members []string, composites []float64) (answer, error) {
	entries := make([]models.Entry, len(members))
	for i, member := range members {
		id, err := models.ParseUserID(member)
		if err != nil {
			return answer{}, err
		}
		entries[i] = models.Entry{User: id, Composite: models.Composite(composites[i])}
	}
	page := ranking.Rank(entries, user, models.Entry{}, r.limit)
	a := answer{rank: int64(page.MyRank)}
	for _, e := range page.Entries {
		a.page = append(a.page, e.User.String())
	}
	return a, nil
}

// inter lets Redis intersect and order; the answer holds everybody, the last
// first.
func (r *reasons) inter(ctx context.Context, user models.UserID) (answer, error) {
	all, err := r.rdb.ZInterWithScores(ctx, r.intersection(user)).Result()
	if err != nil {
		return answer{}, err
	}
	var a answer
	slices.Reverse(all)
	for i, e := range all {
		member := e.Member.(string)
		if i < r.limit {
			a.page = append(a.page, member)
		}
		if member == user.String() {
			a.rank = int64(i + 1)
		}
	}
	return a, nil
}

// intersection takes the composites as they are in the board.
func (r *reasons) intersection(user models.UserID) *redis.ZStore {
	return &redis.ZStore{Keys: []string{r.circle(user.String()), r.keys.board}, Weights: []float64{0, 1}}
}

// interStore lets Redis keep the intersection and cut out a page, in one round
// trip.
func (r *reasons) interStore(ctx context.Context, user models.UserID) (answer, error) {
	to := r.circle(user.String()) + ":ranked"
	pipe := r.rdb.TxPipeline()
	pipe.ZInterStore(ctx, to, r.intersection(user))
	page := pipe.ZRevRangeWithScores(ctx, to, 0, int64(r.limit-1))
	rank := pipe.ZRevRank(ctx, to, user.String())
	pipe.ZCard(ctx, to)
	pipe.Del(ctx, to)
	if _, err := pipe.Exec(ctx); err != nil {
		return answer{}, err
	}
	a := answer{rank: rank.Val() + 1}
	for _, e := range page.Val() {
		a.page = append(a.page, e.Member.(string))
	}
	return a, nil
}

// standing is the service's own.
func (r *reasons) standing(ctx context.Context, user models.UserID) (answer, error) {
	s, err := r.store.Positions(ctx, []*models.Bucket{r.bucket}, user)
	if err != nil {
		return answer{}, err
	}
	return answer{rank: s[0].Rank}, nil
}

// raiseBatch raises some users to a score that nobody had.
type raiseBatch struct {
	users  []int64
	points int64
	at     time.Time
}

// raises raises users who follow each other, batch by batch, and tells how many
// users a second.
func (r *reasons) raises(raise func(context.Context, raiseBatch) error) func(context.Context) (float64, error) {
	began := time.Now()
	batches := max(1, r.board/reasonBatch)
	return func(ctx context.Context) (float64, error) {
		calls, err := loop(ctx, reasonWriters, r.seconds, func(ctx context.Context, i int) error {
			at := time.Now()
			b := raiseBatch{users: make([]int64, reasonBatch), points: 30_000 + at.Sub(began).Milliseconds(), at: at.Truncate(time.Millisecond)}
			for n := range b.users {
				b.users[n] = int64(firstUser + (i%batches)*reasonBatch + n)
			}
			return raise(ctx, b)
		})
		return calls * reasonBatch, err
	}
}

// zadd raises a copy of the board.
func (r *reasons) zadd(ctx context.Context, b raiseBatch) error {
	args := make([]any, 0, 3+2*len(b.users))
	args = append(args, "zadd", uploadKey, "gt")
	composite, err := r.codec.Encode(b.points, models.TimestampOf(b.at))
	if err != nil {
		return err
	}
	for _, user := range b.users {
		args = append(args, int64(composite), strconv.FormatInt(user, 10))
	}
	return r.rdb.Do(ctx, args...).Err()
}
