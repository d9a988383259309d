package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"stepboard/config"
	"stepboard/internal/testenv"
)

// If the queue shares the boards' Redis, uploads are refused before its memory is
// used up. So the updates that were accepted can be applied.
func TestNearlyFullRedisRefusesUploads(t *testing.T) {
	t.Parallel()
	node := testenv.StartRedis(t)
	env := testenv.RealOn(t, node.Use)
	s := newServer(t, env, func(c *config.Config) { c.Ingest.Mode = "redis" })
	upload := func() int {
		return s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":7}`).status
	}
	ready := func(status int, part string) bool {
		a := s.call("", "GET", "/readyz", nil)
		return a.status == status && strings.Contains(string(a.body), part)
	}
	if status := upload(); status != http.StatusAccepted {
		t.Fatalf("an upload is answered %d", status)
	}
	testenv.Eventually(t, "the service is ready", func() bool { return ready(200, `"redis_memory":"ok"`) })

	node.FillMemory(0.95)
	testenv.Eventually(t, "uploads are refused", func() bool { return upload() == http.StatusServiceUnavailable })
	testenv.Eventually(t, "/readyz reports that the memory is nearly used up", func() bool {
		return ready(503, `"redis_memory":"unavailable"`) && ready(503, `"redis":"ok"`)
	})
	if metrics := string(s.call("", "GET", "/metrics", nil).body); !strings.Contains(metrics, "stepboard_redis_memory_used_ratio 0.9") {
		t.Error("the metrics do not report it either")
	}
	testenv.Eventually(t, "accepted updates are applied", func() bool {
		a := s.as("1", "GET", "/v1/boards/steps/me?date=2026-11-20", nil)
		return strings.Contains(string(a.body), `"score":7`)
	})

	node.LimitMemory(0)
	testenv.Eventually(t, "uploads are accepted again", func() bool { return upload() == http.StatusAccepted })
	testenv.Eventually(t, "/readyz reports the end of it", func() bool { return ready(200, `"redis_memory":"ok"`) })
}
