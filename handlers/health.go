package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// readyTimeout bounds how long a probe waits for the stores.
const readyTimeout = 2 * time.Second

// ReadyCheck asks every store whether it answers. It returns an entry for
// each; a nil error means that the store answers.
type ReadyCheck func(ctx context.Context) map[string]error

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

// ready reports which stores answer. The reasons of those that don't go to the
// log.
func (h *healthHandlers) ready(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
	defer cancel()
	status, overall := http.StatusOK, "ok"
	checks := make(map[string]string)
	for store, err := range h.check(ctx) {
		checks[store] = "ok"
		if err != nil {
			checks[store] = "unavailable"
			status, overall = http.StatusServiceUnavailable, "unavailable"
			h.log.WarnContext(ctx, "a store does not answer", "store", store, "error", err)
		}
	}
	c.JSON(status, gin.H{"status": overall, "checks": checks})
}
