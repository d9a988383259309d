package handlers

import (
	"context"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"stepboard/models"
	"stepboard/services/operations/audit"
)

// AuditLog keeps what operators do or try to do.
type AuditLog interface {
	// Begin stores that an action begins. finish must be called with its error.
	Begin(ctx context.Context, e audit.Entry) (finish func(error), err error)
	List(ctx context.Context, q audit.Query) ([]audit.Entry, error)
}

// recordedInput is the input of a call that the audit log may have.
type recordedInput[I any] interface {
	*I
	// about sets what the call concerns.
	about(e *audit.Entry)
}

// auditedInput is the input of a call that is registered by registerAudited.
type auditedInput[I any] interface {
	recordedInput[I]
	isDryRun() bool
}

// registerAudited adds a call by which an operator modifies something. It is written to the
// audit log before it begins, and refused if its token has no sub or the log can't be written.
// A dry run is not written.
func registerAudited[I any, In auditedInput[I], O any](
	api huma.API, log AuditLog, route string, handler func(context.Context, *I) (*O, error), described operation,
) {
	described.audited = true
	recorded := recorded[I, In](log, described.id, handler)
	register(api, route, byAdmin, func(ctx context.Context, in *I) (*O, error) {
		if In(in).isDryRun() {
			return handler(ctx, in)
		}
		return recorded(ctx, in)
	}, described)
}

// registerForManagers adds a call by which a backend or an operator modifies something. Those of
// operators are written to the audit log, as by registerAudited.
func registerForManagers[I any, In recordedInput[I], O any](
	api huma.API, log AuditLog, route string, handler func(context.Context, *I) (*O, error), described operation,
) {
	recorded := recorded[I, In](log, described.id, handler)
	register(api, route, byManager, func(ctx context.Context, in *I) (*O, error) {
		if callerFrom(ctx).Admin {
			return recorded(ctx, in)
		}
		return handler(ctx, in)
	}, described)
}

// recorded returns a handler whose calls are written to the audit log as the action id.
func recorded[I any, In recordedInput[I], O any](
	log AuditLog, id string, handler func(context.Context, *I) (*O, error),
) func(context.Context, *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		operator, err := operatorFrom(ctx)
		if err != nil {
			return nil, err
		}
		entry := audit.Entry{AuditEntry: models.AuditEntry{
			Actor: string(operator), Action: id, RequestID: callerFrom(ctx).requestID,
		}}
		In(in).about(&entry)
		if err := models.CheckPlainText("body.reason", entry.Reason); err != nil {
			return nil, err
		}
		finish, err := log.Begin(ctx, entry)
		if err != nil {
			return nil, err
		}
		out, err := handler(ctx, in)
		finish(err)
		return out, err
	}
}

// auditHandlers serves the audit log to operators.
type auditHandlers struct {
	log     AuditLog
	cursors CursorSealer
}

var listAudit = operation{
	id:      "listAuditEntries",
	summary: "List what operators have changed",
	description: "Every changing call of an operator, newest first, refused and failed ones included. " +
		"`?user_id=1001` lists what was done about one user.",
}

// auditEntry is an entry of the audit log as operators see it.
type auditEntry struct {
	ID        string           `json:"id" doc:"The entry's id"`
	At        models.Timestamp `json:"at" format:"date-time" doc:"When it began"`
	Actor     string           `json:"actor" doc:"The sub of the operator's token" example:"mei"`
	Action    string           `json:"action" doc:"The operation of this API, or the command" example:"startArchiveRun"`
	Board     *string          `json:"board" nullable:"true" doc:"The board that it concerns; null for none"`
	Bucket    *string          `json:"bucket" nullable:"true" doc:"The day or bucket that it concerns; null for none"`
	UserID    *models.UserID   `json:"user_id" nullable:"true" doc:"The user whom it concerns; null for none, and for one who does not exist, or no longer"`
	Nickname  string           `json:"nickname" doc:"Empty while unset, and without a user"`
	Target    *string          `json:"target" nullable:"true" doc:"What else it concerns, such as the id of a dead letter; null for nothing"`
	Reason    *string          `json:"reason" nullable:"true" doc:"The reason that was given; null for none"`
	RequestID *string          `json:"request_id" nullable:"true" doc:"The request's id in the service's log; null for commands"`
	Outcome   *string          `json:"outcome" nullable:"true" doc:"done, or the code of an error; null while it runs, and if its process died before it ended" example:"done"`
}

func auditEntryOf(e audit.Entry) auditEntry {
	return auditEntry{
		ID: strconv.FormatInt(e.ID, 10), At: models.TimestampOf(e.At), Actor: e.Actor, Action: e.Action,
		Board: unlessZero(e.Board), Bucket: unlessZero(e.Bucket), UserID: unlessZero(e.User), Nickname: e.Nickname, Target: unlessZero(e.Target),
		Reason: unlessZero(e.Reason), RequestID: unlessZero(e.RequestID), Outcome: unlessZero(e.Outcome),
	}
}

// unlessZero returns a pointer to the value; nil if it is the zero value.
func unlessZero[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

type listAuditInput struct {
	Actor  string        `query:"actor" pattern:"^[ -~]*$" maxLength:"128" doc:"Changes of this operator only"`
	Action string        `query:"action" pattern:"^[ -~]*$" maxLength:"64" doc:"Changes by this operation only"`
	UserID models.UserID `query:"user_id" doc:"Changes that concern this user only"`
	Paging
}

type auditPage struct {
	Entries    []auditEntry `json:"entries" nullable:"false" doc:"This page, newest first"`
	NextCursor *string      `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *auditHandlers) list(ctx context.Context, in *listAuditInput) (*output[auditPage], error) {
	entries, next, err := pageOf(ctx, h.cursors, in.Paging, auditEntryOf, func(after models.Cursor, limit int) ([]audit.Entry, error) {
		return h.log.List(ctx, audit.Query{Actor: in.Actor, Action: in.Action, User: in.UserID, Before: after.Key, Limit: limit})
	}, "audit", in.Actor, in.Action, string(in.UserID))
	return outputOf(auditPage{entries, next}, err)
}
