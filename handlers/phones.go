package handlers

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/phones"
)

// maxPhoneBody is the largest body that an app may send to an upload address, in bytes.
const maxPhoneBody = 256 << 10

// PhoneService takes what phones send to upload addresses.
type PhoneService interface {
	AddressService
	Knows(key string) bool
	Find(ctx context.Context, key string) (phones.Address, error)
	Take(ctx context.Context, a phones.Address, body []byte, query string) (phones.Taken, error)
}

// KeyLimiter limits the calls of each upload address, and those with keys that are none.
type KeyLimiter interface {
	Failing(address string) error
	TakeKey(ctx context.Context, id int64, address string) error
}

// phoneHandlers serves what phones send.
type phoneHandlers struct {
	phones   PhoneService
	limits   KeyLimiter
	scores   *scoreHandlers
	received *prometheus.CounterVec // by form and result
}

// phoneRoute is the path of calls with a key. What lies below it is secret.
const phoneRoute = "/v1/in"

// isPhoneRoute reports whether a path or route is that of a phone's call.
func isPhoneRoute(path string) bool {
	return path == phoneRoute || strings.HasPrefix(path, phoneRoute+"/")
}

const aboutForms = "The form is recognised: that of POST /v1/boards/{board}/scores, what Health Auto Export, Health Connect Webhook and iPhone " +
	"Shortcuts send, and fields steps and date. Only totals of days count, of a day the largest, up to 31 days; other metrics are skipped. " +
	"What was recognised is no error, even if no day takes it any more: `rejected` says why. " +
	"Days that can't be read don't hold up the others. Intervals are 422 `not_daily`, and anything else is 422 `not_recognised`."

var takeFromPhone = operation{
	id:          "takeFromPhone",
	summary:     "Take steps from an app",
	description: "What an app on a phone sends to an upload address. " + aboutForms,
	otherStatus: http.StatusAccepted,
	anyBody:     true,
	errors:      []models.Code{models.CodeAddressUnknown, models.CodeBoardNotFound, models.CodeBoardKind, models.CodeNotDaily, models.CodeNotRecognised},
}

// PhoneFields are steps and date of an app that sends no body.
type PhoneFields struct {
	Steps string `query:"steps" maxLength:"20" doc:"Steps of the day so far, of an app that sends no body" example:"7961"`
	Date  string `query:"date" maxLength:"40" doc:"The day, beside steps" example:"2026-11-20"`
}

// encoded returns the fields as a body has them; "" without any.
func (f PhoneFields) encoded() string {
	values := url.Values{}
	if f.Steps != "" {
		values.Set("steps", f.Steps)
	}
	if f.Date != "" {
		values.Set("date", f.Date)
	}
	return values.Encode()
}

type phoneInput struct {
	Key string `path:"key" maxLength:"64" doc:"The key of the address"`
	PhoneFields
	RawBody []byte
}

// phoneTotals says what became of a phone's totals.
type phoneTotals struct {
	Accepted []phoneTotal         `json:"accepted" nullable:"false" doc:"The totals that were taken, oldest first"`
	Rejected []rejectedPhoneTotal `json:"rejected" nullable:"false" doc:"Those that were not, oldest first"`
}

type phoneTotal struct {
	Date  string `json:"date" format:"date" doc:"The day" example:"2026-11-20"`
	Score int64  `json:"score" doc:"The total" example:"7961"`
	Held  bool   `json:"held" doc:"Whether it counts only when an operator has looked at it"`
}

type rejectedPhoneTotal struct {
	Date   *string     `json:"date" format:"date" nullable:"true" doc:"The day; null if it can't be read" example:"2026-11-01"`
	Code   models.Code `json:"code" enum:"date_closed,date_in_future,score_out_of_range,not_daily,not_recognised" doc:"Why it was rejected"`
	Detail string      `json:"detail" doc:"What a person should know and do"`
}

func (h *phoneHandlers) take(ctx context.Context, in *phoneInput) (*statusOutput[phoneTotals], error) {
	return h.takeBy(ctx, in.Key, in.RawBody, in.encoded())
}

var takeFromPhoneByHeader = operation{
	id:      "takeFromPhoneByHeader",
	summary: "Take steps from an app that sends headers",
	description: "As POST /v1/in/{key}, with `Authorization: Bearer` and the key of the address: proxies write paths to their logs, and no headers. " +
		aboutForms,
	otherStatus: http.StatusAccepted,
	anyBody:     true,
	errors:      takeFromPhone.errors,
}

type phoneHeaderInput struct {
	Authorization string `header:"Authorization" hidden:"true"`
	PhoneFields
	RawBody []byte
}

func (h *phoneHandlers) takeByHeader(ctx context.Context, in *phoneHeaderInput) (*statusOutput[phoneTotals], error) {
	_, key, _ := strings.Cut(in.Authorization, " ")
	return h.takeBy(ctx, key, in.RawBody, in.encoded())
}

// takeBy takes what a phone has sent. A call with a key counts for its address alone: whoever has it must not lock its user
// out. One with another text counts for its network, as calls with bad tokens do.
func (h *phoneHandlers) takeBy(ctx context.Context, key string, body []byte, query string) (*statusOutput[phoneTotals], error) {
	network := callerFrom(ctx).address
	if !h.phones.Knows(key) { // otherwise it is looked up in SQL, which costs more than a guess may
		if err := h.limits.Failing(network); err != nil {
			return nil, err
		}
	}
	address, err := h.phones.Find(ctx, key)
	if err == nil || models.CodeOf(err) == models.CodeAddressUnknown {
		if limited := h.limits.TakeKey(ctx, address.ID, network); limited != nil {
			err = limited
		}
	}
	if err != nil {
		return nil, err
	}
	taken, err := h.phones.Take(ctx, address, body, query)
	result := "accepted"
	if err != nil {
		result = "refused"
	}
	h.received.WithLabelValues(string(taken.Form), result).Inc()
	if err != nil {
		return nil, err
	}
	h.scores.accepted.WithLabelValues(address.Board).Add(float64(len(taken.Accepted)))
	return &statusOutput[phoneTotals]{h.scores.status(), phoneTotalsOf(taken)}, nil
}

func phoneTotalsOf(taken phones.Taken) phoneTotals {
	return phoneTotals{
		Accepted: answersOf(taken.Accepted, func(a ingest.Accepted) phoneTotal { return phoneTotal{a.Date.String(), a.Score, a.Held} }),
		Rejected: answersOf(taken.Rejected, func(r phones.Refused) rejectedPhoneTotal {
			return rejectedPhoneTotal{dateIfAny(r.Date), r.Err.Code, r.Err.Message}
		}),
	}
}
