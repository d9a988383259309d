package handlers

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

const (
	// readyTimeout bounds how long a probe waits for the stores.
	readyTimeout = 2 * time.Second
	// readyAge is how old the answer to a probe may be.
	readyAge = time.Second
)

// ReadyCheck finds out what the service can do now.
type ReadyCheck func(ctx context.Context) Readiness

// Readiness holds what a ReadyCheck has found.
type Readiness struct {
	// Stores has an entry for each store; a nil error means that it answers.
	Stores map[string]error
	// Degraded has an entry for each kind of work that is refused, or waits, although
	// the stores answer.
	Degraded map[string]error
}

// healthHandlers serves the probes of an orchestrator.
type healthHandlers struct {
	check ReadyCheck
	log   *slog.Logger

	mu    sync.Mutex
	asked time.Time
	found Readiness
}

// live reports that the process runs. It does not look at the stores, because
// restarting the service would not repair them.
func (h *healthHandlers) live(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"status": "ok"})
}

// ready reports which stores answer, and which work is refused, or waits, although they do:
// the service is ready nevertheless, because the other work is not affected.
func (h *healthHandlers) ready(c *gin.Context) {
	status, overall := http.StatusOK, "ok"
	checks := make(map[string]string)
	found := h.readiness(c.Request.Context())
	for store, err := range found.Stores {
		checks[store] = "ok"
		if err != nil {
			checks[store] = "unavailable"
			status, overall = http.StatusServiceUnavailable, "unavailable"
		}
	}
	body := gin.H{"status": overall, "checks": checks}
	if len(found.Degraded) > 0 {
		body["degraded"] = slices.Sorted(maps.Keys(found.Degraded))
	}
	c.JSON(status, body)
}

// readiness finds out what the service can do, at most once in readyAge, and logs why it can't
// do something. A client that gives up does not cancel the check, because the check would then
// report that the stores have failed.
func (h *healthHandlers) readiness(ctx context.Context) Readiness {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.asked) < readyAge {
		return h.found
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	h.found = h.check(ctx)
	h.asked = time.Now()
	for store, err := range h.found.Stores {
		if err != nil {
			h.log.WarnContext(ctx, "a store does not answer", "store", store, "error", err)
		}
	}
	for work, err := range h.found.Degraded {
		h.log.WarnContext(ctx, "some work is refused or waits", "work", work, "error", err)
	}
	return h.found
}
