package handlers

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"stepboard/internal/reading"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/operations/status"
)

// StatusService returns the state of the whole service.
type StatusService interface {
	Overview(ctx context.Context) (status.Overview, error)
}

// QueueLag measures how far consumers are behind.
type QueueLag func(ctx context.Context) (ingest.Lag, error)

// statusHandlers serves the state of the service to operators.
type statusHandlers struct {
	status  StatusService
	ready   ReadyCheck
	queue   QueueLag // nil without a queue
	clock   models.Clock
	version string
	grafana string
	log     *slog.Logger
}

var getStatus = operation{
	id:      "getStatus",
	summary: "Show the state of the service",
	description: "The stores, the queue, the processes, the jobs and what waits for somebody. Processes report every ten seconds. " +
		"It is answered while a store is away, too; then work is null, and what can't be read is left out.",
}

// serviceStatus is the state of the service as operators see it.
type serviceStatus struct {
	At        models.Timestamp `json:"at" format:"date-time" doc:"The time of the answer"`
	Version   string           `json:"version" doc:"The version of the process that answers"`
	Stores    []storeStatus    `json:"stores" nullable:"false" doc:"By name"`
	Degraded  []string         `json:"degraded" nullable:"false" doc:"Kinds of work that are refused, or wait, although the stores answer"`
	Queue     *queueStatus     `json:"queue" doc:"The queue of uploads; null without one, and while it does not answer"`
	Processes []processStatus  `json:"processes" nullable:"false" doc:"Those that have reported within the last minute, oldest first; none while Postgres is away"`
	Jobs      []jobStatus      `json:"jobs" nullable:"false" doc:"By name; none while Postgres is away"`
	Work      *waitingWork     `json:"work" doc:"What waits; null while Postgres is away"`
	LastHour  *lastHour        `json:"last_hour" doc:"What was counted in the last hour; null while Postgres is away"`
	Grafana   string           `json:"grafana_url" doc:"The address of a dashboard (page.grafana_url); empty for none"`
}

type lastHour struct {
	BoundsMS []float64      `json:"bounds_ms" nullable:"false" doc:"The bounds of latency, in milliseconds"`
	Minutes  []minuteCounts `json:"minutes" nullable:"false" doc:"The last sixty minutes that have ended, oldest first; zeros of those in which nothing ran"`
}

type minuteCounts struct {
	At      models.Timestamp `json:"at" format:"date-time" doc:"When the minute began"`
	Calls   int64            `json:"calls" doc:"Calls of the API that were answered, without streams and exports"`
	Refused int64            `json:"refused" doc:"Calls that rate limits have refused"`
	Latency []int64          `json:"latency" nullable:"false" doc:"The calls by how long they took: those up to each bound and above the bound before, and last those above all bounds"`
	P99MS   float64          `json:"p99_ms" doc:"Milliseconds within which 99 of 100 calls were answered, from latency; 0 without calls"`
	QueueMS int64            `json:"queue_ms" doc:"Milliseconds that the oldest message in the queue had waited"`
}

func lastHourOf(minutes []status.Minute) *lastHour {
	hour := &lastHour{BoundsMS: make([]float64, len(durationBounds))}
	for i, bound := range durationBounds {
		hour.BoundsMS[i] = bound * 1000
	}
	hour.Minutes = answersOf(minutes, func(m status.Minute) minuteCounts {
		p99 := status.Quantile(hour.BoundsMS, m.Latency, 0.99)
		return minuteCounts{models.TimestampOf(m.At), m.Calls, m.Refused, append([]int64{}, m.Latency...), math.Round(p99*100) / 100, m.QueueMS}
	})
	return hour
}

type storeStatus struct {
	Name string `json:"name" example:"redis" doc:"What was asked"`
	OK   bool   `json:"ok" doc:"Whether it answers"`
}

type queueStatus struct {
	Messages int64 `json:"messages" doc:"How many messages wait"`
	OldestMS int64 `json:"oldest_ms" doc:"Milliseconds that the oldest of them has waited; 0 for none"`
}

type processStatus struct {
	ID        string           `json:"id" doc:"Random and new at each start"`
	Host      string           `json:"host" doc:"The machine's name"`
	Version   string           `json:"version" doc:"Its version"`
	Roles     []string         `json:"roles" nullable:"false" doc:"What it does: api, consumer, jobs"`
	StartedAt models.Timestamp `json:"started_at" format:"date-time" doc:"When it started"`
	SeenAt    models.Timestamp `json:"seen_at" format:"date-time" doc:"When it last reported"`
	Streams   int64            `json:"streams" doc:"Open streams of rankings"`
	Refused   int64            `json:"refused" doc:"Calls that rate limits have refused in about the last minute"`
}

type jobStatus struct {
	Name        string            `json:"name" doc:"The job's name, as in metrics"`
	StartedAt   *models.Timestamp `json:"started_at" format:"date-time" nullable:"true" doc:"When its last run began; null for never"`
	SucceededAt *models.Timestamp `json:"succeeded_at" format:"date-time" nullable:"true" doc:"When a run last succeeded; null for never"`
	FailedAt    *models.Timestamp `json:"failed_at" format:"date-time" nullable:"true" doc:"When a run last failed; null for never"`
	Error       string            `json:"error" doc:"Why it last failed; empty for never"`
}

type waitingWork struct {
	ArchiveDue         int   `json:"archive_due" doc:"Days that are due to be archived"`
	ArchiveFailed      int64 `json:"archive_failed" doc:"Archive runs that failed and were not resumed"`
	DeadLetters        int64 `json:"dead_letters" doc:"Updates that could not be applied"`
	DeliveriesWaiting  int64 `json:"deliveries_waiting" doc:"Deliveries of webhooks that are still attempted"`
	DeliveriesFailed   int64 `json:"deliveries_failed" doc:"Deliveries of the last 30 days that were given up"`
	ReviewsOpen        int64 `json:"reviews_open" doc:"Scores that nobody has looked at"`
	HoldsOpen          int64 `json:"holds_open" doc:"Held totals about which nobody has decided"`
	CorrectionsPending int64 `json:"corrections_pending" doc:"Corrections that the archive has not applied yet"`
}

func (h *statusHandlers) get(ctx context.Context, _ *struct{}) (*output[serviceStatus], error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	answer := serviceStatus{At: models.TimestampOf(h.clock()), Version: h.version, Grafana: h.grafana}
	ready := h.ready(ctx)
	answer.Degraded = slices.Sorted(maps.Keys(ready.Degraded))
	for _, name := range slices.Sorted(maps.Keys(ready.Stores)) {
		answer.Stores = append(answer.Stores, storeStatus{name, ready.Stores[name] == nil})
	}
	if h.queue != nil && ready.Stores["queue"] == nil {
		if lag, err := h.queue(ctx); err == nil {
			answer.Queue = &queueStatus{lag.Messages, lag.Oldest.Milliseconds()}
		} else {
			h.log.WarnContext(ctx, "the queue's lag is unknown", "error", err)
		}
	}
	found, err := h.status.Overview(ctx)
	if err != nil {
		h.log.WarnContext(ctx, "the state of the service is unknown", "error", err)
		return &output[serviceStatus]{answer}, nil
	}
	answer.Processes = answersOf(found.Processes, func(p models.Process) processStatus {
		return processStatus{
			ID: p.ID, Host: p.Host, Version: p.Version, Roles: strings.Split(p.Roles, ","), StartedAt: models.TimestampOf(p.StartedAt),
			SeenAt: models.TimestampOf(p.SeenAt), Streams: p.Streams, Refused: p.Refused,
		}
	})
	answer.Jobs = answersOf(found.Jobs, func(j models.JobRun) jobStatus {
		return jobStatus{
			j.Name, timestampIfAny(j.StartedAt), timestampIfAny(j.SucceededAt), timestampIfAny(j.FailedAt), j.Error,
		}
	})
	answer.Work, answer.LastHour = new(waitingWork(found.Work)), lastHourOf(found.LastHour)
	return &output[serviceStatus]{answer}, nil
}

// timestampIfAny returns a time as answers have it; nil for nil.
func timestampIfAny(t *time.Time) *models.Timestamp {
	if t == nil {
		return nil
	}
	return new(models.TimestampOf(*t))
}

// dateIfAny returns a day as answers have it; nil for nil.
func dateIfAny(d *models.Date) *string {
	if d == nil {
		return nil
	}
	return new(d.String())
}

const (
	// readyTimeout bounds how long a probe waits for the stores.
	readyTimeout = 2 * time.Second
	// readyAge is how old what a probe hears may be.
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

	reading *reading.Shared // with readyTimeout
	found   atomic.Pointer[Readiness]
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
	_ = h.reading.Seldom(context.WithoutCancel(ctx), readyAge, func(ctx context.Context) error { // which never fails
		found := h.check(ctx)
		h.found.Store(&found)
		for store, err := range found.Stores {
			if err != nil {
				h.log.WarnContext(ctx, "a store does not answer", "store", store, "error", err)
			}
		}
		for work, err := range found.Degraded {
			h.log.WarnContext(ctx, "some work is refused or waits", "work", work, "error", err)
		}
		return nil
	})
	return *h.found.Load()
}
