package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
)

// The histogram of calls has those of the API: not probes, pages, exports and streams.
func TestDurations(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	durations := handlers.NewDurations()
	api := newAPI(t, handlers.Config{Status: state{r}, Ready: func(context.Context) handlers.Readiness { return handlers.Readiness{} }, Durations: durations})
	for _, request := range []string{
		"GET /v1/admin/status", "GET /v1/admin/status", "GET /healthz", "GET /console", "GET /v1/nothing", "GET /v1/boards/steps/friends/stream",
	} {
		send(t, api, "admin", request, "")
	}
	var calls int64
	for _, n := range durations.Calls() {
		calls += n
	}
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}
