package handlers

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/cors"
)

// preflightAge is how long a browser may remember that a call is permitted. Chromium remembers
// it no longer than this.
const preflightAge = 2 * time.Hour

// permitOrigins lets pages of other origins make the calls under /v1, except those of phones, and read their answers,
// errors included. It also answers the preflight requests of browsers, which have no token. Calls need no cookies, so a page gets nothing without a token. Any header is permitted:
// libraries for traces add their own.
func permitOrigins(origins []string) gin.HandlerFunc {
	policy := cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{"Content-Disposition", "Retry-After", "WWW-Authenticate", requestIDHeader},
		MaxAge:         int(preflightAge.Seconds()),
	})
	return func(c *gin.Context) {
		if path := c.Request.URL.Path; !strings.HasPrefix(path, "/v1/") || isPhoneRoute(path) {
			return
		}
		policy.HandlerFunc(c.Writer, c.Request)
		if c.Request.Method == http.MethodOptions && c.GetHeader("Access-Control-Request-Method") != "" {
			c.Abort()
		}
	}
}
