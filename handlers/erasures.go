package handlers

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"stepboard/models"
	"stepboard/services/operations/audit"
)

// ErasureService erases users, and exports what is stored about them.
type ErasureService interface {
	Begin(ctx context.Context, user models.UserID, dryRun bool) (models.Erasure, error)
	BeginBranch(ctx context.Context, user models.UserID, dryRun bool) (models.BranchErasure, error)
	List(ctx context.Context, before int64, limit int) ([]models.Erasure, error)
	Export(ctx context.Context, user models.UserID, own bool) (write func(context.Context, io.Writer) error, err error)
}

// erasureHandlers serves the erasure of users, and exports.
type erasureHandlers struct {
	erasures ErasureService
	cursors  CursorSealer
}

const erasureEffect = "Erases the user and everything that is stored about them; it can't be undone. " +
	"From the answer on the user id belongs to nobody, and other processes know that within two seconds; whoever writes under it " +
	"after that has none of the scores and friends of before. The rest goes within about two minutes. Archived rankings keep the " +
	"score, without a name. Exclusions by operators, blocks and hiding by others, declined requests and limits hold again if the " +
	"user id returns within 365 days. " +
	"A call that is repeated while the erasure is under way returns the same erasure; after that it is user_not_found. " +
	"A fourth erasure of a user id within 24 hours is rate_limited. The last operator stays while others are there."

var eraseSelf = operation{
	id:      "eraseSelf",
	summary: "Erase oneself",
	description: erasureEffect + " Take the user's tokens away as well: with one that is still valid the user comes into being again " +
		"by the next upload.",
	status: http.StatusAccepted,
	errors: []models.Code{models.CodeUserNotFound, models.CodeLastOperator},
}

type erasureConfirmation struct {
	Confirm string `json:"confirm" enum:"erase" doc:"That the user is to be erased" example:"erase"`
}

var eraseUser = operation{
	id:          "eraseUser",
	summary:     "Erase a user",
	description: erasureEffect,
	status:      http.StatusAccepted,
	errors:      []models.Code{models.CodeUserNotFound, models.CodeLastOperator},
}

var eraseUserAsOperator = operation{
	id:      models.EraseAction,
	summary: "Erase a user",
	description: erasureEffect + " The audit log keeps the reason, which should not name the user. " +
		"With `with_invited` it erases all who came by the user's invitations as well, and by theirs, about 50 in a call and the user last: " +
		"repeat it while `left` is more than 0, or after an error. It erases nobody if no operator would be left.",
	otherStatus: http.StatusAccepted,
	errors:      []models.Code{models.CodeUserNotFound, models.CodeLastOperator},
}

// newErasure names an erasure that has begun.
type newErasure struct {
	ErasureID *string `json:"erasure_id" nullable:"true" doc:"The erasure's id in the list of operators; null in a dry run, and while others are left to erase before" example:"1"`
}

func (h *erasureHandlers) begin(ctx context.Context, user models.UserID, how DryRun) (*statusOutput[newErasure], error) {
	e, err := h.erasures.Begin(ctx, user, how.isDryRun())
	var begun newErasure
	if !how.isDryRun() {
		begun.ErasureID = new(strconv.FormatInt(e.ID, 10))
	}
	return statusOutputOf(how.status(http.StatusAccepted), begun, err)
}

func (h *erasureHandlers) eraseSelf(ctx context.Context, user models.UserID, _ *ownInput[erasureConfirmation]) (*statusOutput[newErasure], error) {
	return h.begin(ctx, user, DryRun{})
}

// UserPath names a user in the path.
type UserPath struct {
	ID models.UserID `path:"id" doc:"The user" example:"1001"`
}

func (h *erasureHandlers) eraseUser(ctx context.Context, in *UserPath) (*statusOutput[newErasure], error) {
	return h.begin(ctx, in.ID, DryRun{})
}

type eraseUserAsOperatorInput struct {
	UserPath
	DryRun
	Body erasureReason
}

type erasureReason struct {
	Reason      string `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for other operators" example:"asked for by letter"`
	WithInvited bool   `json:"with_invited,omitempty" doc:"Whether all who came by the user's invitations are erased, too, and by theirs"`
}

// withInvited is the target, in the audit log, of an erasure of a user with all whom they have brought.
const withInvited = "with_invited"

func (in *eraseUserAsOperatorInput) about(e *audit.Entry) {
	e.User, e.Reason = in.ID, in.Body.Reason
	if in.Body.WithInvited {
		e.Target = withInvited
	}
}

// branchErasure says how far the erasure of an operator's call is.
type branchErasure struct {
	newErasure
	Done int `json:"done" doc:"How many users the call has erased"`
	Left int `json:"left" doc:"How many are left to erase, by a further call; in a dry run all of them"`
}

func (h *erasureHandlers) eraseAsOperator(ctx context.Context, in *eraseUserAsOperatorInput) (*statusOutput[branchErasure], error) {
	b, err := models.BranchErasure{Left: 1}, error(nil)
	if in.Body.WithInvited {
		b, err = h.erasures.BeginBranch(ctx, in.ID, in.isDryRun())
	} else if e, failed := h.erasures.Begin(ctx, in.ID, in.isDryRun()); failed != nil || !in.isDryRun() {
		b, err = models.BranchErasure{ID: e.ID, Done: 1}, failed
	}
	answer := branchErasure{Done: b.Done, Left: b.Left}
	if b.ID != 0 {
		answer.ErasureID = new(strconv.FormatInt(b.ID, 10))
	}
	return statusOutputOf(in.status(http.StatusAccepted), answer, err)
}

var listErasures = operation{
	id:          "listErasures",
	summary:     "List erasures",
	description: "The erasures of users, newest first, and how far they are.",
}

// erasure says how far an erasure is.
type erasure struct {
	ID         string            `json:"id" doc:"The erasure's id"`
	UserID     *models.UserID    `json:"user_id" nullable:"true" doc:"The user; null once the erasure is finished"`
	BegunAt    models.Timestamp  `json:"begun_at" format:"date-time" doc:"When the user id became free"`
	Sweeps     int               `json:"sweeps" doc:"How often all that is stored was searched"`
	SweptAt    *models.Timestamp `json:"swept_at" format:"date-time" nullable:"true" doc:"When the last of these searches began; null before the first one"`
	Removed    int64             `json:"removed" doc:"How many rows, keys and entries the last of these searches has removed or emptied"`
	FinishedAt *models.Timestamp `json:"finished_at" format:"date-time" nullable:"true" doc:"When a search has found nothing more; null until then"`
}

func erasureOf(e models.Erasure) erasure {
	return erasure{
		ID: strconv.FormatInt(e.ID, 10), UserID: e.User, BegunAt: models.TimestampOf(e.BegunAt), Sweeps: e.Sweeps, Removed: e.Removed,
		SweptAt: timestampIfAny(e.SweptAt), FinishedAt: timestampIfAny(e.FinishedAt),
	}
}

type erasurePage struct {
	Erasures   []erasure `json:"erasures" nullable:"false" doc:"This page, newest first"`
	NextCursor *string   `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func (h *erasureHandlers) list(ctx context.Context, in *struct{ Paging }) (*output[erasurePage], error) {
	erasures, next, err := pageOf(ctx, h.cursors, in.Paging, erasureOf, func(after models.Cursor, limit int) ([]models.Erasure, error) {
		return h.erasures.List(ctx, after.Key, limit)
	}, "erasures")
	return outputOf(erasurePage{erasures, next}, err)
}

const (
	// exportTimeout bounds how long a client may take for a part of an export.
	exportTimeout = 30 * time.Second
	// exportBuffer is the size of a part, in bytes.
	exportBuffer = 32 << 10
)

const exportContents = "One JSON document with everything that an erasure would remove: profile, friends, requests, choices, groups, " +
	"current and archived scores, increments, corrections, and what operators and webhooks have of the user. " +
	"It does not say who hides from the user. If the connection breaks, the document is incomplete: ask again."

var (
	exportSelf = exportOperation("exportSelf", "Get everything that is stored about oneself", "")
	exportUser = exportOperation("exportUser", "Get everything that is stored about a user", " Nor has it the addresses of the user's browsers.")
)

func exportOperation(id, summary, without string) operation {
	return operation{
		id: id, summary: summary, description: exportContents + without,
		errors: []models.Code{models.CodeUserNotFound}, responses: exportResponses, report: always, export: true,
	}
}

func exportResponses() map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: "The document",
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{
			Type: huma.TypeObject, AdditionalProperties: true,
			Description: "user_id, exported_at, and a list for each kind of data",
		}}},
	}}
}

func (h *erasureHandlers) exportSelf(ctx context.Context, user models.UserID, _ *OnBehalf) (*huma.StreamResponse, error) {
	return h.export(ctx, user, true)
}

func (h *erasureHandlers) exportUser(ctx context.Context, in *UserPath) (*huma.StreamResponse, error) {
	return h.export(ctx, in.ID, false)
}

// export streams the document, with the user's secrets if it is the user's own.
func (h *erasureHandlers) export(ctx context.Context, user models.UserID, own bool) (*huma.StreamResponse, error) {
	write, err := h.erasures.Export(ctx, user, own)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		c := humagin.Unwrap(hctx)
		header := c.Writer.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Content-Disposition", `attachment; filename="stepboard-export.json"`)
		if c.Request.Method == http.MethodHead {
			return // reading everything would be wasted on a body that is not sent
		}
		out := bufio.NewWriterSize(&exportWriter{c.Writer, http.NewResponseController(c.Writer)}, exportBuffer)
		err := write(ctx, out)
		if err == nil {
			err = out.Flush()
		}
		switch {
		case err == nil:
		case c.Writer.Written():
			setError(c, err)
			panic(http.ErrAbortHandler) // so that what was cut off looks cut off
		default:
			header.Del("Content-Disposition")
			writeProblem(c, err)
		}
	}}, nil
}

// exportWriter gives the client exportTimeout for each write.
type exportWriter struct {
	gin.ResponseWriter

	control *http.ResponseController
}

// Write is part of io.Writer.
func (w *exportWriter) Write(data []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(exportTimeout)) // it fails only if the connection has no deadlines
	return w.ResponseWriter.Write(data)
}
