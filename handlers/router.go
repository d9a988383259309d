// Package handlers is the HTTP API. A handler decodes, makes one service
// call, and answers; rules are in services, and errors.go alone knows what
// status an error has.
package handlers

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"stepboard/models"
	"stepboard/services/archive"
	"stepboard/services/auth"
	"stepboard/services/catalog"
	"stepboard/services/directory"
	"stepboard/services/friends"
	"stepboard/services/ingest"
	"stepboard/services/ledger"
	"stepboard/services/limit"
	"stepboard/services/ranking"
	"stepboard/services/stream"
	"stepboard/web"
)

// Deps is what the handlers call.
type Deps struct {
	Catalog     *catalog.Catalog
	Ingest      *ingest.Service
	Ledger      *ledger.Service
	Ranking     *ranking.Service
	Streams     *stream.Service
	Archive     *archive.Service
	DeadLetters *ingest.DeadLetters
	Friends     *friends.Service
	Users       *directory.Service
	Limits      *limit.Service
	Verifier    *auth.Verifier
	// TrustedProxies are the addresses and networks whose X-Forwarded-For is
	// believed.
	TrustedProxies []string
	// Ready names the stores that don't answer, with the reason.
	Ready    ReadyCheck
	Clock    models.Clock
	Registry *prometheus.Registry
	Log      *slog.Logger
	Version  string
	// ProbesOnly leaves out everything but health and metrics.
	ProbesOnly bool
	// Extra adds routes to the engine, for `demo`.
	Extra func(*gin.Engine)
	// Traces gets a trace of the calls that Sampled, asked once for each, says
	// yes to; nil: nothing is traced, and Sampled not asked.
	Traces  trace.TracerProvider
	Sampled func() bool
}

// api holds what the routes share.
type api struct {
	Deps
	metrics *metrics
}

// New builds the service's HTTP handler. It fails where a trusted proxy is no
// address.
func New(deps Deps) (http.Handler, error) {
	a := &api{Deps: deps, metrics: newMetrics(deps.Registry)}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.RedirectTrailingSlash = false
	engine.RemoteIPHeaders = []string{forwardedFor}
	if err := engine.SetTrustedProxies(deps.TrustedProxies); err != nil {
		return nil, fmt.Errorf("trusted proxies: %w", err)
	}
	if deps.Traces != nil {
		engine.Use(a.traced(), a.observe, describeSpan)
	} else {
		engine.Use(a.observe)
	}
	engine.NoRoute(nothingHere)
	engine.NoMethod(func(c *gin.Context) {
		writeProblem(c, models.Errorf(models.CodeMethodNotAllowed, "this path does not take %s", c.Request.Method))
	})
	a.probes(engine)
	if deps.ProbesOnly {
		return engine, nil
	}
	h := newHuma(engine, deps.Version)
	a.routes(h)
	describeMore(h.OpenAPI())
	pages(engine, web.New(deps.Extra != nil))
	if deps.Extra != nil {
		deps.Extra(engine)
	}
	return engine, nil
}

// routes is every call under /v1.
func (a *api) routes(h huma.API) {
	h.UseMiddleware(a.authenticate)

	register(h, http.MethodPost, "/v1/boards/{board}/scores", byUser, "Upload step totals", a.uploadScores, body[uploadBody])
	register(h, http.MethodPost, "/v1/boards/{board}/scores/batch", byService, "Upload step totals of many users", a.uploadBatch, body[batchBody])
	register(h, http.MethodPost, "/v1/boards/{board}/increments", byService, "Add to scores", a.addIncrements, body[incrementsBody])

	register(h, http.MethodGet, "/v1/boards", byAny, "List the boards", a.listBoards)
	register(h, http.MethodGet, "/v1/boards/{board}/friends", byUser, "Rank oneself among one's friends", a.friendsRanking)
	register(h, http.MethodGet, "/v1/boards/{board}/friends/stream", byUser, "Watch oneself among one's friends", a.streamFriends, eventStream)
	register(h, http.MethodGet, "/v1/boards/{board}/top", byAny, "Rank everybody", a.topRanking)
	register(h, http.MethodGet, "/v1/boards/{board}/around", byUser, "Rank one's neighbours among everybody", a.aroundRanking)
	register(h, http.MethodGet, "/v1/boards/{board}/me", byUser, "Tell where one stands", a.standing)
	register(h, http.MethodGet, "/v1/boards/{board}/history", byUser, "List one's days", a.history)

	register(h, http.MethodGet, "/v1/friends", byUser, "List one's friends", a.listFriends)
	register(h, http.MethodDelete, "/v1/friends/{id}", byUser, "End a friendship", a.removeFriend)
	register(h, http.MethodGet, "/v1/friends/requests", byUser, "List one's friend requests", a.listRequests)
	register(h, http.MethodPost, "/v1/friends/requests", byUser, "Ask somebody to be friends", a.askFriend)
	register(h, http.MethodPost, "/v1/friends/requests/{id}/accept", byUser, "Accept a request", a.acceptFriend)
	register(h, http.MethodDelete, "/v1/friends/requests/{id}", byUser, "Decline or withdraw a request", a.declineFriend)

	register(h, http.MethodPut, "/v1/me", byUser, "Set one's profile", a.putOwnProfile)
	register(h, http.MethodPut, "/v1/users/{id}", byService, "Set a user's profile", a.putProfile)
	register(h, http.MethodPut, "/v1/users/{id}/friends", byService, "Replace a user's friends", a.replaceFriends)

	register(h, http.MethodPost, "/v1/admin/boards", byAdmin, "Define a board", a.defineBoard, answers(http.StatusCreated))
	register(h, http.MethodGet, "/v1/admin/boards/{board}", byAdmin, "Show a board's definition", a.showBoard)
	register(h, http.MethodGet, "/v1/admin/archives", byAdmin, "List the runs of the archive", a.listArchives)
	register(h, http.MethodPost, "/v1/admin/archives", byAdmin, "Archive a day now", a.startArchive, answers(http.StatusAccepted))
	register(h, http.MethodGet, "/v1/admin/dead-letters", byAdmin, "List what could not be applied", a.listDeadLetters)
	register(h, http.MethodPost, "/v1/admin/dead-letters/{id}/replay", byAdmin, "Apply a dead letter after all", a.replayDeadLetter, answers(http.StatusNoContent))
	register(h, http.MethodDelete, "/v1/admin/dead-letters/{id}", byAdmin, "Give up a dead letter", a.deleteDeadLetter)
}

// probes is what machines ask of every process.
func (a *api) probes(engine *gin.Engine) {
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		engine.Handle(method, "/healthz", a.healthz)
		engine.Handle(method, "/readyz", a.readyz)
	}
	engine.GET("/metrics", gin.WrapH(promhttp.HandlerFor(a.Registry, promhttp.HandlerOpts{Registry: a.Registry})))
}
