package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// ownPlace is a user's place on a board.
type ownPlace struct {
	Score        int64            `json:"score"`
	ReachedAt    models.Timestamp `json:"reached_at"`
	GlobalRank   int              `json:"global_rank"`
	GlobalTotal  int              `json:"global_total"`
	FriendsRank  int              `json:"friends_rank"`
	FriendsTotal int              `json:"friends_total"`
	Held         *heldTotal       `json:"held"`
}

// included returns the place in a successful answer; nil if it is null.
func included(t *testing.T, got answer) *ownPlace {
	t.Helper()
	var body struct {
		Me *json.RawMessage `json:"me"`
	}
	if err := json.Unmarshal(got.body, &body); err != nil || got.status != http.StatusOK || !strings.Contains(string(got.body), `"me":`) {
		t.Fatalf("%d %s, want 200 with me", got.status, got.body)
	}
	if body.Me == nil {
		return nil
	}
	place := new(ownPlace)
	if err := json.Unmarshal(*body.Me, place); err != nil {
		t.Fatal(err)
	}
	return place
}

// placesPeople is how many people write in TestIncludeMe. Neighbours at most circleReach apart are
// friends.
const (
	placesPeople = 30
	circleReach  = 3
)

// placeIn returns the place of a user among the best entries of all users, by the definition: the
// higher score is first, and on equal scores the one that was reached first.
func placeIn(entries map[int]ownPlace, user int) ownPlace {
	users := make([]int, 0, len(entries))
	for u := range entries {
		users = append(users, u)
	}
	slices.SortFunc(users, func(a, b int) int {
		return cmp.Or(cmp.Compare(entries[b].Score, entries[a].Score), cmp.Compare(entries[a].ReachedAt, entries[b].ReachedAt))
	})
	friends := slices.DeleteFunc(slices.Clone(users), func(u int) bool { return max(u-user, user-u) > circleReach })
	place := entries[user]
	place.GlobalRank, place.GlobalTotal = slices.Index(users, user)+1, len(users)
	place.FriendsRank, place.FriendsTotal = slices.Index(friends, user)+1, len(friends)
	return place
}

// Each answer with include=me has the place that the write has led to, although rankings may be ten
// seconds old, and another process has written before. The clock hardly moves, so that the copies of
// both processes may be used all the time.
func TestIncludeMe(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		change := func(c *config.Config) {
			withEvents(c)
			if env.Redis != nil {
				c.Rankings.MaxStaleness = 10 * time.Second
				for i := range c.Boards {
					c.Boards[i].ChangeStream = c.Boards[i].Kind != "rolling"
				}
			}
		}
		servers := []*server{newServer(t, env, change)}
		if env.Redis != nil {
			servers = append(servers, newServer(t, env, change))
		}
		for user := range placesPeople {
			var friends []string
			for other := range placesPeople {
				if other != user && max(other-user, user-other) <= circleReach {
					friends = append(friends, fmt.Sprintf("%q", fmt.Sprint(1+other)))
				}
			}
			servers[0].want(servers[0].service("PUT", fmt.Sprintf("/v1/users/%d/friends", 1+user), `{"friend_ids":[`+strings.Join(friends, ",")+`]}`), 200, nil)
		}
		answers := make([]string, len(servers))
		for i, s := range servers {
			if env.Redis != nil {
				s.want(s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-19","score":0}`), 200, nil)
				testenv.Eventually(t, "places are read from memory", func() bool {
					answers[i] = s.fromMemory()
					return s.as("1", "GET", "/v1/boards/steps/me", nil).status == 200 && s.fromMemory() != answers[i]
				})
			}
		}
		entries := map[string]map[int]ownPlace{"steps": {}, "gifts": {}, "active": {}}
		for i := range 8 * placesPeople {
			env.Clock.Advance(time.Second)
			now := models.TimestampOf(env.Clock.Now())
			s, user := servers[i%len(servers)], i*7%placesPeople
			amount := int64(1 + i*i%5)
			for board, places := range entries {
				id := models.UserID(fmt.Sprint(1 + user))
				for _, other := range servers { // their copies may be used from then on
					other.want(other.as(id, "GET", "/v1/boards/"+board+"/me", nil), 200, nil)
				}
				var got answer
				before, after := places[user], ownPlace{}
				if board == "steps" {
					after = ownPlace{Score: amount * 1000, ReachedAt: now}
					if places[user].Score >= after.Score {
						after = before
					}
					got = s.as(id, "POST", "/v1/boards/steps/scores?include=me", fmt.Sprintf(`{"scores":[{"date":"2026-11-19","score":7},{"date":"2026-11-20","score":%d}]}`, amount*1000))
				} else {
					after = ownPlace{Score: before.Score + amount, ReachedAt: now}
					got = s.service("POST", "/v1/boards/"+board+"/increments?include=me", harness.IncrementJSON(1+user, int(amount), fmt.Sprint(i)))
				}
				places[user] = after
				if me, want := included(t, got), placeIn(places, user); me == nil || *me != want {
					t.Fatalf("write %d to %s by %s: %s, want me %+v", i, board, id, got.body, want)
				}
			}
		}
		for i, s := range servers {
			if env.Redis != nil && s.fromMemory() == answers[i] {
				t.Error("no place was read from memory")
			}
		}
		// Without include there is no place.
		if got := servers[0].as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":1}`); got.status != 200 || strings.Contains(string(got.body), `"me"`) {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// A Redis that hangs once it has taken an upload does not hold up its answer: the upload is
// accepted, and the place is null. An increment that has not reached a Redis that hangs is counted,
// and its place is null, too.
func TestIncludeMeWhileRedisHangs(t *testing.T) {
	t.Parallel()
	env := testenv.RealConfig(t)
	link := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	env.Config.Redis.Addrs = []string{link.Addr()}
	s := newServerOf(t, testenv.Open(t, env), func(o *app.Options) { o.Roles = app.Roles{API: true} }, withEvents)
	upload := func(score int) answer {
		return s.as("1", "POST", "/v1/boards/steps/scores?include=me", fmt.Sprintf(`{"date":"2026-11-20","score":%d}`, score))
	}
	give := func(id string) answer {
		return s.service("POST", "/v1/boards/gifts/increments?include=me", harness.IncrementJSON(1, 5, id))
	}
	if first, second := included(t, upload(5)), included(t, give("a")); first == nil || first.Score != 5 || second == nil || second.Score != 5 {
		t.Fatalf("%+v, %+v", first, second)
	}
	bucket := testenv.Must(s.app.Catalog.Buckets.Load(t.Context(), "steps", "20261120"))
	link.HoldAfter(env.Keys.Board(bucket, 0))
	if got := upload(6); included(t, got) != nil {
		t.Errorf("%s", got.body)
	}
	if got := give("b"); included(t, got) != nil {
		t.Errorf("%s", got.body)
	}
	link.Release()
	testenv.Eventually(t, "uploads have their places again", func() bool {
		got := upload(6)
		return got.status == 200 && *included(t, got) == ownPlace{6, models.TimestampOf(testenv.Noon), 1, 1, 1, 1, nil}
	})
}
