package crash_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

const (
	stepperCount = 6
	shardedUsers = 40
	fixedScore   = 1000 // of these users, who upload only once
)

// steppers upload growing totals to a sharded board, and read their friend
// ranking and the ranking around them, until end.
type steppers struct {
	*traffic
	// allowed reports whether a call may fail like this.
	allowed func(status int, err error) bool
	date    string

	mu             sync.Mutex
	promised, sent map[models.UserID]int64
}

func startSteppers(t testing.TB, url string, may func(status int, err error) bool) *steppers {
	s := &steppers{traffic: newTraffic(t, url), allowed: may, date: harness.Today(), promised: make(map[models.UserID]int64), sent: make(map[models.UserID]int64)}
	for number := range stepperCount {
		id := testenv.ID(number + 1)
		bearer := harness.Token(t, id, "")
		s.wg.Go(func() { s.run(id, bearer) })
	}
	return s
}

func (s *steppers) run(id models.UserID, bearer string) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for total := int64(1); ; total++ {
		select {
		case <-s.stop:
			return
		default:
		}
		s.mu.Lock()
		s.sent[id] = total
		s.mu.Unlock()
		if _, ok := s.ask(client, bearer, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, s.date, total)); ok {
			s.mu.Lock()
			s.promised[id] = total
			s.mu.Unlock()
		}
		if text, ok := s.ask(client, bearer, "GET", "/v1/boards/steps/friends?limit=100&date="+s.date, ""); ok {
			// The other users keep their score, whatever shard they are on.
			if n := strings.Count(text, fmt.Sprintf(`"score":%d,`, fixedScore)); n < shardedUsers {
				s.t.Errorf("%d of %d friends have their score: %s", n, shardedUsers, text)
				return
			}
		}
		s.ask(client, bearer, "GET", "/v1/boards/steps/around?date="+s.date, "")
	}
}

// ask makes one call; ok is false if it failed.
func (s *steppers) ask(client *http.Client, bearer, method, path, body string) (text string, ok bool) {
	status, text, err := harness.Request(s.t.Context(), client, bearer, method, *s.url.Load()+path, body)
	switch {
	case err == nil && (status == http.StatusOK || status == http.StatusAccepted):
		s.done.Add(1)
		return text, true
	case s.allowed(status, err):
		s.refused.Add(1)
		<-time.After(5 * time.Millisecond)
	default:
		s.t.Errorf("%s %s: %d %s %v", method, path, status, text, err)
	}
	return "", false
}

// check compares the board with the uploads, as harness.CheckPromised does. It
// may be used only if Redis has lost nothing.
func (s *steppers) check(env *testenv.Env) {
	s.t.Helper()
	harness.CheckPromised(s.t, env, env.Redis, harness.DayBucket(s.t, env, s.date), s.promised, s.sent)
}

// sharded starts a process with boards of 16 shards on another Redis, numbers the
// users that these tests name, and calls befriend.
func sharded(t testing.TB, use func(*config.Redis)) (*testenv.Env, *testenv.Process) {
	t.Helper()
	env := harness.RealOn(t, use)
	testenv.NumberUsers(t, env, 200)
	p := testenv.Serve(t, env.Config, giftBoards(16))
	befriend(t, p.URL)
	return env, p
}

// befriend gives each stepper the same 40 friends, and each of these a score.
func befriend(t testing.TB, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	call := func(user models.UserID, scope, method, path, body string) {
		status, text, err := harness.Request(t.Context(), client, harness.Token(t, user, scope), method, url+path, body)
		if err != nil || (status != http.StatusOK && status != http.StatusAccepted) {
			t.Fatal(status, text, err)
		}
	}
	still := make([]string, shardedUsers)
	for i := range still {
		user := testenv.ID(100 + i)
		still[i] = fmt.Sprintf("%q", user)
		call(user, "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, harness.Today(), fixedScore))
	}
	for number := range stepperCount {
		call("1", auth.ScopeService, "PUT", fmt.Sprintf("/v1/users/%d/friends", number+1), `{"friend_ids":[`+strings.Join(still, ",")+`]}`)
	}
}
