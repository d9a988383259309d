package handlers

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// readyTimeout bounds how long a probe waits for the stores.
const readyTimeout = 2 * time.Second

// ReadyCheck asks every store whether it answers; a nil error means yes.
type ReadyCheck func(ctx context.Context) map[string]error

// healthz says that the process lives, and nothing of its stores: restarting
// the service would not mend them.
func (a *api) healthz(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"status": "ok"})
}

// readyz says whether the stores answer, and which does not. Why not is in
// the log.
func (a *api) readyz(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
	defer cancel()
	status, overall := http.StatusOK, "ok"
	checks := make(map[string]string)
	for store, err := range a.Ready(ctx) {
		checks[store] = "ok"
		if err != nil {
			checks[store] = "unavailable"
			status, overall = http.StatusServiceUnavailable, "unavailable"
			a.Log.WarnContext(ctx, "a store does not answer", "store", store, "error", err)
		}
	}
	c.JSON(status, gin.H{"status": overall, "checks": checks})
}
