package e2e_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// An erased user is in no copy of any process once the bound on their age has passed: neither
// among the scores of a day nor in the circles of friends.
func TestErasedUserInTheNearCache(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	memory := func(c *config.Config) { c.Boards[0].ChangeStream, c.Rankings.MaxStaleness = true, time.Second }
	env.Clock.Set(testenv.Noon.Add(-24 * time.Hour))
	servers := []*server{newServer(t, env, memory), newServer(t, env, memory)}
	s := servers[0]
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2"]}`), http.StatusOK, nil)
	s.uploadDay(harness.NoonDay, map[models.UserID]int{"1": 3000, "2": 5000})
	rows := harness.Rows(t, env.Gorm, []models.UserID{"1", "2"})
	bucket := testenv.Must(s.app.Catalog.Buckets.Load(t.Context(), "steps", "20261120"))
	// held reports whether a process has proven copies, and whether they have user 2.
	held := func(s *server) (proven, scored, listed bool) {
		composites := make([]models.Composite, len(rows))
		_, ok := s.app.NearCache.Composites(bucket, rows, composites)
		circle, asOf, err := s.app.Friends.Circle(t.Context(), rows[0])
		if err != nil || !ok || asOf.IsZero() {
			return false, false, false
		}
		return true, composites[1] != 0, slices.Contains(circle, rows[1])
	}
	for _, s := range servers {
		testenv.Eventually(t, "the user is in the copies", func() bool {
			proven, scored, listed := held(s)
			return proven && scored && listed
		})
	}
	s.want(s.service("DELETE", "/v1/users/2", nil), http.StatusAccepted, nil)
	for _, s := range servers {
		testenv.Eventually(t, "no ranking from memory has the user", func() bool {
			before := s.fromMemory()
			return s.ranked("/v1/boards/steps/friends") == "1:3000" && s.fromMemory() != before
		})
	}
	s.finishErasures()
	for _, s := range servers {
		testenv.Eventually(t, "the user is in no copy", func() bool {
			proven, scored, listed := held(s)
			return proven && !scored && !listed
		})
	}
}

// After an erasure, Redis goes back to an earlier time at which it had the user. The job that
// looks for this removes everything again, and nobody is shown the user meanwhile.
func TestErasedUserInAnOlderRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newErasable(t, env)
	restore := s.copyRedis()
	s.want(s.as(zed, "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusAccepted, nil)
	s.finishErasures()
	for range 2 {
		restore()
		// A sweep that did not learn whether it was committed leaves the mark of its change.
		mark := s.env.Keys.SetChanging(keys.NotShown, int64(zedRow))
		if err := s.env.Redis.SAdd(t.Context(), mark, "a token").Err(); err != nil {
			t.Fatal(err)
		}
		if left := s.traces(); !slices.Contains(left, "board") || !slices.Contains(left, "user") {
			t.Fatalf("the older Redis has the user only in %v", left)
		}
		s.nobodyIsShown()
		if n, err := s.app.Erasure.Guard(t.Context()); n == 0 || err != nil {
			t.Errorf("removed %d, %v", n, err)
		}
		// Copies of lists of others expire within an hour.
		if left := s.traces(); slices.ContainsFunc(left, func(name string) bool {
			return !listCopies[name] && !slices.Contains(keptOfZed, name)
		}) {
			t.Errorf("left in %v", left)
		}
		for key := range s.keys() {
			if strings.HasSuffix(key, ":"+models.RowID(zedRow).String()) {
				t.Errorf("%s is left, which was the user's own", key)
			}
		}
		s.nobodyIsShown()
	}
	s.comesBack()
}

// listCopies are the names of the keys of copies of lists.
var listCopies = map[string]bool{"friends": true, "not-shown": true, "groups": true}

// copyRedis copies all keys but streams. restore makes Redis have them as they are now.
func (s *server) copyRedis() (restore func()) {
	s.t.Helper()
	ctx, rdb := s.t.Context(), s.env.Redis
	var writes []func(pipe redis.Pipeliner)
	for key := range s.keys() {
		ttl := testenv.Must(rdb.PTTL(ctx, key).Result())
		switch testenv.Must(rdb.Type(ctx, key).Result()) {
		case "string":
			value := rdb.Get(ctx, key).Val()
			writes = append(writes, func(pipe redis.Pipeliner) { pipe.Set(ctx, key, value, 0) })
		case "set":
			members := rdb.SMembers(ctx, key).Val()
			writes = append(writes, func(pipe redis.Pipeliner) { pipe.SAdd(ctx, key, members) })
		case "zset":
			entries := rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
			writes = append(writes, func(pipe redis.Pipeliner) { pipe.ZAdd(ctx, key, entries...) })
		case "hash":
			fields := rdb.HGetAll(ctx, key).Val()
			writes = append(writes, func(pipe redis.Pipeliner) { pipe.HSet(ctx, key, fields) })
		}
		if ttl > 0 {
			writes = append(writes, func(pipe redis.Pipeliner) { pipe.PExpire(ctx, key, ttl) })
		}
	}
	return func() {
		s.t.Helper()
		pipe := rdb.Pipeline()
		for key := range s.keys() {
			pipe.Del(ctx, key)
		}
		for _, write := range writes {
			write(pipe)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
}

// No line of the log that operators keep, from level info on, names a user: neither by the
// user id nor by the row id.
func TestTheLogNamesNobody(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	var log testenv.Buffer
	env.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s := newErasable(t, env)
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/v1/users/zed%7C4711", ""}, {"POST", "/v1/friends/requests", `{"user_id":"zed|4711"}`},
		{"GET", "/v1/boards/steps/history?for=zed%7C4711", ""}, {"GET", "/v1/boards/steps/friends?user_id=zed%7C4711", ""},
		{"POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":-1}`}, {"GET", "/v1/me/export", ""},
	} {
		for _, user := range []models.UserID{zed, "ann"} {
			_ = s.as(user, call.method, call.path, call.body) // refused or not
		}
	}
	_ = s.admin("GET", "/v1/admin/users/zed%7C4711", nil)
	s.want(s.as(zed, "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusAccepted, nil)
	s.finishErasures()
	s.comesBack()
	if !strings.Contains(log.String(), "an erasure is finished") {
		t.Error("the log lacks what this test looks at")
	}
	for line := range strings.Lines(log.String()) {
		// The digits of a time may be those of a user id.
		_, line, found := strings.Cut(line, `","level":`)
		if !found {
			t.Fatalf("no time begins %s", line)
		}
		for _, name := range []string{"zed", "4711", models.RowID(zedRow).String(), `"ann"`, `"ben"`, `"cho"`, `"dee"`} {
			if strings.Contains(line, name) {
				t.Errorf("%s is in %s", name, line)
			}
		}
	}
}

// The export of a user is the same on both databases.
func TestExportsOfBothDatabases(t *testing.T) {
	t.Parallel()
	export := func(env *testenv.Env) map[string]any {
		s := newErasable(t, env)
		var document map[string]any
		s.read(s.as(zed, "GET", "/v1/me/export", nil), http.StatusOK, &document)
		return comparable(document).(map[string]any)
	}
	if diff := cmp.Diff(export(testenv.Real(t)), export(testenv.Local(t))); diff != "" {
		t.Errorf("(-Postgres +SQLite):\n%s", diff)
	}
}

// differing are the fields of an export that have random values.
var differing = map[string]bool{"group_id": true, "state": true}

// comparable returns a part of an export with the form of times and random values instead of
// these, and with its lists in the order of their texts.
func comparable(value any) any {
	switch v := value.(type) {
	case string:
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", v); err == nil {
			return "a time"
		}
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = comparable(v[i])
		}
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for name, field := range v {
			if fields[name] = comparable(field); differing[name] {
				fields[name] = fmt.Sprintf("%T", field)
			}
		}
		return fields
	}
	return value
}

// An export has all rows of a section that is read in several pages, and each once.
func TestExportInPages(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		const friends, days = 1201, 2
		s := newServer(t, env)
		testenv.NumberUsers(t, env, friends+1)
		ids, likes := make([]string, friends), make([]models.Like, 0, friends*days)
		for i := range ids {
			ids[i] = strconv.Quote(string(testenv.ID(i + 2)))
			for day := range models.Date(days) {
				likes = append(likes, models.Like{
					UserID: models.RowID(i + 2), LikedBy: 1, Board: "steps", Day: models.DateOf(testenv.Noon) - day, CreatedAt: testenv.Noon,
				})
			}
		}
		s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":[`+strings.Join(ids, ",")+`]}`), http.StatusOK, nil)
		if err := env.Gorm.CreateInBatches(likes, 500).Error; err != nil {
			t.Fatal(err)
		}
		var document struct {
			Friends []struct {
				User string `json:"user_id"`
			} `json:"friends"`
			Given []struct {
				User string `json:"user_id"`
				Date string `json:"date"`
			} `json:"likes_given"`
		}
		s.read(s.as("1", "GET", "/v1/me/export", nil), http.StatusOK, &document)
		seen := make(map[string]bool)
		for _, f := range document.Friends {
			seen[f.User] = true
		}
		for _, l := range document.Given {
			seen[l.User+l.Date] = true
		}
		if all := friends + friends*days; len(seen) != all || len(document.Friends)+len(document.Given) != all {
			t.Errorf("%d friends and %d likes, %d different ones, want %d", len(document.Friends), len(document.Given), len(seen), all)
		}
	})
}
