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
	"stepboard/services/cache"
	"stepboard/services/friends"
)

const (
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
	promised, sent map[models.RowID]int64
}

func startSteppers(t testing.TB, url string, may func(status int, err error) bool) *steppers {
	s := &steppers{traffic: newTraffic(t, url), allowed: may, date: harness.Today(), promised: make(map[models.RowID]int64), sent: make(map[models.RowID]int64)}
	for id := range models.RowID(6) {
		bearer := harness.Token(t, id+1, "")
		s.wg.Go(func() { s.run(id+1, bearer) })
	}
	return s
}

func (s *steppers) run(id models.RowID, bearer string) {
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

// sharded starts a process with boards of 16 shards on another Redis, and calls
// befriend.
func sharded(t testing.TB, use func(*config.Redis)) (*testenv.Env, *testenv.Process) {
	t.Helper()
	env := testenv.RealOn(t, use)
	env.Config.Auth.HS256Secret = harness.Secret
	p := testenv.Serve(t, env.Config, giftBoards(16))
	befriend(t, env, p.URL)
	return env, p
}

// befriend gives each stepper the same 40 friends, and each of these a score.
func befriend(t testing.TB, env *testenv.Env, url string) {
	t.Helper()
	f := friends.New(friends.NewStore(env.Gorm), cache.NewStore(env.Redis, env.Keys), env.Log)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	still := make([]models.RowID, shardedUsers)
	for i := range still {
		still[i] = models.RowID(100 + i)
		body := fmt.Sprintf(`{"date":%q,"score":%d}`, harness.Today(), fixedScore)
		status, text, err := harness.Request(t.Context(), client, harness.Token(t, still[i], ""), "POST", url+"/v1/boards/steps/scores", body)
		if err != nil || (status != http.StatusOK && status != http.StatusAccepted) {
			t.Fatal(status, text, err)
		}
	}
	for id := range models.RowID(6) {
		if err := f.Replace(t.Context(), id+1, still); err != nil {
			t.Fatal(err)
		}
	}
}
