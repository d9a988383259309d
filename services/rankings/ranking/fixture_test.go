package ranking_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"stepboard/internal/pause"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/score"
	"stepboard/services/people/directory"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/privacy"
	"stepboard/services/people/teams"
	"stepboard/services/platform/cursor"
	"stepboard/services/platform/lease"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/ranking"
	"stepboard/services/servicetest"
)

// fixture holds a ranking service and the services that it depends on.
type fixture struct {
	t       testing.TB
	env     *testenv.Env
	catalog *catalog.Catalog
	rules   *corrections.Rules
	boards  board.Entries
	archive *archive.Service
	friends *friends.Service
	privacy *privacy.Service
	groups  *groups.Service
	users   *directory.Service
	cursors *cursor.Sealer
	ranking *ranking.Service
}

func newFixture(t testing.TB, env *testenv.Env, shards int) *fixture {
	t.Helper()
	env.Config.Boards[0].Shards = shards
	f := &fixture{
		t: t, env: env,
		catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log),
		users:   newDirectory(t, env),
		cursors: testenv.Must(cursor.New(t.Context(), cursor.NewStore(env.Gorm), env.Clock.Now)),
	}
	f.rules = corrections.NewRules(f.users.Erased())
	f.boards = servicetest.Entries(env, env.Clock.Now, f.rules)
	sets := servicetest.Sets(env)
	f.friends = friends.New(friends.NewStore(env.Gorm, nil), sets, f.users, friends.Limits{}, env.Log)
	f.privacy = privacy.New(privacy.NewStore(env.Gorm), sets, f.friends, f.users, 0, env.Log)
	f.groups = groups.New(groups.NewStore(env.Gorm, teams.NewStore(env.Gorm, nil)), sets, f.privacy.Sets(), f.users, nil, env.Log)
	if err := f.catalog.Definitions.Define(t.Context(), env.Config.BoardDefinitions()); err != nil {
		t.Fatal(err)
	}
	f.archive = archive.New(archive.NewStore(archive.StoreOptions{Runs: env.Gorm, Pool: env.Pool}), servicetest.Source(f.boards), lease.NewLocal(), env.Clock.Now, env.Log)
	t.Cleanup(f.archive.Close)
	f.ranking = ranking.New(f.options())
	return f
}

// numbered is how many users exist, whose ids are the decimal texts of their rows.
const numbered = 6000

// newDirectory returns the directory of a process that has shown nobody yet.
func newDirectory(t testing.TB, env *testenv.Env) *directory.Service {
	t.Helper()
	testenv.NumberUsers(t, env, numbered)
	d := directory.New(directory.Options{
		Store: directory.NewStore(env.Gorm), Copies: servicetest.Users(env), Memory: 64_000_000, Log: env.Log,
	})
	t.Cleanup(d.Close)
	testenv.Background(t, func(ctx context.Context) {
		pause.Every(ctx, directory.FollowEvery, func() { _ = d.Follow(ctx) }) // the next one tries again
	})
	return d
}

// options returns what the ranking service of the fixture is built on.
func (f *fixture) options() ranking.Options {
	return ranking.Options{
		Catalog: f.catalog, Entries: f.boards, Archive: f.archive, Friends: f.friends, Groups: f.groups, Privacy: f.privacy,
		Rules: f.rules, Directory: f.users, Cursors: f.cursors, Likes: likes.NewStore(f.env.Gorm, nil), Clock: f.env.Clock.Now, HistoryDays: f.env.Config.Friends.HistoryDays,
	}
}

// rankingOn returns a service that reads buckets from the given stores.
func (f *fixture) rankingOn(boards ranking.Entries, archive ranking.Archive) *ranking.Service {
	o := f.options()
	o.Entries, o.Archive = boards, archive
	return ranking.New(o)
}

// userCount is the number of users with a score. From the real Redis the archive
// reads them in three chunks. A data folder is slower and gets fewer.
func (f *fixture) userCount() models.RowID {
	if f.env.Pool == nil {
		return 120
	}
	return 1100
}

// The viewers of the tests that archive a day.
const (
	scorer    models.RowID = 99
	nonScorer models.RowID = 5000 // has friends and no score
)

// filledBuckets gives all users a score on each of the given days, with many
// equal ones, and friends to the viewers. It returns the days' buckets.
func (f *fixture) filledBuckets(days ...models.Date) []*models.Bucket {
	f.t.Helper()
	var friends []models.RowID
	for id := models.RowID(1); id <= f.userCount(); id += 9 {
		friends = append(friends, id)
	}
	f.befriend(scorer, friends...)
	f.befriend(nonScorer, friends[:10]...)
	f.group(circleOf(scorer), append(slices.Clone(friends), scorer)...)
	f.group(circleOf(nonScorer), append(slices.Clone(friends[:10]), nonScorer)...)
	buckets := make([]*models.Bucket, len(days))
	for i, day := range days {
		buckets[i] = f.bucketOf(day)
		var raises []models.Raise
		for id := models.RowID(1); id <= f.userCount(); id++ {
			raises = append(raises, f.raiseOf(buckets[i], id, int64(id)*7919%40, int(id)%3))
		}
		f.apply(raises...)
	}
	return buckets
}

// bucketOf moves the clock to a day's noon and returns its bucket.
func (f *fixture) bucketOf(day models.Date) *models.Bucket {
	f.t.Helper()
	b := testenv.Must(f.catalog.Definitions.Board("steps"))
	f.env.Clock.Set(day.UTC().Add(4 * time.Hour)) // noon in Shanghai
	bucket, err := f.catalog.Buckets.ForUpload(f.t.Context(), b, day, f.env.Clock.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	return bucket
}

// raiseOf returns a raise to a score reached the given number of seconds after the
// day's noon.
func (f *fixture) raiseOf(b *models.Bucket, user models.RowID, points int64, second int) models.Raise {
	f.t.Helper()
	at := b.StartsAt.Add(12*time.Hour + time.Duration(second)*time.Second)
	composite, err := score.Of(b).Encode(b.Points(points), models.TimestampOf(at))
	if err != nil {
		f.t.Fatal(err)
	}
	return models.Raise{Bucket: b, Entry: models.Entry{User: user, Composite: composite}}
}

func (f *fixture) apply(raises ...models.Raise) {
	f.t.Helper()
	if errs := f.boards.Raise(f.t.Context(), raises); errs != nil {
		f.t.Fatal(errs)
	}
}

// makeDue moves the clock to the time when the bucket may be archived.
func (f *fixture) makeDue(b *models.Bucket) { f.env.Clock.Set(b.ColdAt.Add(time.Hour)) }

// otherArchive returns the archive of another process, with a hot store of its
// own.
func (f *fixture) otherArchive(hot board.Entries) *archive.Service {
	s := archive.New(archive.NewStore(archive.StoreOptions{Runs: f.env.Gorm, Pool: f.env.Pool}), servicetest.Source(hot), lease.NewLocal(), f.env.Clock.Now, f.env.Log)
	f.t.Cleanup(s.Close)
	return s
}

// mustArchive archives a bucket. Any goroutine may call it.
func (f *fixture) mustArchive(a *archive.Service, b *models.Bucket) {
	f.t.Helper()
	run, err := a.Archive(f.t.Context(), b, func(int64) {})
	if err != nil || run.State != models.ArchiveComplete {
		f.t.Errorf("archive %s: %+v, %v", b.Name, run, err)
	}
}

// eachStores runs a test on real servers and on a data folder, with one shard and
// with several.
func eachStores(t *testing.T, test func(*testing.T, *fixture)) {
	t.Helper()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, shards := range []int{1, 4} {
			env.Clock.Set(testenv.Noon.AddDate(0, shards, 0)) // each number of shards has its own days
			t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) { test(t, newFixture(t, env, shards)) })
		}
	})
}

// day returns the day that the clock shows.
func (f *fixture) day() models.Date { return models.DateOf(f.env.Clock.Now()) }

// raise writes a score to a day's bucket.
func (f *fixture) raise(date models.Date, user models.RowID, points int64, at time.Time) {
	f.t.Helper()
	b := testenv.Must(f.catalog.Definitions.Board("steps"))
	bucket, err := f.catalog.Buckets.ForImport(f.t.Context(), b, date, f.env.Clock.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	composite, err := score.Of(bucket).Encode(bucket.Points(points), models.TimestampOf(at))
	if err != nil {
		f.t.Fatal(err)
	}
	if errs := f.boards.Raise(f.t.Context(), []models.Raise{{Bucket: bucket, Entry: models.Entry{User: user, Composite: composite}}}); errs != nil {
		f.t.Fatal(errs)
	}
}

func (f *fixture) befriend(user models.RowID, others ...models.RowID) {
	f.t.Helper()
	if err := f.friends.Replace(f.t.Context(), id(user), testenv.IDs(others...)); err != nil {
		f.t.Fatal(err)
	}
}

// group makes the users the members of a group.
func (f *fixture) group(id models.GroupID, members ...models.RowID) {
	f.t.Helper()
	members = slices.Sorted(slices.Values(members))
	ids := testenv.IDs(slices.Compact(members)...)
	if err := f.groups.Replace(f.t.Context(), id, groups.Replacement{Members: ids}); err != nil {
		f.t.Fatal(err)
	}
}

// circleOf returns the group whose members are a user and the user's friends.
func circleOf(user models.RowID) models.GroupID { return models.GroupID("circle-" + user.String()) }

// lines returns rank, user and score of each entry.
func lines(r *models.Ranking) []string {
	var out []string
	for _, e := range r.Entries {
		out = append(out, fmt.Sprintf("%d. %v %d", e.Rank, e.User, e.Score))
	}
	return out
}

var today = testenv.Must(models.ParseDate("2026-11-20"))

// id returns the user id of a row; empty for 0.
func id(row models.RowID) models.UserID {
	if row == 0 {
		return ""
	}
	return testenv.ID(row)
}

func query(viewer models.RowID) ranking.Query {
	return ranking.Query{Board: "steps", Viewer: id(viewer), Limit: 50}
}
