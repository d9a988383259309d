package handlers

import (
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"stepboard/models"
)

// statusOf gives each code its HTTP status.
var statusOf = map[models.Code]int{
	models.CodeInvalidRequest:     http.StatusBadRequest,
	models.CodeInvalidCursor:      http.StatusBadRequest,
	models.CodeUnauthenticated:    http.StatusUnauthorized,
	models.CodeForbidden:          http.StatusForbidden,
	models.CodeBoardNotFound:      http.StatusNotFound,
	models.CodeUserNotFound:       http.StatusNotFound,
	models.CodeNotFound:           http.StatusNotFound,
	models.CodeMethodNotAllowed:   http.StatusMethodNotAllowed,
	models.CodeRequestTimeout:     http.StatusRequestTimeout,
	models.CodeEventIDConflict:    http.StatusConflict,
	models.CodeFriendLimit:        http.StatusConflict,
	models.CodeChoiceLimit:        http.StatusConflict,
	models.CodeCorrectionExists:   http.StatusConflict,
	models.CodeCompetitionStarted: http.StatusConflict,
	models.CodeCompetitionFull:    http.StatusConflict,
	models.CodeGroupFull:          http.StatusConflict,
	models.CodeHoldChanged:        http.StatusConflict,
	models.CodeGroupLimit:         http.StatusConflict,
	models.CodeUserExists:         http.StatusConflict,
	models.CodeBoardKind:          http.StatusConflict,
	models.CodeBoardExists:        http.StatusConflict,
	models.CodeEventFinal:         http.StatusConflict,
	models.CodeBucketHot:          http.StatusConflict,
	models.CodeArchiveRunning:     http.StatusConflict,
	models.CodeBodyTooLarge:       http.StatusRequestEntityTooLarge,
	models.CodeValidationFailed:   http.StatusUnprocessableEntity,
	models.CodeCorrectionRaises:   http.StatusUnprocessableEntity,
	models.CodeScoreOutOfRange:    http.StatusUnprocessableEntity,
	models.CodeDateInFuture:       http.StatusUnprocessableEntity,
	models.CodeDateClosed:         http.StatusUnprocessableEntity,
	models.CodeEventNotOpen:       http.StatusUnprocessableEntity,
	models.CodeOccurredAtInvalid:  http.StatusUnprocessableEntity,
	models.CodeNotDaily:           http.StatusUnprocessableEntity,
	models.CodeNotRecognised:      http.StatusUnprocessableEntity,
	models.CodeAddressLimit:       http.StatusConflict,
	models.CodeAddressUnknown:     http.StatusUnauthorized,
	models.CodeWeChatCode:         http.StatusUnauthorized,
	models.CodeWeChatSession:      http.StatusConflict,
	models.CodeJoiningClosed:      http.StatusForbidden,
	models.CodeSessionEnded:       http.StatusUnauthorized,
	models.CodeLastOperator:       http.StatusConflict,
	models.CodeNicknameTaken:      http.StatusConflict,
	models.CodeUnsupportedMedia:   http.StatusUnsupportedMediaType,
	models.CodeOffsetRequired:     http.StatusUnprocessableEntity,
	models.CodeSpanTooLarge:       http.StatusUnprocessableEntity,
	models.CodeRateLimited:        http.StatusTooManyRequests,
	models.CodeRequestLimit:       http.StatusTooManyRequests,
	models.CodeBusy:               http.StatusTooManyRequests,
	models.CodeUnavailable:        http.StatusServiceUnavailable,
	models.CodeInternal:           http.StatusInternalServerError,
}

// retryAfter is the number of seconds after which a client repeats a call that was
// answered 503.
const retryAfter = 2

// statusClientGone is the status logged for a client that disconnected before the
// answer.
const statusClientGone = 499

// internalMessage is the detail of an internal error, whose cause only the log
// shows.
const internalMessage = "an internal error occurred; its cause is in the service's log, under this request's id"

// Problem is the body of every error (RFC 9457).
type Problem struct {
	Type      string              `json:"type" doc:"about:blank: the status says what kind of problem it is"`
	Title     string              `json:"title" doc:"The status in words"`
	Status    int                 `json:"status" doc:"The HTTP status"`
	Detail    string              `json:"detail" doc:"What is wrong, and what to do about it, for a person"`
	Code      models.Code         `json:"code" doc:"The kind of error, for a program"`
	RequestID string              `json:"request_id" doc:"The request's id in the service's log"`
	Errors    []models.FieldError `json:"errors,omitempty" nullable:"false" doc:"The parts of the request that are wrong"`
	Rejected  []rejectedDayTotal  `json:"rejected,omitempty" nullable:"false" doc:"Where a list of totals was uploaded of which none was accepted: why, for each of them"`

	wait  int // seconds before a client tries again
	cause error
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns Retry-After for 429 and 503, and WWW-Authenticate for 401.
func (p *Problem) GetHeaders() http.Header {
	switch p.Status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return http.Header{"Retry-After": {strconv.Itoa(p.wait)}}
	case http.StatusUnauthorized:
		return http.Header{"Www-Authenticate": {"Bearer"}}
	default:
		return nil
	}
}

// ContentType returns the media type of problems.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// problemOf returns the body for an error. An error that is not a *models.Error
// is internal, and its text is not shown.
func problemOf(err error) *Problem {
	var known *models.Error
	if !errors.As(err, &known) {
		known = &models.Error{Code: models.CodeInternal, Message: internalMessage}
	}
	status := statusOf[known.Code]
	wait := retryAfter
	if known.Wait > 0 {
		wait = int(math.Ceil(known.Wait.Seconds()))
	}
	p := &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: known.Message, Code: known.Code, Errors: known.Fields, wait: wait, cause: err,
	}
	var refused *refusedUploads
	if errors.As(err, &refused) {
		p.Rejected = refused.rejected
	}
	return p
}

// Refuse returns the problem of a request that no handler sees, with an id for the log.
func Refuse(status int, detail string) *Problem {
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: detail, Code: models.CodeInvalidRequest, RequestID: newRequestID(),
	}
}

// writeProblem answers a request with an error, outside Huma's operations.
func writeProblem(c *gin.Context, err error) {
	p := problemOf(err)
	p.RequestID = requestID(c)
	maps.Copy(c.Writer.Header(), p.GetHeaders())
	setError(c, err)
	c.Header("Content-Type", "application/problem+json")
	c.Status(p.Status)
	if err := json.MarshalWrite(c.Writer, p, jsonOptions); err != nil {
		setError(c, err)
	}
	c.Abort()
}

// useProblems makes Huma encode its own errors and those of handlers as problems, by its package
// variables: it has no other way to configure errors.
var useProblems = sync.OnceFunc(func() {
	// Huma checks required keys before the body is decoded. The decoder is case-
	// sensitive, so the check must be too: otherwise Nickname would satisfy the
	// check for nickname and the nickname would be empty.
	huma.ValidateStrictCasing = true
	_, notADate := models.ParseDate("")
	validation.MsgExpectedRFC3339Date = notADate.Error()
	validation.MsgExpectedInteger = notWhole
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return problemFor(status, msg, errs, maxBody)
	}
	huma.NewErrorWithContext = func(hctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		p := problemFor(status, msg, errs, bodyLimit(hctx.Operation()))
		c := humagin.Unwrap(hctx)
		p.RequestID = requestID(c)
		setError(c, p.cause)
		maps.Copy(c.Writer.Header(), p.GetHeaders())
		return p
	}
})

// problemFor translates an error that Huma reports: one of a handler, or one that
// Huma itself has found in the request. maxBytes is how many bytes the body may have.
func problemFor(status int, msg string, errs []error, maxBytes int64) *Problem {
	var known *models.Error
	for _, err := range errs {
		if errors.As(err, &known) {
			return problemOf(err)
		}
	}
	switch {
	case msg == noBody:
		return problemOf(models.Invalid("body", "is required"))
	case msg == bodyCutOff:
		return problemOf(&models.Error{
			Code:    models.CodeInvalidRequest,
			Message: "the body ends too early, or its chunks are broken",
			Err:     errors.Join(errs...),
		})
	case status == http.StatusInternalServerError:
		return problemOf(errors.Join(errs...))
	case status == http.StatusRequestTimeout:
		return problemOf(models.Errorf(models.CodeRequestTimeout, "the body did not arrive in time; send the request again"))
	case status == http.StatusRequestEntityTooLarge:
		return problemOf(bodyTooLarge(maxBytes))
	case status == http.StatusBadRequest && slices.ContainsFunc(errs, isNotJSON):
		return problemOf(models.Errorf(models.CodeInvalidRequest, notJSON))
	case status == http.StatusUnprocessableEntity || status == http.StatusBadRequest && len(errs) > 0:
		return problemOf(validationFailed(errs))
	default:
		return problemOf(&models.Error{
			Code:    models.CodeInvalidRequest,
			Message: "the request can't be read: " + msg,
			Err:     errors.Join(errs...),
		})
	}
}

func bodyTooLarge(maxBytes int64) error {
	return models.Errorf(models.CodeBodyTooLarge, "the body of this call has at most %d bytes", maxBytes)
}

// maxFieldErrors is how many errors an answer lists at most.
const maxFieldErrors = 20

// noBody is Huma's message about a body that is missing.
const noBody = "request body is required"

// bodyCutOff is Huma's message about a body that it could not read to the end.
// Huma reports it as an error of the server; it is one of the client.
const bodyCutOff = "cannot read request body"

func isNotJSON(err error) bool {
	var detailer huma.ErrorDetailer
	return errors.As(err, &detailer) && detailer.ErrorDetail().Message == notJSON
}

func validationFailed(errs []error) *models.Error {
	invalid := &models.Error{Code: models.CodeValidationFailed, Message: "the request is not valid"}
	for _, err := range errs[:min(len(errs), maxFieldErrors)] {
		invalid.Fields = append(invalid.Fields, fieldError(err))
	}
	if len(invalid.Fields) > 0 {
		invalid.Message = invalid.Fields[0].Location + ": " + invalid.Fields[0].Message
	}
	return invalid
}

// fieldError converts an error that Huma has found. An error of decodeTyped has
// its location in its text.
func fieldError(err error) models.FieldError {
	var detailer huma.ErrorDetailer
	if !errors.As(err, &detailer) {
		return models.FieldError{Location: "body", Message: "can't be decoded as the body of this call"}
	}
	detail := detailer.ErrorDetail()
	if location, message, ok := strings.Cut(detail.Message, ": "); ok && detail.Location == "body" && strings.HasPrefix(location, "body") {
		return models.FieldError{Location: location, Message: message}
	}
	return models.FieldError{Location: detail.Location, Message: detail.Message}
}

// methodNotAllowed is the answer to a path that does not take the method.
func methodNotAllowed(c *gin.Context) {
	writeProblem(c, models.Errorf(models.CodeMethodNotAllowed, "this path does not take %s", c.Request.Method))
}

// notFound is the answer to an unknown path.
func notFound(c *gin.Context) {
	writeProblem(c, models.Errorf(models.CodeNotFound, "nothing is served at this path; GET /openapi.json lists every call"))
}
