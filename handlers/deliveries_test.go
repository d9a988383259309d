package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// deliveries is a fake handlers.DeliveryService with the deliveries 3, 2 and 1. The first is
// waiting after an attempt without an answer.
type deliveries struct{ *recorder }

func fakeDelivery(id int64) outcomes.Delivery {
	d := outcomes.Delivery{Delivery: models.Delivery{
		ID: id, MessageID: "msg_1", Target: "https://example.com/hook", Type: models.OutcomeBoardFinal,
		State: models.DeliveryDelivered, Attempts: 1, CreatedAt: noon, NextAttemptAt: noon, FinishedAt: &noon,
	}}
	d.Last = []models.DeliveryAttempt{{DeliveryID: id, Number: 1, StartedAt: noon, TookMS: 5, Status: 204}}
	if id == 3 {
		d.State, d.FinishedAt = models.DeliveryWaiting, nil
		d.Last[0].Status, d.Last[0].Error = 0, "connection refused"
	}
	return d
}

func (s deliveries) List(_ context.Context, q outcomes.Query) ([]outcomes.Delivery, error) {
	if err := s.record("List", q); err != nil {
		return nil, err
	}
	var list []outcomes.Delivery
	for id := int64(3); id >= 1; id-- {
		if (q.Before == 0 || id < q.Before) && len(list) < q.Limit {
			list = append(list, fakeDelivery(id))
		}
	}
	return list, nil
}

func (s deliveries) Replay(_ context.Context, id int64, dryRun bool) (outcomes.Delivery, error) {
	return fakeDelivery(id), s.record("Replay", id, dryRun)
}

func TestDeliveries(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Deliveries: deliveries{r}} }
	const (
		list   = "GET /v1/admin/webhooks/deliveries"
		replay = "POST /v1/admin/webhooks/deliveries/3/replay"
		at     = `"2026-11-20T04:00:00.000Z"`
		head   = `"webhook_id":"msg_1","target":"https://example.com/hook","event":"board.final"`
		first  = `{"id":"3",` + head + `,"state":"waiting","attempts":1,"created_at":` + at + `,"next_attempt_at":` + at +
			`,"finished_at":null,"last_attempts":[{"number":1,"started_at":` + at +
			`,"took_ms":5,"status":null,"error":"connection refused"}]}`
		second = `{"id":"2",` + head + `,"state":"delivered","attempts":1,"created_at":` + at + `,"next_attempt_at":null` +
			`,"finished_at":` + at + `,"last_attempts":[{"number":1,"started_at":` + at + `,"took_ms":5,"status":204,"error":""}]}`
	)
	all := []string{"List {Target: Type: State: Undelivered:false Before:0 Limit:51}"}
	filtered := []string{"List {Target:https://x.org Type:friend.accepted State:failed Undelivered:false Before:0 Limit:3}"}
	replayed := []string{"Replay 3 false"}
	runCases(t, config, []testCase{
		{"list", "admin", list, "", nil, all, `200 {"deliveries":[` + first + "," + second + ",…"},
		{
			"list some", "admin", list + "?target=https://x.org&event=friend.accepted&state=failed&limit=2", "", nil, filtered,
			`200 {"deliveries":[` + first + "," + second + `],"next_cursor":"…`,
		},
		{"list what is not delivered", "admin", list + "?state=undelivered", "", nil, []string{"List {Target: Type: State: Undelivered:true Before:0 Limit:51}"}, "200 …"},
		{"list by another filter's cursor", "admin", list + "?cursor=" + cursor(3, 0, "deliveries", "", "", "failed"), "", nil, nil, "400 invalid_cursor: …"},
		{"list an unknown state", "admin", list + "?state=lost", "", nil, nil, "422 validation_failed: query.state: …"},
		{"list with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"list, the store is away", "admin", list, "", errUnavailable, all, wantUnavailable},
		{"replay", "admin", replay, "", nil, replayed, "200 " + first},
		{"try a replay", "admin", replay + "?dry_run=true", "", nil, []string{"Replay 3 true"}, "200 " + first},
		{"replay one that does not exist", "admin", replay, "", models.Errorf(models.CodeNotFound, "none"), replayed, "404 not_found: none"},
		{"replay no id", "admin", "POST /v1/admin/webhooks/deliveries/0/replay", "", nil, nil, "422 validation_failed: path.id: …"},
		{"replay with a user's token", "1", replay, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"replay, an unknown error", "admin", replay, "", errUnknown, replayed, wantInternal},
	})
	checkPages(t, config, "admin", "GET /v1/admin/webhooks/deliveries?limit=1", []string{
		"List {Target: Type: State: Undelivered:false Before:0 Limit:2}", "List {Target: Type: State: Undelivered:false Before:3 Limit:2}",
		"List {Target: Type: State: Undelivered:false Before:2 Limit:2}",
	})
}
