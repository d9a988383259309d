package handlers

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/phones"
	"stepboard/services/operations/audit"
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

// AddressService keeps upload addresses.
type AddressService interface {
	Add(ctx context.Context, user models.UserID, board string, c phones.Choice) (models.UploadAddress, string, error)
	List(ctx context.Context, user models.UserID) ([]models.UploadAddress, error)
	Change(ctx context.Context, user models.UserID, id int64, c phones.Choice) (models.UploadAddress, error)
	Revoke(ctx context.Context, user models.UserID, id int64, dryRun bool) error
}

// addressHandlers serves upload addresses to their users and to operators.
type addressHandlers struct {
	addresses AddressService
}

// UploadAddress is an address as its user and operators see it.
type UploadAddress struct {
	ID         string            `json:"id" doc:"The address's id in other calls" example:"7"`
	Name       string            `json:"name" doc:"The user's own name for it" example:"My phone"`
	Board      string            `json:"board" doc:"The board that it uploads to" example:"steps"`
	TimeZone   string            `json:"time_zone" doc:"Where the phone is: its days begin there" example:"Asia/Shanghai"`
	CreatedAt  models.Timestamp  `json:"created_at" format:"date-time" doc:"When it was made"`
	LastUsedAt *models.Timestamp `json:"last_used_at" format:"date-time" nullable:"true" doc:"When the phone last sent anything, to the minute; null for never"`
	LastResult *lastResult       `json:"last_result" doc:"What that led to; null for never"`
}

// lastResult says what a phone's last call has led to.
type lastResult struct {
	Date  *string      `json:"date" format:"date" nullable:"true" doc:"The newest day that was taken; null if none was" example:"2026-11-20"`
	Score *int64       `json:"score" nullable:"true" doc:"Its total" example:"7961"`
	Code  *models.Code `json:"code" nullable:"true" doc:"Why nothing was taken; null otherwise, or if there were no steps"`
}

func uploadAddressOf(a models.UploadAddress) UploadAddress {
	shown := UploadAddress{
		ID: strconv.FormatInt(a.ID, 10), Name: a.Name, Board: a.Board, TimeZone: a.TimeZone,
		CreatedAt: models.TimestampOf(a.CreatedAt), LastUsedAt: timestampIfAny(a.LastUsedAt),
	}
	if a.LastUsedAt != nil {
		shown.LastResult = &lastResult{Date: dateIfAny(a.LastDay), Score: a.LastScore, Code: unlessZero(a.LastCode)}
	}
	return shown
}

var addUploadAddress = operation{
	id:      "addUploadAddress",
	summary: "Make an address for a phone",
	description: "Make an address to which an app on a phone sends the user's steps, for a daily board. Whoever has it can do that and nothing else. " +
		"`key` and `path` are in this answer only: the address is that of the service and `path`. A user has at most 10. " +
		"docs/phones.md shows what to set in each app.",
	status: http.StatusCreated,
	errors: []models.Code{models.CodeBoardNotFound, models.CodeBoardKind, models.CodeAddressLimit},
}

type newUploadAddress struct {
	Name     string `json:"name" doc:"1 to 64 characters" example:"My phone"`
	Board    string `json:"board" pattern:"^[a-z0-9-]+$" maxLength:"40" doc:"The board that it uploads to" example:"steps"`
	TimeZone string `json:"time_zone,omitempty" maxLength:"64" doc:"Where the phone is, an IANA name. Left out: the zone of the session, or else of the board" example:"Asia/Shanghai"`
}

// madeAddress is an address with its key.
type madeAddress struct {
	UploadAddress
	Key  string `json:"key" doc:"Proves that a call is the phone's. It is shown this once"`
	Path string `json:"path" doc:"The path of the address, with the key" example:"/v1/in/sb_…"`
}

func (h *addressHandlers) add(ctx context.Context, user models.UserID, in *ownInput[newUploadAddress]) (*output[madeAddress], error) {
	choice := phones.Choice{Name: in.Body.Name, TimeZone: in.Body.TimeZone, Session: callerFrom(ctx).Session}
	address, key, err := h.addresses.Add(ctx, user, in.Body.Board, choice)
	return outputOf(madeAddress{uploadAddressOf(address), key, phoneRoute + "/" + key}, err)
}

var listUploadAddresses = operation{
	id:          "listUploadAddresses",
	summary:     "List the addresses of one's phones",
	description: "The user's upload addresses, oldest first, without keys, and when each was used last.",
}

// uploadAddresses lists addresses.
type uploadAddresses struct {
	Addresses []UploadAddress `json:"upload_addresses" nullable:"false" doc:"Oldest first"`
}

func (h *addressHandlers) list(ctx context.Context, user models.UserID, _ *OnBehalf) (*output[uploadAddresses], error) {
	list, err := h.addresses.List(ctx, user)
	return outputOf(uploadAddresses{answersOf(list, uploadAddressOf)}, err)
}

var changeUploadAddress = operation{
	id:          "changeUploadAddress",
	summary:     "Change a phone's name or time zone",
	description: "Give an address another name and time zone, which both are replaced.",
	errors:      []models.Code{models.CodeNotFound},
}

type changeUploadAddressInput struct {
	Address int64 `path:"address" minimum:"1" doc:"The address's id" example:"1"`
	OnBehalf
	Body changedUploadAddress
}

type changedUploadAddress struct {
	Name     string `json:"name" doc:"1 to 64 characters" example:"My phone"`
	TimeZone string `json:"time_zone" maxLength:"64" doc:"Where the phone is, an IANA name" example:"Asia/Shanghai"`
}

func (h *addressHandlers) change(ctx context.Context, user models.UserID, in *changeUploadAddressInput) (*output[UploadAddress], error) {
	address, err := h.addresses.Change(ctx, user, in.Address, phones.Choice{Name: in.Body.Name, TimeZone: in.Body.TimeZone})
	return outputOf(uploadAddressOf(address), err)
}

var revokeUploadAddress = operation{
	id:          "revokeUploadAddress",
	summary:     "Revoke the address of a phone",
	description: "End an address for ever: from now on it takes nothing, and no restored backup brings it back.",
	errors:      []models.Code{models.CodeNotFound},
}

type revokeUploadAddressInput struct {
	Address int64 `path:"address" minimum:"1" doc:"The address's id" example:"1"`
	OnBehalf
}

func (h *addressHandlers) revoke(ctx context.Context, user models.UserID, in *revokeUploadAddressInput) (*struct{}, error) {
	return nil, h.addresses.Revoke(ctx, user, in.Address, false)
}

var listUploadAddressesOfUser = operation{
	id:          "listUserUploadAddresses",
	summary:     "List the addresses of a user's phones",
	description: "As the user sees them, without keys.",
}

func (h *addressHandlers) listForOperator(ctx context.Context, in *UserPath) (*output[uploadAddresses], error) {
	return h.list(ctx, in.ID, nil)
}

var revokeUploadAddressOfUser = operation{
	id:          "revokeUserUploadAddress",
	summary:     "Revoke the address of a user's phone",
	description: "As the user does, of a phone that was lost.",
	errors:      []models.Code{models.CodeNotFound},
}

type revokeUserAddressInput struct {
	UserPath
	Address int64 `path:"address" minimum:"1" doc:"The address's id"`
	DryRun
}

func (in *revokeUserAddressInput) about(e *audit.Entry) {
	e.User, e.Target = in.ID, strconv.FormatInt(in.Address, 10)
}

func (h *addressHandlers) revokeAsOperator(ctx context.Context, in *revokeUserAddressInput) (*struct{}, error) {
	return nil, h.addresses.Revoke(ctx, in.ID, in.Address, in.isDryRun())
}
