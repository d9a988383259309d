package e2e_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/stream"
)

// looks matches the number of users that were looked at, in the metrics.
var looks = regexp.MustCompile(`stepboard_job_rows_total\{job="passed"\} (\d+)`)

// Whoever wants to know is told that a friend has passed them: by webhook, and in the open stream.
func TestPassed(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	backend := newBackend(t)
	backend.use(&env.Config)
	env.Config.Passed.Every = time.Second
	s := newStreamServer(t, env, stream.Limits{})
	looked := func() (n int) {
		for _, found := range looks.FindAllStringSubmatch(string(s.call("", "GET", "/metrics", nil).body), -1) {
			n = testenv.Must(strconv.Atoi(found[1]))
		}
		return n
	}
	day := models.DateOf(testenv.Noon)
	s.want(s.service("PUT", "/v1/users/2", `{"nickname":"BEN"}`), 200, nil)
	s.uploadDay(day, map[models.UserID]int{"1": 100, "2": 50})
	s.want(s.as("1", "PUT", "/v1/me/push", `{"tell":["passed"]}`), 200, nil)
	testenv.Eventually(t, "the user is looked at", func() bool { return looked() > 0 })
	e := s.subscribe("1")
	s.uploadDay(day, map[models.UserID]int{"2": 200})
	name, data, ok := e.next()
	for ok && name != "passed" {
		name, data, ok = e.next()
	}
	const want = `{"board":"steps","date":"2026-11-20","user_id":"1","rank":2,"was":1,"passed_by":[{"user_id":"2","nickname":"BEN"}]}`
	if data != want {
		t.Errorf("the stream has %s, want %s", data, want)
	}
	if got := backend.received(t, models.OutcomeRankPassed, 1); got[0] != want {
		t.Errorf("the webhook has %s, want %s", got[0], want)
	}
}
