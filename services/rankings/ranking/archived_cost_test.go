package ranking_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
	"stepboard/services/rankings/ranking"
)

// queryCounter is a pgx tracer that counts queries.
type queryCounter struct{ n atomic.Int64 }

func (c *queryCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !slices.ContainsFunc(background, func(text string) bool { return strings.Contains(data.SQL, text) }) {
		c.n.Add(1)
	}
	return ctx
}

// background are parts of the queries that no read makes: the probe of a connection that
// has been idle, and those by which the directory follows changes once a second.
var background = []string{"-- ping", "SELECT now()", "changed_at >=", "pg_sequence_last_value", "row_id_gaps", "erasures", "renames"}

func (c *queryCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countedEnv returns a test environment and the counter of its queries.
func countedEnv(t testing.TB) (*testenv.Env, *queryCounter) {
	t.Helper()
	env := testenv.Real(t)
	counter := &queryCounter{}
	config := env.Pool.Config()
	config.ConnConfig.Tracer = counter
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
	counted := *env
	counted.Stores = &stores.Stores{Redis: env.Redis, Dialect: env.Dialect, Database: stores.Database{Gorm: g, SQL: db, Pool: pool}}
	return &counted, counter
}

// costs counts what reads cost in round trips, commands and queries.
type costs struct {
	*fixture

	redis   *testenv.RoundTrips
	queries *queryCounter
}

// check checks the cost of one read.
func (c *costs) check(what string, trips, commands, queries int, read func() error) {
	c.t.Helper()
	c.redis.Reset()
	c.queries.n.Store(0)
	if err := read(); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	if c.redis.Trips() != trips || c.redis.Commands() != commands || int(c.queries.n.Load()) != queries {
		c.t.Errorf("%s: %d round trips with %d commands, %d queries; want %d with %d, %d",
			what, c.redis.Trips(), c.redis.Commands(), c.queries.n.Load(), trips, commands, queries)
	}
}

// history returns a read of user 1's history, which checks its days.
func (c *costs) history(viewer models.RowID, first, last models.Date, wantArchived, wantHot int) func() error {
	return func() error {
		h, err := c.ranking.History(c.t.Context(), ranking.HistoryQuery{Board: "steps", Viewer: id(viewer), User: "1", From: &first, To: &last})
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
			return fmt.Errorf("from %v, partial %v", sources, h.Partial)
		}
		return nil
	}
}

// newCosts archives 28 days and leaves three hot. On each day users 1, 10 and
// 3009 have a score; user 1 has 3,000 friends, and user 2 has user 1.
func newCosts(t *testing.T) *costs {
	t.Helper()
	env, queries := countedEnv(t)
	trips := &testenv.RoundTrips{}
	env.Redis.AddHook(trips) // before the directory follows changes, as hooks can't be added meanwhile
	f := newFixture(t, env, 1)
	friends := make([]models.RowID, 3000)
	for i := range friends {
		friends[i] = models.RowID(10 + i)
	}
	f.befriend(1, friends...)
	f.befriend(2, 1)
	for day := today - 30; day <= today; day++ {
		b := f.bucketOf(day)
		f.apply(f.raiseOf(b, 1, 500, 1), f.raiseOf(b, 10, 700, 1), f.raiseOf(b, 3009, 300, 1))
	}
	env.Clock.Set(today.UTC().Add(28 * time.Hour)) // the day after
	due, err := f.archive.Due(t.Context())
	if err != nil || len(due) != 28 {
		t.Fatalf("%d days are due, %v", len(due), err)
	}
	for _, b := range due {
		f.mustArchive(f.archive, b)
	}
	return &costs{fixture: f, redis: trips, queries: queries}
}

// A month of history costs one query, and one round trip to Redis for its hot
// days. An archived friend ranking costs one round trip for the friends and one
// query, for any number of friends, and on an older day two queries. An archived global
// list costs one round trip for those who are not shown to the viewer, and its queries.
func TestCostOfArchivedDays(t *testing.T) {
	t.Parallel()
	c := newCosts(t)
	last := today
	c.check("31 days", 1, 3, 1, c.history(1, last-30, last, 28, 3))
	c.check("archived days", 0, 0, 1, c.history(1, last-30, last-3, 28, 0))
	c.check("hot days", 1, 3, 1, c.history(1, last-2, last, 0, 3))
	if _, err := c.friends.IDs(t.Context(), 2); err != nil { // loads them
		t.Fatal(err)
	}
	c.check("a friend's days", 1, 3, 2, c.history(2, last-30, last, 28, 3))

	old := last - 10
	q := ranking.Query{Board: "steps", Date: &old, Viewer: "1", Limit: 50}
	read := func(call func(ranking.Query) (*models.Ranking, error)) func() error {
		return func() error {
			r, err := call(q)
			if err == nil && (r.Total != 3 || r.Me.Rank != 2 || r.Source != models.SourceArchive) {
				return fmt.Errorf("%+v", r)
			}
			return err
		}
	}
	friendsRanking := read(func(q ranking.Query) (*models.Ranking, error) { return c.ranking.Friends(t.Context(), q) })
	if err := friendsRanking(); err != nil { // loads friends and names
		t.Fatal(err)
	}
	c.check("friends", 1, 2, 1, friendsRanking)
	q.Likes = true
	c.check("friends with likes", 1, 2, 2, friendsRanking)
	q.Likes = false
	top := read(func(q ranking.Query) (*models.Ranking, error) { return c.ranking.Top(t.Context(), q) })
	if err := top(); err != nil { // loads who is not shown to the viewer
		t.Fatal(err)
	}
	c.check("top", 1, 2, 3, top)
	c.check("around", 1, 2, 2, read(func(q ranking.Query) (*models.Ranking, error) { return c.ranking.Around(t.Context(), q, 5) }))
	c.check("me", 1, 2, 3, func() error {
		me, err := c.ranking.Me(t.Context(), q)
		if err == nil && (*me.GlobalRank != 2 || *me.FriendsRank != 2) {
			return fmt.Errorf("%+v", me)
		}
		return err
	})
	// Another replica reads once whether the day is archived.
	c.ranking = c.rankingOn(c.boards, c.otherArchive(c.boards))
	c.check("friends, the first time", 1, 2, 2, friendsRanking)
	c.check("friends, then", 1, 2, 1, friendsRanking)
	c.checkSpans()
	// On an older day not all friends show their scores, and SQL is asked who does.
	c.env.Config.Friends.HistoryDays = 10
	c.ranking = c.rankingOn(c.boards, c.archive)
	c.check("friends on an older day", 0, 0, 2, friendsRanking)
	c.check("a span of older days", 1, 3, 2, c.span(last-30, last, 31))
}

// However many calls ask for days without data, they cost a board one query between two
// refreshes of the catalog.
func TestCostOfDaysWithoutData(t *testing.T) {
	t.Parallel()
	env, queries := countedEnv(t)
	f := newFixture(t, env, 1)
	f.group("team", 1, 2)
	missing := models.Date(0)
	calls := map[string]func(ranking.Query) error{
		"friends": func(q ranking.Query) error { _, err := f.ranking.Friends(t.Context(), q); return err },
		"group":   func(q ranking.Query) error { _, err := f.ranking.Group(t.Context(), q, "team"); return err },
		"top":     func(q ranking.Query) error { _, err := f.ranking.Top(t.Context(), q); return err },
		"around":  func(q ranking.Query) error { _, err := f.ranking.Around(t.Context(), q, 5); return err },
		"me":      func(q ranking.Query) error { _, err := f.ranking.Me(t.Context(), q); return err },
		"a like": func(q ranking.Query) error {
			if _, err := f.ranking.Score(t.Context(), q, "2"); models.CodeOf(err) != models.CodeNotFound {
				return err
			}
			return nil
		},
	}
	all := func() {
		for what, call := range calls {
			if err := call(ranking.Query{Board: "steps", Date: &missing, Viewer: "1", Limit: 50}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	all() // loads the viewer, and the sets of the circles
	for _, want := range []int64{0, 1} {
		queries.n.Store(0)
		for range 10 {
			missing += 100
			all()
		}
		if n := queries.n.Load(); n != want {
			t.Errorf("%d queries, want %d", n, want)
		}
		if err := f.catalog.Definitions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// span returns a read of the sums of user 1 and the user's friends.
func (c *costs) span(from, to models.Date, days int64) func() error {
	q := ranking.Query{Board: "steps", Viewer: "1", Limit: 50, Span: &ranking.Span{From: from, To: &to}}
	return func() error {
		r, err := c.ranking.Friends(c.t.Context(), q)
		if err == nil && (r.Total != 3 || r.Me.Days != days || r.Me.Score != days*500) {
			return fmt.Errorf("%s", r.AppendJSON(nil))
		}
		return err
	}
}

// checkSpans checks the cost of spans: a round trip for the friends, one for all hot days,
// if there are any, and a query for all others, if there are any.
func (c *costs) checkSpans() {
	c.t.Helper()
	c.check("a span of hot days", 2, 5, 0, c.span(today-2, today, 3))
	c.check("a span of 7 days", 2, 5, 1, c.span(today-6, today, 7))
	c.check("a span of 31 days", 2, 5, 1, c.span(today-30, today, 31))
	c.check("a span of archived days", 1, 2, 1, c.span(today-30, today-3, 28))
	members := []models.RowID{1}
	for id := models.RowID(10); len(members) < models.MaxGroupMembers; id++ {
		members = append(members, id)
	}
	c.group("team", members...)
	last := today
	q := ranking.Query{Board: "steps", Viewer: "1", Limit: 50, Span: &ranking.Span{From: last - 30, To: &last}}
	group := func() error {
		r, err := c.ranking.Group(c.t.Context(), q, "team")
		if err == nil && (r.Total != 2 || r.Me.Score != 31*500) {
			return fmt.Errorf("%s", r.AppendJSON(nil))
		}
		return err
	}
	if err := group(); err != nil { // loads the members
		c.t.Fatal(err)
	}
	// The sets of the members and of those who are not shown to the viewer.
	c.check("a span of a group of 500", 2, 7, 1, group)
}
