package handlers

import (
	"context"
	"net/http"
	"strconv"

	"stepboard/models"
	"stepboard/services/boards/phones"
	"stepboard/services/operations/audit"
)

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
