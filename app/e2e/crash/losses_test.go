package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// lossyRun is a service with a queue and a process for each role. Its boards, one of them with
// local days, have a Redis of their own, which loses writes.
type lossyRun struct {
	t              *testing.T
	env            *testenv.Env
	cfg            config.Config
	server         *testenv.RedisServer
	rdb            *redis.Client
	flags          []string
	api, consumer  *testenv.Process
	jobs           *testenv.Process
	accepted       int // the status of an accepted upload
	date           string
	points         int                       // of the latest upload
	latest         map[models.UserID]int     // upload of each user
	boards         []string                  // by name
	friendRankings func(board, shown string) // checks a ranking of the friends of ann
}

func newLossyRun(t *testing.T) *lossyRun {
	t.Helper()
	server := testenv.StartRedis(t)
	r := startLossyRun(t, server.Use, harness.RedisClient(t, server))
	r.server = server
	return r
}

// startLossyRun is newLossyRun with the boards in a given Redis.
func startLossyRun(t *testing.T, use func(*config.Redis), rdb *redis.Client) *lossyRun {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	r := &lossyRun{
		t: t, env: harness.Real(t), rdb: rdb, accepted: http.StatusAccepted, date: harness.Today(), points: 5000, latest: make(map[models.UserID]int),
		boards: []string{"steps", "local"}, friendRankings: func(string, string) {},
	}
	r.cfg = r.env.Config
	use(&r.cfg.Redis)
	queue := "--ingest.redis.addrs=" + r.env.Config.Redis.Addrs[0]
	r.flags = []string{queue, `--boards=[{` + harness.Steps + `}, {name: local, time_zone: local}]`}
	r.api, r.consumer, r.jobs = r.start("api"), r.start("consumer"), r.start("jobs")
	harness.AwaitCheckpoint(t, r.rdb, r.env.Keys, "queue")
	return r
}

// start starts a process of one role.
func (r *lossyRun) start(role string) *testenv.Process {
	r.t.Helper()
	return testenv.Serve(r.t, r.cfg, harness.Role(role, slices.Clone(r.flags)...)...)
}

// call is harness.Call to the process that serves requests.
func (r *lossyRun) call(user models.UserID, scope, method, path, body string, want int) string {
	r.t.Helper()
	return harness.Call(r.t, r.api, harness.Token(r.t, user, scope), method, path, body, want)
}

// upload queues a larger total of each user on each board.
func (r *lossyRun) upload(users ...models.UserID) {
	r.t.Helper()
	for _, user := range users {
		r.points++
		r.latest[user] = r.points
		for _, board := range r.boards {
			body := fmt.Sprintf(`{"date":%q,"score":%d}`, r.date, r.points)
			r.call(user, "", "POST", "/v1/boards/"+board+"/scores", body, r.accepted)
		}
	}
}

// standStill stops the consumer while fn runs, so that it learns late of what fn does.
func (r *lossyRun) standStill(fn func()) {
	r.t.Helper()
	r.consumer.Signal(syscall.SIGSTOP)
	fn()
	r.consumer.Signal(syscall.SIGCONT)
}

// ranked returns the users and scores of a list, such as "ann:500 ben:300".
func (r *lossyRun) ranked(board, list string) string {
	r.t.Helper()
	text := r.call("ann", "", "GET", "/v1/boards/"+board+"/"+list+"?date="+r.date, "", http.StatusOK)
	var ranking struct {
		Entries []struct {
			UserID *models.UserID `json:"user_id"`
			Score  int
		}
	}
	if err := json.Unmarshal([]byte(text), &ranking); err != nil {
		r.t.Fatal(err)
	}
	var lines []string
	for _, e := range ranking.Entries {
		name := models.UserID("anonymous")
		if e.UserID != nil {
			name = *e.UserID
		}
		lines = append(lines, fmt.Sprintf("%s:%d", name, e.Score))
	}
	return strings.Join(lines, " ")
}

// shows waits until both boards show these lines to everybody, and ann's friends the same.
func (r *lossyRun) shows(when, lines string) {
	r.t.Helper()
	for _, board := range r.boards {
		testenv.Eventually(r.t, fmt.Sprintf("%s, %s shows %s", when, board, lines), func() bool {
			friends := r.ranked(board, "friends")
			r.friendRankings(board, friends)
			return friends == lines && r.ranked(board, "top") == lines
		})
	}
}

// lines returns what a list shows of users who have what they uploaded last.
func (r *lossyRun) lines(users ...models.UserID) string {
	var lines []string
	for _, user := range users {
		lines = append(lines, fmt.Sprintf("%s:%d", user, r.latest[user]))
	}
	return strings.Join(lines, " ")
}

// earlierState is the loss that may bring back what was removed.
const earlierState = "Redis went back to an earlier state"

// losses makes updates be delivered and applied again in each way, and calls check after each.
// Before that, it uploads totals of users.
func (r *lossyRun) losses(check func(when string), users ...models.UserID) {
	r.t.Helper()
	steps := []struct {
		when string
		do   func()
	}{
		{"a consumer has died with updates", func() {
			r.standStill(func() { r.upload(users...) })
			r.consumer.Kill()
			r.consumer = r.start("consumer")
		}},
		{"Redis was emptied", func() {
			if err := r.rdb.FlushAll(r.t.Context()).Err(); err != nil {
				r.t.Fatal(err)
			}
		}},
		{earlierState, func() {
			harness.AwaitCheckpoint(r.t, r.rdb, r.env.Keys, "queue")
			r.server.Kill()
			r.server.Forget(lastWrites)
			r.server.Start()
		}},
		{"everything was applied again", func() {
			args := append(append([]string{"rebuild"}, testenv.Flags(r.cfg)...), harness.RedisQueue(r.flags...)...)
			stdout, stderr, status := testenv.Run(r.t, args...)
			if status != 0 || !strings.Contains(stdout, "updates applied again") {
				r.t.Fatalf("rebuild: %d %q %q", status, stdout, stderr)
			}
		}},
	}
	for _, step := range steps {
		r.upload(users...)
		harness.AwaitDrained(r.t, r.api)
		step.do()
		check(step.when)
	}
}

// Corrections hold whatever a queue delivers again, whatever Redis loses, and though the
// process that applies updates learns of them late. Lifting gives back what was uploaded last.
func TestSoakCorrectionsOutlastLosses(t *testing.T) {
	t.Parallel()
	r := newLossyRun(t)
	users := []models.UserID{"ann", "low", "out"}
	r.upload(users...)
	harness.AwaitDrained(t, r.api)
	r.call("ops", auth.ScopeService, "PUT", "/v1/users/ann/friends", `{"friend_ids":["low","out"]}`, http.StatusOK)
	correct := func(more string) {
		t.Helper()
		r.call("ops", auth.ScopeAdmin, "POST", "/v1/admin/corrections", `{"reason":"shaken",`+more+`}`, http.StatusCreated)
	}
	r.standStill(func() {
		r.upload(users...)
		for _, board := range r.boards {
			correct(fmt.Sprintf(`"board":%q,"date":%q,"user_id":"low","kind":"set","score":1000`, board, r.date))
		}
		correct(`"board":"steps","user_id":"out","kind":"exclude"`)
		correct(fmt.Sprintf(`"board":"local","date":%q,"user_id":"out","kind":"exclude"`, r.date))
	})
	r.friendRankings = func(board, shown string) {
		if strings.Contains(shown, "out") || strings.Contains(strings.Replace(shown, "low:1000", "", 1), "low") {
			t.Errorf("on %s, the process that made the corrections shows %s", board, shown)
		}
	}
	check := func(when string) {
		t.Helper()
		r.shows(when, fmt.Sprintf("ann:%d low:1000", r.latest["ann"]))
	}
	check("the consumer goes on")
	r.losses(check, users...)
	r.friendRankings = func(string, string) {}
	for id := range 4 {
		path := fmt.Sprintf("/v1/admin/corrections/%d/lift", id+1)
		r.call("ops", auth.ScopeAdmin, "POST", path, `{"reason":"a marathon"}`, http.StatusOK)
	}
	r.shows("lifted", r.lines("out", "low", "ann"))
}

// An erasure holds whatever a queue delivers again and whatever Redis loses or has back from
// an earlier time, and though the process that applies updates hears of it late.
func TestSoakErasureOutlastsLosses(t *testing.T) {
	t.Parallel()
	r := newLossyRun(t)
	r.upload("ann", "zed")
	harness.AwaitDrained(t, r.api)
	r.call("ops", auth.ScopeService, "PUT", "/v1/users/ann/friends", `{"friend_ids":["zed"]}`, http.StatusOK)
	zed := harness.Rows(t, r.env.Gorm, []models.UserID{"zed"})[0]
	older := r.entries(zed)
	if len(older) != len(r.boards) {
		t.Fatalf("Redis has the user in %v", older)
	}
	r.standStill(func() {
		r.upload("ann", "zed")
		r.call("zed", "", "DELETE", "/v1/me", `{"confirm":"erase"}`, http.StatusAccepted)
	})
	r.friendRankings = func(board, shown string) {
		if strings.Contains(shown, "zed") {
			t.Errorf("on %s, the process that has erased the user shows %s", board, shown)
		}
	}
	check := func(when string) {
		t.Helper()
		r.shows(when, fmt.Sprintf("ann:%d", r.latest["ann"]))
	}
	r.sweep(zed)
	check("the consumer goes on")
	r.losses(func(when string) {
		t.Helper()
		if when == earlierState {
			r.sweep(zed)
		}
		check(when)
		if left := r.entries(zed); len(left) > 0 {
			t.Errorf("%s: Redis has the user in %v", when, left)
		}
	}, "ann")
	for range 3 { // also after the erasure is finished
		for key, score := range older {
			if err := r.rdb.ZAdd(t.Context(), key, redis.Z{Score: score, Member: zed.String()}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		r.sweep(zed)
		check("an older Redis was swept")
	}
	r.upload("zed")
	for _, board := range r.boards {
		testenv.Eventually(t, board+" shows somebody new", func() bool {
			return r.ranked(board, "top") == fmt.Sprintf("zed:%d ann:%d", r.latest["zed"], r.latest["ann"])
		})
	}
}

// sweep lets the job sweep once more, as it does some minutes later, until Redis has nothing of
// an erased user.
func (r *lossyRun) sweep(user models.RowID) {
	r.t.Helper()
	r.jobs.Stop()
	r.cfg.Clock.Offset += 2 * time.Minute
	r.jobs = r.start("jobs")
	testenv.Eventually(r.t, "Redis has nothing of the user", func() bool { return len(r.entries(user)) == 0 })
}

// entries returns the score of a user in each sorted set that has the user.
func (r *lossyRun) entries(user models.RowID) map[string]float64 {
	r.t.Helper()
	return entriesOf(r.t, r.rdb, r.env.Keys, user)
}

func entriesOf(t *testing.T, rdb redis.UniversalClient, names keys.Builder, user models.RowID) map[string]float64 {
	t.Helper()
	found := make(map[string]float64)
	iter := rdb.ScanType(t.Context(), 0, names.Prefix+"*", 1000, "zset").Iterator()
	for iter.Next(t.Context()) {
		if score, err := rdb.ZScore(t.Context(), iter.Val(), user.String()).Result(); err == nil {
			found[iter.Val()] = score
		}
	}
	if err := iter.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}
