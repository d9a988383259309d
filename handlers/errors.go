package handlers

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"stepboard/models"
)

// statusOf gives each code its HTTP status.
var statusOf = map[models.Code]int{
	models.CodeInvalidRequest:   http.StatusBadRequest,
	models.CodeInvalidCursor:    http.StatusBadRequest,
	models.CodeUnauthenticated:  http.StatusUnauthorized,
	models.CodeForbidden:        http.StatusForbidden,
	models.CodeBoardNotFound:    http.StatusNotFound,
	models.CodeUserNotFound:     http.StatusNotFound,
	models.CodeNotFound:         http.StatusNotFound,
	models.CodeMethodNotAllowed: http.StatusMethodNotAllowed,
	models.CodeRequestTimeout:   http.StatusRequestTimeout,
	models.CodeEventIDConflict:  http.StatusConflict,
	models.CodeFriendLimit:      http.StatusConflict,
	models.CodeBoardKind:        http.StatusConflict,
	models.CodeBoardExists:      http.StatusConflict,
	models.CodeBucketHot:        http.StatusConflict,
	models.CodeArchiveRunning:   http.StatusConflict,
	models.CodeBodyTooLarge:     http.StatusRequestEntityTooLarge,
	models.CodeValidationFailed: http.StatusUnprocessableEntity,
	models.CodeScoreOutOfRange:  http.StatusUnprocessableEntity,
	models.CodeDateInFuture:     http.StatusUnprocessableEntity,
	models.CodeDateClosed:       http.StatusUnprocessableEntity,
	models.CodeEventNotOpen:     http.StatusUnprocessableEntity,
	models.CodeRateLimited:      http.StatusTooManyRequests,
	models.CodeUnavailable:      http.StatusServiceUnavailable,
	models.CodeInternal:         http.StatusInternalServerError,
}

// retryAfter is how many seconds a client waits after a 503.
const retryAfter = 2

// statusClientGone is what is logged where nobody was left to answer.
const statusClientGone = 499

// Problem is every error's body (RFC 9457).
type Problem struct {
	Type      string              `json:"type" doc:"about:blank: the status says what kind of problem it is"`
	Title     string              `json:"title" doc:"The status in words"`
	Status    int                 `json:"status" doc:"The HTTP status"`
	Detail    string              `json:"detail" doc:"What a person should know and do"`
	Code      models.Code         `json:"code" doc:"What a program branches on"`
	RequestID string              `json:"request_id" doc:"Names the request in the service's log"`
	Errors    []models.FieldError `json:"errors,omitempty" nullable:"false" doc:"The parts of the request that are wrong"`

	wait  int // seconds before a client tries again
	cause error
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders asks the client to wait where waiting helps.
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

// ContentType marks the body as a problem.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// problemOf is the body for an error.
func problemOf(err error) *Problem {
	var known *models.Error
	if !errors.As(err, &known) {
		known = &models.Error{Code: models.CodeInternal, Message: "something went wrong here; the log knows this request's id"}
	}
	status := statusOf[known.Code]
	wait := retryAfter
	if known.Wait > 0 {
		wait = int(math.Ceil(known.Wait.Seconds()))
	}
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: known.Message, Code: known.Code, Errors: known.Fields, wait: wait, cause: err,
	}
}

// writeProblem answers an error outside Huma's operations.
func writeProblem(c *gin.Context, err error) {
	p := problemOf(err)
	p.RequestID = requestID(c)
	for name, values := range p.GetHeaders() {
		c.Writer.Header()[name] = values
	}
	setError(c, err)
	c.Header("Content-Type", "application/problem+json")
	c.Status(p.Status)
	if err := json.MarshalWrite(c.Writer, p); err != nil {
		setError(c, err)
	}
	c.Abort()
}

// problemsOnce guards variables of Huma's package, the only way in which it
// can be told how errors look.
var problemsOnce sync.Once

// useProblems makes Huma answer its own errors and the handlers' as problems.
func useProblems() { problemsOnce.Do(installProblems) }

func installProblems() {
	// The decoder tells Nickname from nickname: so must the check before it,
	// or a mistyped key would count as sent and be read as empty.
	huma.ValidateStrictCasing = true
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return problemFor(status, msg, errs)
	}
	huma.NewErrorWithContext = func(hctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		p := problemFor(status, msg, errs)
		c := humagin.Unwrap(hctx)
		p.RequestID = requestID(c)
		setError(c, p.cause)
		for name, values := range p.GetHeaders() {
			c.Writer.Header()[name] = values
		}
		return p
	}
}

// problemFor translates what Huma reports: an error of a handler, or a fault
// that Huma itself has found in the request.
func problemFor(status int, msg string, errs []error) *Problem {
	var known *models.Error
	for _, err := range errs {
		if errors.As(err, &known) {
			return problemOf(err)
		}
	}
	switch {
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
		return problemOf(models.Errorf(models.CodeBodyTooLarge, "a body has at most %d bytes", maxBody))
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

// bodyCutOff is what Huma says of a body that it could not read to its end. It
// takes that for the server's fault; it is the client's.
const bodyCutOff = "cannot read request body"

func isNotJSON(err error) bool {
	var detailer huma.ErrorDetailer
	return errors.As(err, &detailer) && detailer.ErrorDetail().Message == notJSON
}

func validationFailed(errs []error) *models.Error {
	invalid := &models.Error{Code: models.CodeValidationFailed, Message: "the request is not valid"}
	for _, err := range errs {
		invalid.Fields = append(invalid.Fields, fieldError(err))
	}
	if len(invalid.Fields) > 0 {
		invalid.Message = invalid.Fields[0].Location + ": " + invalid.Fields[0].Message
	}
	return invalid
}

// fieldError is a fault that Huma has found. What decodeTyped reports has its
// place in its text.
func fieldError(err error) models.FieldError {
	var detailer huma.ErrorDetailer
	if !errors.As(err, &detailer) {
		return models.FieldError{Location: "body", Message: "can't be read as this call's body"}
	}
	detail := detailer.ErrorDetail()
	if place, message, ok := strings.Cut(detail.Message, ": "); ok && detail.Location == "body" && strings.HasPrefix(place, "body") {
		return models.FieldError{Location: place, Message: message}
	}
	return models.FieldError{Location: detail.Location, Message: detail.Message}
}

// methodNotAllowed is the answer to a path that does not take the method.
func methodNotAllowed(c *gin.Context) {
	writeProblem(c, models.Errorf(models.CodeMethodNotAllowed, "this path does not take %s", c.Request.Method))
}

// notFound is the answer to an unknown path.
func notFound(c *gin.Context) {
	writeProblem(c, models.Errorf(models.CodeNotFound, "there is nothing at this path; GET /openapi.json lists what there is"))
}
