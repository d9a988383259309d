package e2e_test

import (
	"context"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

// A machine whose clock is days ahead starts no service.
func TestAWrongClockStartsNoService(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	verifier := auth.NewVerifier(auth.VerifierConfig{})
	defer verifier.Close()
	for _, ahead := range []time.Duration{48 * time.Hour, -2 * time.Minute} {
		_, err := app.Build(t.Context(), app.Options{
			Config: env.Config, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log,
			Verifier: verifier, Roles: app.AllRoles(),
			Machine: func() time.Time { return time.Now().Add(ahead) },
		})
		if err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("%v ahead: %v", ahead, err)
		}
	}
}

// A process whose clock moves days ahead archives nothing, and neither drains nor
// raises a rolling board, until the clock is right again.
func TestAWrongClockMovesNothing(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	var ahead atomic.Int64
	s := newServerOf(t, env, func(o *app.Options) {
		o.Machine = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}, withEvents)
	s.waitForStartJobs()
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":7}`), 200, nil)
	gift := func(id string) answer {
		return s.service("POST", "/v1/boards/active/increments", `{"user_id":"1","delta":5,"event_id":"`+id+`"}`)
	}
	s.want(gift("in-time"), 200, nil)
	const days = 10 * 24 * time.Hour
	ahead.Store(int64(days))
	env.Clock.Advance(days)
	start := func() answer {
		return s.admin("POST", "/v1/admin/archives", bucketOf("steps", "2026-11-20"))
	}
	if a := start(); a.status != 503 {
		t.Errorf("an archive run is answered %d %s", a.status, a.body)
	}
	if a := gift("too-early"); a.status != 503 {
		t.Errorf("an increment is answered %d %s", a.status, a.body)
	}
	metrics := func(pattern string) bool {
		return regexp.MustCompile(pattern).Match(s.call("", "GET", "/metrics", nil).body)
	}
	for _, job := range []string{"roll", "reconcile"} {
		testenv.Eventually(t, "job "+job+" refuses to run", func() bool {
			return metrics(`(?m)^stepboard_job_failures_total\{job="` + job + `"\} [1-9]`)
		})
	}
	if !metrics(`(?m)^stepboard_clock_drift_seconds 8[67]\d\d\d\d`) { // ten days
		t.Error("the metric does not report the drift")
	}
	n, err := env.Redis.ZCard(context.Background(), env.Keys.Board(testenv.Bucket(1), 0)).Result()
	if err != nil || n != 1 {
		t.Errorf("the board holds %d users, %v", n, err)
	}
	ahead.Store(0)
	if a := start(); a.status != 202 {
		t.Errorf("with the clock right again, an archive run is answered %d %s", a.status, a.body)
	}
}
