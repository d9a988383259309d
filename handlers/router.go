// Package handlers is the HTTP API. A handler decodes the request, makes one
// call of a service and encodes the answer. Rules are in the services, and
// errors.go gives each error its status.
package handlers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"stepboard/internal/reading"
	"stepboard/models"
	"stepboard/web"
)

// Config holds what New builds the API from. New gives each handler only the
// service that it calls.
type Config struct {
	// The services behind the calls under /v1.
	Scores         ScoreService
	Increments     IncrementService
	Boards         BoardService
	Rankings       RankingService
	Absent         AbsentService
	Likes          LikeService
	History        HistoryService
	Explanations   ExplanationService
	Streams        StreamService
	Friends        FriendService
	FriendRequests FriendRequestService
	Invites        InviteService
	Groups         GroupServices
	Competitions   CompetitionService
	// CompetitionDefinitions defines the competitions that Competitions shows.
	CompetitionDefinitions CompetitionDefinitions

	Profiles ProfileService
	Privacy  PrivacyService
	Push     PushService
	Phones   PhoneService
	WeChat   WeChatService
	Logins   LoginLimiter
	Sessions interface {
		SessionService
		SessionChecker
		OperatorService
	}
	Providers ProviderService
	// Finder finds users who have signed up, and Cookies says how sessions are kept.
	Finder       models.Finder
	Cookies      Cookies
	Archives     ArchiveService
	DeadLetters  DeadLetterService
	Reviews      ReviewService
	Holds        HoldService
	Corrections  CorrectionService
	Deliveries   DeliveryService
	Erasures     ErasureService
	Audit        AuditLog
	Status       StatusService
	BucketStates BucketLister
	Users        SupportService
	Buckets      interface {
		CurrentBuckets
		BucketFinder
	}

	// CheckErasures returns an error while this process may not know who was erased. Nothing
	// about users may be written to SQL then.
	CheckErasures func(ctx context.Context) error
	// Cursors seals the positions behind pages.
	Cursors CursorSealer
	// Tokens checks the token of every call under /v1, and Limits counts the
	// call.
	Tokens TokenVerifier
	Limits RateLimiter
	// LimitAddresses reports whether calls or streams are limited by address.
	LimitAddresses bool
	// TrustedProxies are the addresses and networks of proxies whose
	// X-Forwarded-For is believed.
	TrustedProxies []string

	Ready ReadyCheck
	// Queue measures the queue of uploads; nil without one.
	Queue    QueueLag
	Clock    models.Clock
	Registry *prometheus.Registry
	// Durations measures requests; nil if nobody else reads it.
	Durations *Durations
	Log       *slog.Logger
	// Requests writes the line of each request, however many there are.
	Requests *slog.Logger
	Version  string
	// Grafana is the address of the operators' dashboard, and Login that of the app's login; both may
	// be empty.
	Grafana, Login string
	// Folder says that the service runs on a data folder, whose secret signs tokens.
	Folder bool
	// Traces receives a trace of each call for which Sampled returns true. If
	// Traces is nil, nothing is traced and Sampled is not called.
	Traces  trace.TracerProvider
	Sampled func() bool

	// Origins are those whose pages may make calls, such as https://app.example.com, or * for all;
	// empty for none.
	Origins []string
	// BasePath is the path that a proxy serves everything below, such as /steps; may be empty.
	BasePath string
	// MetricsElsewhere leaves out /metrics, which has an address of its own.
	MetricsElsewhere bool
	// ProbesOnly leaves out everything but health and metrics.
	ProbesOnly bool
	// Extra adds routes to the engine; nil adds none. It is used by `demo`.
	Extra func(*gin.Engine)
}

// routes registers every call under /v1.
func (c *Config) routes(api huma.API, m *metrics) {
	rankings := &rankingHandlers{c.Rankings, c.Boards, c.Log}
	scores := &scoreHandlers{c.Scores, c.Boards, rankings, m.uploads}
	registerForUser(api, "POST /v1/boards/{board}/scores", scores.upload, uploadScores)
	register(api, "POST /v1/boards/{board}/scores/batch", byService, scores.uploadBatch, uploadBatch)
	increments := &incrementHandlers{c.Increments, rankings, m.uploads}
	register(api, "POST /v1/boards/{board}/increments", byService, increments.add, addIncrements)

	boards := &boardHandlers{c.Boards, c.Buckets, c.Clock}
	register(api, "GET /v1/boards", byAny, boards.list, listBoards)
	registerForQuery(api, "GET /v1/boards/{board}/friends", rankings.friends, rankFriends)
	streams := &streamHandlers{c.Streams}
	registerForUser(api, "GET /v1/boards/{board}/friends/stream", streams.friends, streamFriends)
	registerForQuery(api, "GET /v1/boards/{board}/groups/{group}", rankings.group, rankGroup)
	registerForUser(api, "GET /v1/boards/{board}/groups/{group}/stream", streams.group, streamGroup)
	absent := &absentHandlers{c.Absent}
	registerForQuery(api, "GET /v1/boards/{board}/friends/absent", absent.friends, listAbsentFriends)
	registerForQuery(api, "GET /v1/boards/{board}/groups/{group}/absent", absent.members, listAbsentMembers)
	register(api, "GET /v1/boards/{board}/top", byAny, rankings.top, rankTop)
	registerForUser(api, "GET /v1/boards/{board}/around", rankings.around, rankAround)
	registerForQuery(api, "GET /v1/boards/{board}/me", rankings.me, rankMe)
	explanations := &explanationHandlers{c.Explanations}
	registerForQuery(api, "GET /v1/boards/{board}/me/explain", explanations.own, explainOwn)
	likes := &likeHandlers{c.Likes}
	registerForQuery(api, "GET /v1/boards/{board}/likes/{id}", likes.list, listLikes)
	registerForQuery(api, "PUT /v1/boards/{board}/likes/{id}", likes.give, giveLike)
	registerForQuery(api, "DELETE /v1/boards/{board}/likes/{id}", likes.withdraw, withdrawLike)
	history := &historyHandlers{c.History}
	registerForQuery(api, "GET /v1/boards/{board}/history", history.list, listHistory)
	registerForQuery(api, "GET /v1/boards/{board}/summary", history.sum, sumDays)

	friends := &friendHandlers{c.Friends, c.Cursors}
	registerForUser(api, "GET /v1/friends", friends.list, listFriends)
	registerForUser(api, "DELETE /v1/friends/{id}", friends.remove, removeFriend)
	inviting := &inviteHandlers{c.Invites}
	registerForUser(api, "GET /v1/me/invite", inviting.get, getInvite)
	registerForUser(api, "POST /v1/me/invite", inviting.renew, renewOwnInvite)
	registerForUser(api, "GET /v1/friends/invites/{code}", inviting.inviter, getInviter)
	registerForUser(api, "POST /v1/friends/join", inviting.join, joinFriend)
	requests := &friendRequestHandlers{c.FriendRequests, c.Cursors}
	registerForUser(api, "GET /v1/friends/requests", requests.list, listFriendRequests)
	registerForUser(api, "POST /v1/friends/requests", requests.send, sendFriendRequest)
	registerForUser(api, "POST /v1/friends/requests/{id}/accept", requests.accept, acceptFriendRequest)
	registerForUser(api, "DELETE /v1/friends/requests/{id}", requests.decline, declineFriendRequest)

	hiding := &privacyHandlers{c.Privacy}
	registerForUser(api, "GET /v1/me/privacy", hiding.get, getPrivacy)
	registerForUser(api, "PUT /v1/me/privacy", hiding.set, setPrivacy)
	telling := &pushHandlers{c.Push}
	registerForUser(api, "GET /v1/me/push", telling.get, getPush)
	registerForUser(api, "PUT /v1/me/push", telling.set, setPush)
	registerForUser(api, "DELETE /v1/me/push", telling.end, endPush)
	addresses := &addressHandlers{c.Phones}
	registerForUser(api, "POST /v1/me/upload-addresses", addresses.add, addUploadAddress)
	registerForUser(api, "GET /v1/me/upload-addresses", addresses.list, listUploadAddresses)
	registerForUser(api, "PUT /v1/me/upload-addresses/{address}", addresses.change, changeUploadAddress)
	registerForUser(api, "DELETE /v1/me/upload-addresses/{address}", addresses.revoke, revokeUploadAddress)
	register(api, "GET /v1/admin/users/{id}/upload-addresses", byAdmin, addresses.listForOperator, listUploadAddressesOfUser)
	registerAudited(api, c.Audit, "DELETE /v1/admin/users/{id}/upload-addresses/{address}", addresses.revokeAsOperator, revokeUploadAddressOfUser)
	received := &phoneHandlers{c.Phones, c.Limits, scores, m.phones}
	register(api, "POST /v1/in/{key}", byKey, received.take, takeFromPhone)
	register(api, "POST /v1/in", byKey, received.takeByHeader, takeFromPhoneByHeader)
	programs := &wechatHandlers{c.WeChat, c.Logins, scores}
	devices := &sessionHandlers{c.Sessions, c.Providers, c.Logins}
	register(api, "GET /v1/sign-in", byNobody, devices.how, getSignIn)
	register(api, "POST /v1/session/code", byCookie, devices.about, describeCode)
	register(api, "POST /v1/session", byCookie, devices.open, openSession)
	register(api, "POST /v1/session/token", byCookie, devices.token, getSessionToken)
	register(api, "DELETE /v1/session", byCookie, devices.end, endSession)
	registerForUser(api, "GET /v1/me/sessions", devices.list, listSessions)
	registerForUser(api, "DELETE /v1/me/sessions/{session}", devices.endOne, endSessionOf)
	registerForUser(api, "POST /v1/me/sign-in-codes", devices.makeCode, makeSignInCode)
	registerAudited(api, c.Audit, "POST /v1/admin/users/{id}/sign-in-codes", devices.makeCodeOf, makeSignInCodeOfUser)
	registerAudited(api, c.Audit, "POST /v1/admin/sign-in-codes", devices.makeCards, makeCards)
	operators := &operatorHandlers{c.Sessions}
	register(api, "GET /v1/admin/operators", byAdmin, operators.list, listOperators)
	registerAudited(api, c.Audit, "PUT /v1/admin/operators/{id}", operators.add, addOperator)
	registerAudited(api, c.Audit, "DELETE /v1/admin/operators/{id}", operators.remove, removeOperator)
	register(api, "GET /v1/admin/users/{id}/came-by", byAdmin, operators.cameBy, getCameBy)
	register(api, "POST /v1/wechat/sessions", byNobody, programs.logIn, logInByWeChat)
	registerForUser(api, "POST /v1/wechat/steps", programs.upload, uploadFromWeChat)
	c.choices(api, "/v1/hidden-from", models.HiddenFrom, hidingFrom)
	c.choices(api, "/v1/muted", models.Muted, muting)
	c.choices(api, "/v1/blocked", models.Blocked, blocking)
	groups := &groupHandlers{c.Groups, c.Cursors}
	registerForUser(api, "GET /v1/groups", groups.list, listGroups)
	registerForUser(api, "POST /v1/groups", groups.create, createGroup)
	registerForUser(api, "PUT /v1/groups/{group}", groups.change, changeGroup)
	registerForUser(api, "DELETE /v1/groups/{group}", groups.end, deleteGroup)
	registerForUser(api, "POST /v1/groups/{group}/invite", groups.renew, renewInvite)
	registerForUser(api, "GET /v1/group-invites/{code}", groups.invitation, getGroupInvitation)
	registerForUser(api, "POST /v1/groups/join", groups.join, joinGroup)
	registerForUser(api, "GET /v1/groups/{group}", groups.show, getGroup)
	registerForUser(api, "DELETE /v1/groups/{group}/members/{id}", groups.remove, removeMember)
	register(api, "PUT /v1/groups/{group}/members", byService, groups.replace, replaceMembers)

	c.competitions(api)

	profiles := &profileHandlers{c.Profiles}
	registerForUser(api, "GET /v1/me", profiles.getOwn, getOwnProfile)
	registerForUser(api, "PUT /v1/me", profiles.putOwn, putOwnProfile)
	register(api, "PUT /v1/users/{id}", byService, profiles.put, putProfile)
	register(api, "POST /v1/users/{id}/rename", byService, profiles.rename, renameUser)
	register(api, "PUT /v1/users/{id}/friends", byService, friends.replace, replaceFriends)

	erasures := &erasureHandlers{c.Erasures, c.Cursors}
	registerForUser(api, "DELETE /v1/me", erasures.eraseSelf, eraseSelf)
	registerForUser(api, "GET /v1/me/export", erasures.exportSelf, exportSelf)
	register(api, "GET /v1/admin/users/{id}/export", byAdmin, erasures.exportUser, exportUser)
	register(api, "DELETE /v1/users/{id}", byService, erasures.eraseUser, eraseUser)
	registerAudited(api, c.Audit, "DELETE /v1/admin/users/{id}", erasures.eraseAsOperator, eraseUserAsOperator)
	register(api, "GET /v1/admin/erasures", byAdmin, erasures.list, listErasures)

	registerAudited(api, c.Audit, "POST /v1/admin/boards", boards.define, defineBoard)
	register(api, "GET /v1/admin/boards/{board}", byAdmin, boards.show, showBoard)
	registerAudited(api, c.Audit, "PUT /v1/admin/boards/{board}", boards.moveEnd, moveEnd)
	states := &bucketHandlers{c.BucketStates, c.Cursors}
	register(api, "GET /v1/admin/boards/{board}/buckets", byAdmin, states.list, listBuckets)
	users := &supportHandlers{c.Users, c.Cursors}
	register(api, "GET /v1/admin/users", byAdmin, users.find, findUsers)
	register(api, "GET /v1/admin/users/{id}", byAdmin, users.show, getUser)
	register(api, "GET /v1/admin/users/{id}/explain", byAdmin, explanations.ofUser, explainUser)
	archives := &archiveHandlers{c.Archives, c.Boards, c.Buckets, c.Cursors}
	register(api, "GET /v1/admin/archives", byAdmin, archives.list, listArchives)
	registerAudited(api, c.Audit, "POST /v1/admin/archives", archives.start, startArchive)
	corrections := &correctionHandlers{c.Corrections, c.Cursors}
	registerAudited(api, c.Audit, "POST /v1/admin/corrections", corrections.create, createCorrection)
	registerAudited(api, c.Audit, "POST /v1/admin/corrections/{id}/lift", corrections.lift, liftCorrection)
	register(api, "GET /v1/admin/corrections", byAdmin, corrections.list, listCorrections)
	deadLetters := &deadLetterHandlers{c.DeadLetters, c.Cursors}
	register(api, "GET /v1/admin/dead-letters", byAdmin, deadLetters.list, listDeadLetters)
	registerAudited(api, c.Audit, "POST /v1/admin/dead-letters/{id}/replay", deadLetters.replay, replayDeadLetter)
	registerAudited(api, c.Audit, "DELETE /v1/admin/dead-letters/{id}", deadLetters.delete, deleteDeadLetter)
	registerAudited(api, c.Audit, "POST /v1/admin/dead-letters/replay", deadLetters.replaySelected, replayDeadLetters)
	registerAudited(api, c.Audit, "POST /v1/admin/dead-letters/delete", deadLetters.deleteSelected, deleteDeadLetters)
	reviews := &reviewHandlers{c.Reviews, c.Cursors}
	register(api, "GET /v1/admin/reviews", byAdmin, reviews.list, listReviews)
	registerAudited(api, c.Audit, "POST /v1/admin/reviews/{id}/dismiss", reviews.dismiss, dismissReview)

	holds := &holdHandlers{c.Holds, c.Cursors}
	register(api, "GET /v1/admin/holds", byAdmin, holds.list, listHolds)
	registerAudited(api, c.Audit, "POST /v1/admin/holds/{id}/release", holds.release, releaseHold)
	registerAudited(api, c.Audit, "POST /v1/admin/holds/{id}/reject", holds.reject, rejectHold)
	deliveries := &deliveryHandlers{c.Deliveries, c.Cursors}
	register(api, "GET /v1/admin/webhooks/deliveries", byAdmin, deliveries.list, listDeliveries)
	registerAudited(api, c.Audit, "POST /v1/admin/webhooks/deliveries/{id}/replay", deliveries.replay, replayDelivery)
	state := &statusHandlers{c.Status, c.Ready, c.Queue, c.Clock, c.Version, c.Grafana, c.Log}
	register(api, "GET /v1/admin/status", byAdmin, state.get, getStatus)
	log := &auditHandlers{c.Audit, c.Cursors}
	register(api, "GET /v1/admin/audit", byAdmin, log.list, listAudit)
}

// competitions registers the calls about competitions.
func (c *Config) competitions(api huma.API) {
	h := &competitionHandlers{c.Competitions, c.CompetitionDefinitions}
	register(api, "GET /v1/competitions", byAny, h.list, listCompetitions)
	register(api, "GET /v1/competitions/{competition}", byAny, h.get, getCompetition)
	register(api, "GET /v1/competitions/{competition}/teams", byAny, h.teams, rankTeams)
	register(api, "GET /v1/competitions/{competition}/people", byAny, h.people, rankPeople)
	registerForUser(api, "POST /v1/competitions/join", h.join, enterCompetition)
	registerForManagers(api, c.Audit, "PUT /v1/competitions/{competition}", h.put, putCompetition)
	registerForManagers(api, c.Audit, "DELETE /v1/competitions/{competition}", h.delete, deleteCompetition)
	registerAudited(api, c.Audit, "POST /v1/admin/competitions/{competition}/recompute", h.recompute, recomputeCompetition)
}

// choices registers the calls of one list of choices about other users.
func (c *Config) choices(api huma.API, path string, kind models.ChoiceKind, described choiceOperations) {
	h := &choiceHandlers{c.Privacy, c.Cursors, kind}
	described.put.errors = []models.Code{models.CodeUserNotFound, models.CodeChoiceLimit}
	registerForUser(api, "GET "+path, h.list, described.list)
	registerForUser(api, "PUT "+path+"/{id}", h.put, described.put)
	registerForUser(api, "DELETE "+path+"/{id}", h.remove, described.remove)
}

// probes adds what orchestrators and Prometheus ask of every process.
func (c *Config) probes(engine *gin.Engine) {
	health := &healthHandlers{check: c.Ready, log: c.Log, reading: reading.New(readyTimeout)}
	engine.GET("/healthz", health.live)
	engine.GET("/readyz", health.ready)
	if !c.MetricsElsewhere {
		engine.GET("/metrics", gin.WrapH(Metrics(c.Registry)))
	}
}

// Metrics returns the handler that serves a registry's metrics to Prometheus.
func Metrics(registry *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})
}

// New builds the service's HTTP handler. It returns an error if a trusted
// proxy is neither an address nor a network.
func New(c Config) (http.Handler, error) {
	m := newMetrics(c.Registry, c.Durations)
	engine, err := newEngine(c.TrustedProxies)
	if err != nil {
		return nil, err
	}
	observer := &observer{m.duration, c.Log, c.Requests}
	if c.Traces != nil {
		engine.Use(traced(c.Traces, c.Sampled), observer.observe, describeSpan)
	} else {
		engine.Use(observer.observe)
	}
	if len(c.Origins) > 0 {
		engine.Use(permitOrigins(c.Origins))
	}
	c.probes(engine)
	if !c.ProbesOnly {
		if err := c.serve(engine, m); err != nil {
			return nil, err
		}
	}
	takeHead(engine)
	return compressed(byEncodedPath(underPath(c.BasePath, engine)))
}

// serve adds the API and what browsers load.
func (c *Config) serve(engine *gin.Engine, m *metrics) error {
	engine.Use(refuseWithoutRoom)
	origins, err := c.Cookies.crossOrigin()
	if err != nil {
		return fmt.Errorf("http.public_url: %w", err)
	}
	authenticator := &authenticator{
		c.Tokens, c.Limits, c.LimitAddresses, c.CheckErasures, c.Sessions, c.Finder, &c.Cookies, origins,
		newUntrustedProxyWarning(c.TrustedProxies, c.Log),
	}
	api := newHuma(engine, c.Version, c.BasePath)
	api.UseMiddleware(authenticator.authenticate)
	c.routes(api, m)
	signIn := &providerHandlers{c.Providers, c.Logins, &c.Cookies, c.CheckErasures}
	engine.GET(providerRoute+"/:name", signIn.begin)
	engine.GET(providerRoute+"/:name/callback", signIn.finish)
	describeMore(api.OpenAPI())
	pages(engine, web.New(web.Files(), web.Options{Demo: c.Extra != nil, Login: c.Login, Folder: c.Folder, Codes: c.Sessions != nil && c.Sessions.Enabled()}), c.BasePath)
	if c.Extra != nil {
		c.Extra(engine)
	}
	return nil
}

// takeHead lets every path that takes GET take HEAD, too. The answer is the same, and net/http
// leaves out its body. A stream does not end, so it has no answer to a HEAD.
func takeHead(engine *gin.Engine) {
	for _, route := range engine.Routes() {
		if route.Method == http.MethodGet && !isStream(route.Path) {
			engine.HEAD(route.Path, route.HandlerFunc)
		}
	}
}

func newEngine(trustedProxies []string) (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.HandleMethodNotAllowed = true
	engine.RedirectTrailingSlash = false
	engine.UseRawPath = true
	engine.RemoteIPHeaders = []string{forwardedFor}
	if err := engine.SetTrustedProxies(trustedProxies); err != nil {
		return nil, fmt.Errorf("trusted proxies: %w", err)
	}
	engine.NoRoute(notFound)
	engine.NoMethod(methodNotAllowed)
	return engine, nil
}
