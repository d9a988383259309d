package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

const (
	// spanUsers are friends of each other, and members of a group.
	spanUsers = 12
	// spanAskers is how many clients ask for the span at the same time: no more than run at a time
	// for one user.
	spanAskers = 2
)

// A process is killed at each step of archiving two days of a span, whose third day stays
// in Redis, while clients of another process ask for the span all the time. Each of their
// answers has exactly the sums: no day is missing and none counts twice.
func TestSoakSpansKilledAtEachStepOfTheArchive(t *testing.T) {
	t.Parallel()
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "archive")) {
		for day := range testenv.Rounds(1, 2) {
			// At the second time a step is reached, the first day is archived.
			step := fmt.Sprintf("%s#%d", step, day+1)
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				testSpanOfMovingDays(t, step)
			})
		}
	}
}

func testSpanOfMovingDays(t *testing.T, step string) {
	t.Helper()
	env := harness.Real(t)
	s := newMovingSpan(t, env)
	later := env.Config
	// The first two days are cold, the third one is for another day.
	later.Clock.Offset = time.Until(harness.DayBucket(t, env, (s.last - 1).String()).ColdAt.Add(2 * time.Hour)).Truncate(time.Second)
	reader := testenv.Serve(t, later, "--only=api")
	s.ask(reader)
	s.awaitAnswers(20)
	testenv.ServeUntil(t, step, later, "--only=jobs").Killed()
	s.awaitAnswers(20)
	testenv.Eventually(t, "Postgres has noticed the end of the process", func() bool {
		held := holders(t, env, leaseLock, "job/archive")
		for _, day := range []models.Date{s.last - 2, s.last - 1} {
			held = append(held, holders(t, env, leaseLock, "archive/steps/"+harness.DayBucket(t, env, day.String()).Name)...)
		}
		return len(held) == 0
	})
	testenv.Serve(t, later, "--only=jobs")
	testenv.Eventually(t, "both days are archived", func() bool {
		var complete int64
		err := env.Gorm.Raw(`SELECT count(DISTINCT bucket) FROM board_archives WHERE state = 'complete'`).Scan(&complete).Error
		return err == nil && complete == 2
	})
	s.awaitAnswers(20)
	s.stop()
}

// movingSpan is a span of three days whose scores do not change.
type movingSpan struct {
	t    testing.TB
	last models.Date
	want map[string]int64 // sums by user id
	path string           // of the ranking of the friends of user 1
	team string           // of that of a group

	answers atomic.Int64
	asking  sync.WaitGroup
	stop    func()
}

// newMovingSpan writes the scores, with a service that has ended when it returns.
func newMovingSpan(t testing.TB, env *testenv.Env) *movingSpan {
	t.Helper()
	s := &movingSpan{t: t, last: testenv.Must(models.ParseDate(harness.Today())), want: make(map[string]int64), stop: func() {}}
	first := s.last - 2
	p := testenv.Serve(t, env.Config)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	must := func(method, path, body string) {
		t.Helper()
		status, text, err := harness.Request(t.Context(), client, harness.Token(t, "backend", auth.ScopeService), method, p.URL+path, body)
		if err != nil || status >= http.StatusMultipleChoices {
			t.Fatalf("%s %s: %d %s, %v", method, path, status, text, err)
		}
	}
	members, scores := "", ""
	for user := 1; user <= spanUsers; user++ {
		for day := first; day <= s.last; day++ {
			// Each score tells its day and user, so that a wrong sum says what is wrong.
			points := int64(1+int(day-first)*100) * int64(user)
			s.want[strconv.Itoa(user)] += points
			scores += fmt.Sprintf(`,{"user_id":"%d","date":%q,"score":%d}`, user, day, points)
		}
		members += fmt.Sprintf(`,"%d"`, user)
	}
	must("POST", "/v1/boards/steps/scores/batch", `{"scores":[`+scores[1:]+`]}`)
	must("PUT", "/v1/users/1/friends", `{"friend_ids":[`+members[len(`,"1",`):]+`]}`)
	must("PUT", "/v1/groups/team/members", `{"member_ids":[`+members[1:]+`]}`)
	p.Stop()
	query := fmt.Sprintf("?limit=200&from=%s&to=%s", first, s.last)
	s.path, s.team = "/v1/boards/steps/friends"+query, "/v1/boards/steps/groups/team"+query
	return s
}

// ask asks for the rankings until stop is called.
func (s *movingSpan) ask(p *testenv.Process) {
	ctx, cancel := context.WithCancel(s.t.Context())
	s.stop = func() {
		cancel()
		testenv.Wait(s.t, "the questions end", &s.asking)
	}
	s.t.Cleanup(s.stop)
	token := harness.Token(s.t, "1", "")
	for i := range spanAskers {
		s.asking.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for n := i; ctx.Err() == nil; n++ {
				path := s.path
				if n%2 == 1 {
					path = s.team
				}
				status, text, err := harness.Request(ctx, client, token, http.MethodGet, p.URL+path, "")
				if ctx.Err() == nil {
					s.check(path, status, text, err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(harness.Pace):
				}
			}
		})
	}
}

// check checks an answer.
func (s *movingSpan) check(path string, status int, text string, err error) {
	var r models.Ranking
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(text), &r)
	}
	switch {
	case err != nil:
		s.t.Errorf("%s: %v", path, err)
	case status == http.StatusServiceUnavailable: // nothing was answered
	case status != http.StatusOK:
		s.t.Errorf("%s: %d %s", path, status, text)
	default:
		got := make(map[string]int64)
		for _, e := range r.Entries {
			got[string(e.User)] = e.Score
		}
		if !maps.Equal(got, s.want) || r.Total != spanUsers {
			s.t.Errorf("%s: %d people from %s, %v, want %v", path, r.Total, r.Source, got, s.want)
		}
		s.answers.Add(1)
	}
}

// awaitAnswers waits for n more answers.
func (s *movingSpan) awaitAnswers(n int64) {
	s.t.Helper()
	enough := s.answers.Load() + n
	testenv.Eventually(s.t, "the span is answered", func() bool { return s.answers.Load() >= enough })
}
