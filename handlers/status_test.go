package handlers_test

import (
	"context"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/operations/status"
)

// state is a fake handlers.StatusService with a process and two jobs.
type state struct{ *recorder }

func (s state) Overview(context.Context) (status.Overview, error) {
	at := noon
	return status.Overview{
		Processes: []models.Process{{
			ID: "p", Host: "h", Version: "1", Roles: "api,jobs", StartedAt: noon, SeenAt: noon, Streams: 2, Refused: 3,
		}},
		Jobs: []models.JobRun{{Name: "archive"}, {Name: "purge", StartedAt: &at, SucceededAt: &at, FailedAt: &at, Error: "e"}},
		Work: status.Work{
			ArchiveDue: 1, ArchiveFailed: 2, DeadLetters: 3, DeliveriesWaiting: 4, DeliveriesFailed: 5, ReviewsOpen: 6, HoldsOpen: 8, CorrectionsPending: 7,
		},
		LastHour: []status.Minute{
			{At: noon}, {At: noon.Add(time.Minute), Calls: 100, Refused: 4, Latency: []int64{0, 98, 0, 2}, QueueMS: 5},
		},
	}, s.record("Overview")
}

// The state is shown while stores are away, too.
func TestStatus(t *testing.T) {
	t.Parallel()
	config := func(queueErr error, degraded map[string]error) func(*recorder) handlers.Config {
		return func(r *recorder) handlers.Config {
			return handlers.Config{
				Status: state{r}, Grafana: "https://grafana.example.com/d/1",
				Ready: func(context.Context) handlers.Readiness {
					return handlers.Readiness{Stores: map[string]error{"redis": nil, "queue": queueErr, "postgres": r.err}, Degraded: degraded}
				},
				Queue: func(context.Context) (ingest.Lag, error) {
					return ingest.Lag{Messages: 5, Oldest: 1500 * time.Millisecond}, nil
				},
			}
		}
	}
	const get = "GET /v1/admin/status"
	const head = `200 {"at":"2026-11-20T04:00:00.000Z","version":"","stores":[`
	const noonText = `"2026-11-20T04:00:00.000Z"`
	asked := []string{"Overview"}
	runCases(t, config(nil, nil), []testCase{
		{"all", "admin", get, "", nil, asked, head +
			`{"name":"postgres","ok":true},{"name":"queue","ok":true},{"name":"redis","ok":true}],"degraded":[],"queue":{"messages":5,"oldest_ms":1500},` +
			`"processes":[{"id":"p","host":"h","version":"1","roles":["api","jobs"],"started_at":` + noonText + `,"seen_at":` + noonText + `,"streams":2,"refused":3}],` +
			`"jobs":[{"name":"archive","started_at":null,"succeeded_at":null,"failed_at":null,"error":""},` +
			`{"name":"purge","started_at":` + noonText + `,"succeeded_at":` + noonText + `,"failed_at":` + noonText + `,"error":"e"}],` +
			`"work":{"archive_due":1,"archive_failed":2,"dead_letters":3,"deliveries_waiting":4,"deliveries_failed":5,"reviews_open":6,"holds_open":8,"corrections_pending":7},` +
			`"last_hour":{"bounds_ms":[0.5,1,2.5,5,10,25,50,100,250,500,1000,2500,5000,10000],"minutes":[` +
			`{"at":` + noonText + `,"calls":0,"refused":0,"latency":[],"p99_ms":0,"queue_ms":0},` +
			`{"at":"2026-11-20T04:01:00.000Z","calls":100,"refused":4,"latency":[0,98,0,2],"p99_ms":3.75,"queue_ms":5}]},` +
			`"grafana_url":"https://grafana.example.com/d/1"}`},
		{"Postgres is away", "admin", get, "", errUnavailable, asked, head +
			`{"name":"postgres","ok":false},{"name":"queue","ok":true},{"name":"redis","ok":true}],"degraded":[],"queue":{"messages":5,"oldest_ms":1500},` +
			`"processes":[],"jobs":[],"work":null,"last_hour":null,"grafana_url":"https://grafana.example.com/d/1"}`},
		{"a service's token", "service", get, "", nil, nil, "403 forbidden: this token may not make this call"},
	})
	runCases(t, config(errUnavailable, map[string]error{"clock": errUnknown}), []testCase{
		{"the queue is away", "admin", get, "", nil, asked, head +
			`{"name":"postgres","ok":true},{"name":"queue","ok":false},{"name":"redis","ok":true}],"degraded":["clock"],"queue":null,…`},
	})
}
