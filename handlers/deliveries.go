package handlers

import (
	"context"
	"strconv"

	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/platform/outcomes"
)

// DeliveryService keeps the deliveries of webhooks.
type DeliveryService interface {
	List(ctx context.Context, q outcomes.Query) ([]outcomes.Delivery, error)
	Replay(ctx context.Context, id int64, dryRun bool) (outcomes.Delivery, error)
}

// deliveryHandlers serves the deliveries of webhooks to operators.
type deliveryHandlers struct {
	deliveries DeliveryService
	cursors    CursorSealer
}

// webhookDelivery is an outcome on its way to one target.
type webhookDelivery struct {
	ID         string               `json:"id" doc:"The delivery's id in other calls"`
	WebhookID  string               `json:"webhook_id" doc:"The header webhook-id, which is the same for every attempt and every target"`
	Target     string               `json:"target" doc:"The address that it is sent to; push for a notice to a browser"`
	Event      models.OutcomeType   `json:"event" enum:"friend.requested,friend.accepted,like.given,board.final,competition.final,digest.ready,rank.passed" doc:"The type of its body"`
	State      models.DeliveryState `json:"state" enum:"waiting,delivered,failed,dropped" doc:"waiting: it is attempted until it succeeds. failed: it was given up after three days (a notice after hours), or because more than a million waited. dropped: a person in it was erased or hid before it was delivered, or the browser is gone"`
	Attempts   int                  `json:"attempts" doc:"How often it was begun to send it"`
	CreatedAt  models.Timestamp     `json:"created_at" format:"date-time" doc:"When it happened"`
	NextAt     *models.Timestamp    `json:"next_attempt_at" format:"date-time" nullable:"true" doc:"When it is sent next; null unless it is waiting"`
	FinishedAt *models.Timestamp    `json:"finished_at" format:"date-time" nullable:"true" doc:"When it was delivered or given up; null while it is waiting"`
	Last       []webhookAttempt     `json:"last_attempts" nullable:"false" doc:"The last ten attempts, oldest first. An attempt whose process died is missing"`
}

// webhookAttempt is one attempt of a delivery.
type webhookAttempt struct {
	Number    int              `json:"number" doc:"Counts the attempts from 1"`
	StartedAt models.Timestamp `json:"started_at" format:"date-time" doc:"When it began"`
	TookMS    int64            `json:"took_ms" doc:"Milliseconds until its end"`
	Status    *int             `json:"status" nullable:"true" doc:"The HTTP status of the answer; null without one"`
	Error     string           `json:"error" doc:"Why it failed; empty if it succeeded"`
}

func deliveryOf(d outcomes.Delivery) webhookDelivery {
	shown := webhookDelivery{
		ID: strconv.FormatInt(d.ID, 10), WebhookID: d.MessageID, Target: d.Target, Event: d.Type, State: d.State,
		Attempts: d.Attempts, CreatedAt: models.TimestampOf(d.CreatedAt), FinishedAt: timestampIfAny(d.FinishedAt),
		Last: answersOf(d.Last, attemptOf),
	}
	if d.State == models.DeliveryWaiting {
		shown.NextAt = timestampIfAny(&d.NextAttemptAt)
	}
	return shown
}

func attemptOf(a models.DeliveryAttempt) webhookAttempt {
	return webhookAttempt{
		Number: a.Number, StartedAt: models.TimestampOf(a.StartedAt), TookMS: a.TookMS, Status: unlessZero(a.Status), Error: a.Error,
	}
}

var listDeliveries = operation{
	id:      "listWebhookDeliveries",
	summary: "List deliveries of webhooks",
	description: "The deliveries of webhooks, and with target `push` of notices to browsers, newest first, each with its last attempts. Finished ones are kept for 30 days, notices for a day; " +
		"`?state=failed` lists those that were given up.",
}

type listDeliveriesInput struct {
	Target string `query:"target" pattern:"^[!-~]*$" doc:"Deliveries to this address only; push: notices"`
	Event  string `query:"event" enum:"friend.requested,friend.accepted,like.given,board.final,competition.final,digest.ready,rank.passed" doc:"Deliveries of this event only"`
	State  string `query:"state" enum:"undelivered,waiting,delivered,failed,dropped" doc:"Deliveries in this state only; undelivered: waiting and failed ones"`
	Paging
}

type webhookDeliveryPage struct {
	Deliveries []webhookDelivery `json:"deliveries" nullable:"false" doc:"This page, newest first"`
	NextCursor *string           `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *deliveryHandlers) list(ctx context.Context, in *listDeliveriesInput) (*output[webhookDeliveryPage], error) {
	deliveries, next, err := pageOf(ctx, h.cursors, in.Paging, deliveryOf, func(after models.Cursor, limit int) ([]outcomes.Delivery, error) {
		q := outcomes.Query{Target: in.Target, Type: models.OutcomeType(in.Event), Before: after.Key, Limit: limit}
		if q.Undelivered = in.State == "undelivered"; !q.Undelivered {
			q.State = models.DeliveryState(in.State)
		}
		return h.deliveries.List(ctx, q)
	}, "deliveries", in.Target, in.Event, in.State)
	return outputOf(webhookDeliveryPage{deliveries, next}, err)
}

type replayDeliveryInput struct {
	ID int64 `path:"id" minimum:"1" doc:"The delivery's id"`
	DryRun
}

func (in *replayDeliveryInput) about(e *audit.Entry) { e.Target = strconv.FormatInt(in.ID, 10) }

var replayDelivery = operation{
	id:      "replayWebhookDelivery",
	summary: "Send a delivery of a webhook again",
	description: "Sends the delivery again, whatever its state, with the same webhook-id, and attempts it for as long as a new one. " +
		"With `?dry_run=true` nothing changes.",
	errors: []models.Code{models.CodeNotFound},
}

func (h *deliveryHandlers) replay(ctx context.Context, in *replayDeliveryInput) (*output[webhookDelivery], error) {
	found, err := h.deliveries.Replay(ctx, in.ID, in.isDryRun())
	return outputOf(deliveryOf(found), err)
}
