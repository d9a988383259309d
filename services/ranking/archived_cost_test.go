package ranking_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/ranking"
)

// statements is a pgx tracer that counts what is asked.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "-- ping" { // of a connection that has been idle
		s.n.Add(1)
	}
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// counted is the test's part of the stores over connections that count.
func counted(t testing.TB) (*testenv.Env, *statements) {
	t.Helper()
	env := testenv.Real(t)
	count := &statements{}
	config := env.Pool.Config()
	config.ConnConfig.Tracer = count
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	g, err := gorm.Open(postgres.New(postgres.Config{Conn: db}), env.Gorm.Config)
	if err != nil {
		t.Fatal(err)
	}
	over := *env
	over.Stores = &stores.Stores{Redis: env.Redis, Gorm: g, SQL: db, Dialect: env.Dialect, Pool: pool}
	return &over, count
}

// What readers of old days cost: a month of history is one round trip to Redis
// for the days that are there, and one query; an archived ranking of friends
// is one for the friends and one query, however many there are.
func TestWhatArchivedDaysCost(t *testing.T) {
	t.Parallel()
	env, sql := counted(t)
	w := newFixture(t, env, 1)
	friends := make([]models.UserID, 3000)
	for i := range friends {
		friends[i] = models.UserID(10 + i)
	}
	w.befriend(1, friends...)
	w.befriend(2, 1)
	last := today
	for day := last - 30; day <= last; day++ {
		b := w.open(day)
		w.apply(w.update(b, 1, 500, 1), w.update(b, 10, 700, 1), w.update(b, 3009, 300, 1))
	}
	// 28 days are archived and three are hot: the clock shows the day after.
	env.Clock.Set(last.UTC().Add(28 * time.Hour))
	due, err := w.archive.Due(t.Context())
	if err != nil || len(due) != 28 {
		t.Fatalf("%d days are due, %v", len(due), err)
	}
	for _, b := range due {
		w.moves(w.archive, b)
	}
	redisTrips := &testenv.RoundTrips{}
	env.Redis.AddHook(redisTrips)
	cost := func(what string, trips, commands, queries int, read func() error) {
		t.Helper()
		redisTrips.Reset()
		sql.n.Store(0)
		if err := read(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if redisTrips.Trips() != trips || redisTrips.Commands() != commands || int(sql.n.Load()) != queries {
			t.Errorf("%s: %d round trips with %d commands, %d queries; want %d with %d, %d",
				what, redisTrips.Trips(), redisTrips.Commands(), sql.n.Load(), trips, commands, queries)
		}
	}

	history := func(viewer, of models.UserID, first, last models.Date, wantArchived, wantHot int) func() error {
		return func() error {
			h, err := w.ranking.History(t.Context(), ranking.HistoryQuery{Board: "steps", Viewer: viewer, Of: of, From: &first, To: &last})
			if err != nil {
				return err
			}
			sources := make(map[models.Source]int)
			for i, d := range h.Days {
				sources[d.Source]++
				if d.Date != last-models.Date(i) || d.Score != 500 || d.Rank != 2 || d.Total != 3 {
					return fmt.Errorf("%+v", d)
				}
			}
			if sources[models.SourceArchive] != wantArchived || sources[models.SourceHot] != wantHot || h.Partial {
				return fmt.Errorf("answered by %v, partial %v", sources, h.Partial)
			}
			return nil
		}
	}
	cost("31 days", 1, 3, 1, history(1, 1, last-30, last, 28, 3))
	cost("archived days", 0, 0, 1, history(1, 1, last-30, last-3, 28, 0))
	cost("hot days", 1, 3, 1, history(1, 1, last-2, last, 0, 3))
	if _, err := w.friends.IDs(t.Context(), 2); err != nil { // loads them
		t.Fatal(err)
	}
	cost("a friend's days", 2, 4, 1, history(2, 1, last-30, last, 28, 3))

	old := last - 10
	q := ranking.Query{Board: "steps", Date: &old, Viewer: 1, Limit: 50}
	read := func(call func(ranking.Query) (*models.Ranking, error)) func() error {
		return func() error {
			r, err := call(q)
			if err == nil && (r.Total != 3 || r.Me.Rank != 2 || r.Source != models.SourceArchive) {
				return fmt.Errorf("%+v", r)
			}
			return err
		}
	}
	friendsRanking := read(func(q ranking.Query) (*models.Ranking, error) { return w.ranking.Friends(t.Context(), q) })
	if err := friendsRanking(); err != nil { // loads friends and names
		t.Fatal(err)
	}
	cost("friends", 1, 1, 1, friendsRanking)
	cost("top", 0, 0, 3, read(func(q ranking.Query) (*models.Ranking, error) { return w.ranking.Top(t.Context(), q) }))
	cost("around", 0, 0, 2, read(func(q ranking.Query) (*models.Ranking, error) { return w.ranking.Around(t.Context(), q, 5) }))
	cost("me", 1, 1, 3, func() error {
		me, err := w.ranking.Me(t.Context(), q)
		if err == nil && (*me.GlobalRank != 2 || *me.FriendsRank != 2) {
			return fmt.Errorf("%+v", me)
		}
		return err
	})
	// Another replica asks once whether the day is archived.
	w.ranking = ranking.New(w.catalog, w.boards, w.mover(w.boards), w.friends, w.users, env.Clock.Now)
	cost("friends, the first time", 1, 1, 2, friendsRanking)
	cost("friends, then", 1, 1, 1, friendsRanking)
}
