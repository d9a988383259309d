package handlers

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
)

// readyTimeout bounds how long a probe waits for the stores.
const readyTimeout = 2 * time.Second

// ReadyCheck finds out what the service can do now.
type ReadyCheck func(ctx context.Context) Readiness

// Readiness holds what a ReadyCheck has found.
type Readiness struct {
	// Stores has an entry for each store; a nil error means that it answers.
	Stores map[string]error
	// Degraded has an entry for each kind of work that is refused although the
	// stores answer.
	Degraded map[string]error
}

// healthHandlers serves the probes of an orchestrator.
type healthHandlers struct {
	check ReadyCheck
	log   *slog.Logger
}

// live reports that the process runs. It does not look at the stores, because
// restarting the service would not repair them.
func (h *healthHandlers) live(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"status": "ok"})
}

// ready reports which stores answer, and which work is refused although they do:
// the service is ready nevertheless, because the other work is not affected. The
// reasons go to the log.
func (h *healthHandlers) ready(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
	defer cancel()
	status, overall := http.StatusOK, "ok"
	checks := make(map[string]string)
	found := h.check(ctx)
	for store, err := range found.Stores {
		checks[store] = "ok"
		if err != nil {
			checks[store] = "unavailable"
			status, overall = http.StatusServiceUnavailable, "unavailable"
			h.log.WarnContext(ctx, "a store does not answer", "store", store, "error", err)
		}
	}
	body := gin.H{"status": overall, "checks": checks}
	if len(found.Degraded) > 0 {
		work := slices.Sorted(maps.Keys(found.Degraded))
		for _, name := range work {
			h.log.WarnContext(ctx, "some work is refused", "work", name, "error", found.Degraded[name])
		}
		body["degraded"] = work
	}
	c.JSON(status, body)
}
