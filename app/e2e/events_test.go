package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// giftsStart is the start of the events: an hour before noon.
var giftsStart = testenv.Noon.Add(-time.Hour)

// withEvents adds an event of 92 days, one of two hours, and a rolling board.
func withEvents(cfg *config.Config) {
	board := func(name, kind string, maxScore int64) config.Board {
		return config.Board{Name: name, Kind: kind, TimeZone: "Asia/Shanghai", MaxScore: maxScore, Shards: 3, Global: "users"}
	}
	gifts, sprint := board("gifts", "event", 1_073_741_823), board("sprint", "event", 1000)
	gifts.Start, gifts.End = giftsStart, giftsStart.AddDate(0, 0, 92)
	sprint.Start, sprint.End = giftsStart, giftsStart.Add(2*time.Hour)
	cfg.Boards = append(cfg.Boards, gifts, sprint, board("active", "rolling", 1000))
}

// Outside its time an event accepts no new increment, but still answers
// repeated ones.
func TestEventOpens(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testEventOpens)
}

func testEventOpens(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withEvents)
	const path = "/v1/boards/sprint/increments"
	env.Clock.Set(giftsStart.Add(-time.Millisecond))
	s.refuse(s.service("POST", path, harness.IncrementJSON(1, 5, "early")), 422, models.CodeEventNotOpen)
	var before models.Ranking
	s.want(s.as("1", "GET", "/v1/boards/sprint/top", nil), 200, &before)
	if len(before.Entries) != 0 || before.Final {
		t.Errorf("before its start: %+v", before)
	}
	env.Clock.Set(giftsStart)
	s.want(s.service("POST", path, harness.IncrementJSON(1, 5, "first")), 200, nil)
	env.Clock.Set(giftsStart.Add(2*time.Hour - time.Millisecond))
	s.want(s.service("POST", path, harness.IncrementJSON(2, 5, "last")), 200, nil)
	env.Clock.Set(giftsStart.Add(2 * time.Hour))
	s.refuse(s.service("POST", path, harness.IncrementJSON(3, 5, "late")), 422, models.CodeEventNotOpen)
	var got harness.IncrementResults
	s.want(s.service("POST", path, harness.IncrementsJSON(harness.IncrementJSON(3, 5, "late"), harness.IncrementJSON(2, 5, "last"), harness.IncrementJSON(2, 6, "last"))), 200, &got)
	if diff := cmp.Diff([]string{
		"late rejected event_not_open", "last duplicate 5 13:59:59.999", "last rejected event_id_conflict",
	}, got.Brief()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.want(s.service("POST", path, harness.IncrementJSON(1, 5, "first")), 200, &got)
	if diff := cmp.Diff([]string{"first duplicate 5 12:00:00.000"}, got.Brief()); diff != "" {
		t.Error(diff)
	}
	var after models.Ranking
	testenv.Eventually(t, "the ledger is found to be complete, and the event final", func() bool {
		s.want(s.as("1", "GET", "/v1/boards/sprint/top", nil), 200, &after)
		return after.Final
	})
	if diff := cmp.Diff([]string{"1. 1: 5 at 12:00:00.000", "2. 2: 5 at 13:59:59.999"}, rankLines(after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Redis is emptied while the service is stopped, after the end of an event. As long as the board
// is not whole again it is not final.
func TestNothingIsFinalThatIsNotWhole(t *testing.T) {
	t.Parallel()
	env := testenv.RealConfig(t)
	env.Clock.Set(testenv.Noon)
	top := func(s *server) (r models.Ranking) {
		t.Helper()
		s.want(s.as("1", "GET", "/v1/boards/sprint/top", nil), 200, &r)
		if r.Final && r.Total != 2 {
			t.Fatalf("%d scores are final", r.Total)
		}
		return r
	}
	// start runs fn with a service on the stores, with the given roles.
	start := func(name string, roles app.Roles, fn func(*server)) {
		t.Run(name, func(t *testing.T) {
			env := *env // the end of the service closes its connections
			fn(newServerOf(t, testenv.Open(t, &env), func(o *app.Options) { o.Roles = roles }, withEvents))
		})
	}
	start("while the event runs", app.AllRoles(), func(s *server) {
		for user := range 2 {
			s.want(s.service("POST", "/v1/boards/sprint/increments", harness.IncrementJSON(1+user, 5, fmt.Sprint(user))), 200, nil)
		}
	})
	env.Clock.Advance(2 * time.Hour)
	start("Redis is emptied", app.Roles{API: true}, func(s *server) {
		ctx := t.Context()
		for iter := s.env.Redis.Scan(ctx, 0, s.env.Keys.Prefix+"*", 1000).Iterator(); iter.Next(ctx); {
			testenv.Must(s.env.Redis.Del(ctx, iter.Val()).Result())
		}
	})
	start("without the job", app.Roles{API: true}, func(s *server) {
		if r := top(s); r.Final || r.Total != 0 {
			t.Errorf("%d scores, final %t", r.Total, r.Final)
		}
	})
	start("with the job", app.AllRoles(), func(s *server) {
		testenv.Eventually(t, "the event is final", func() bool { return top(s).Final })
	})
}

// Users who reach the same score in the same tick are ordered by the text of their
// row ids, the greatest first. The order is the same while the event runs, after
// its end, and in the archive.
func TestTiesForAPrize(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testTiesForAPrize)
}

func testTiesForAPrize(t *testing.T, env *testenv.Env) {
	t.Helper()
	testenv.NumberUsers(t, env, 100)
	s := newServer(t, env, withEvents)
	s.waitForStartJobs() // the archive job must not see the clock of the first event's end
	for _, tt := range []struct {
		board string
		end   time.Time
		// A time that is later by sooner falls into the same tick; one that is
		// later by later does not.
		sooner, later time.Duration
	}{
		{"sprint", giftsStart.Add(2 * time.Hour), 0, time.Millisecond},
		{"gifts", giftsStart.AddDate(0, 0, 92), 999 * time.Millisecond, time.Second},
	} {
		env.Clock.Set(testenv.Noon)
		path := "/v1/boards/" + tt.board
		n := 0
		give := func(user int) {
			n++
			s.want(s.service("POST", path+"/increments", harness.IncrementJSON(user, 100, fmt.Sprint("p-", n))), 200, nil)
		}
		give(10)
		env.Clock.Advance(tt.sooner)
		give(9)
		give(100)
		env.Clock.Advance(tt.later)
		give(99)
		want := testenv.IDs(9, 100, 10, 99)
		order := func() models.Ranking {
			var r models.Ranking
			s.want(s.as("10", "GET", path+"/top", nil), 200, &r)
			var users []models.UserID
			for _, e := range r.Entries {
				users = append(users, e.User)
			}
			if diff := cmp.Diff(want, users); diff != "" {
				t.Errorf("%s, %s, final=%t (-want +got):\n%s", tt.board, r.Source, r.Final, diff)
			}
			return r
		}
		hot := order()
		env.Clock.Set(tt.end)
		final := order()
		testenv.Eventually(t, "the ledger is found to be complete", func() bool {
			final = order()
			return final.Final
		})
		bucket := testenv.Must(s.app.Catalog.Buckets.Load(t.Context(), tt.board, "event"))
		env.Clock.Set(tt.end.AddDate(0, 0, 3).Add(time.Hour - time.Millisecond))
		if _, err := s.app.Archive.Archive(t.Context(), bucket, func(int64) {}); models.CodeOf(err) != models.CodeBucketHot {
			t.Errorf("%s before its time: %v", tt.board, err)
		}
		env.Clock.Advance(time.Millisecond)
		testenv.Must(s.app.Archive.Archive(t.Context(), bucket, func(int64) {}))
		archived := order()
		if hot.Final || !final.Final || !archived.Final || final.Source != models.SourceHot || archived.Source != models.SourceArchive {
			t.Errorf("%s: hot %t %s, final %t %s, archived %t %s", tt.board, hot.Final, hot.Source, final.Final, final.Source, archived.Final, archived.Source)
		}
		if diff := cmp.Diff(hot.Entries, archived.Entries); diff != "" {
			t.Errorf("%s (-hot +archived):\n%s", tt.board, diff)
		}
		if diff := cmp.Diff(hot.Me, archived.Me); diff != "" {
			t.Errorf("%s (-hot +archived):\n%s", tt.board, diff)
		}
	}
}
