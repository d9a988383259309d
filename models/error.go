package models

import (
	"errors"
	"fmt"
	"time"
)

// Code identifies a kind of failure. Codes are part of the API: responses have them
// as `code`, and handlers/errors.go maps each to a status.
type Code string

// The codes of the API.
const (
	CodeInvalidRequest     Code = "invalid_request"
	CodeInvalidCursor      Code = "invalid_cursor"
	CodeUnauthenticated    Code = "unauthenticated"
	CodeForbidden          Code = "forbidden"
	CodeBoardNotFound      Code = "board_not_found"
	CodeUserNotFound       Code = "user_not_found"
	CodeNotFound           Code = "not_found"
	CodeMethodNotAllowed   Code = "method_not_allowed"
	CodeRequestTimeout     Code = "request_timeout"
	CodeEventIDConflict    Code = "event_id_conflict"
	CodeFriendLimit        Code = "friend_limit"
	CodeChoiceLimit        Code = "choice_limit"
	CodeCorrectionExists   Code = "correction_exists"
	CodeCompetitionStarted Code = "competition_started"
	CodeCompetitionFull    Code = "competition_full"
	CodeGroupFull          Code = "group_full"
	CodeHoldChanged        Code = "hold_changed"
	CodeGroupLimit         Code = "group_limit"
	CodeUserExists         Code = "user_exists"
	CodeBoardKind          Code = "board_kind"
	CodeBoardExists        Code = "board_exists"
	CodeBucketHot          Code = "bucket_hot"
	CodeArchiveRunning     Code = "archive_running"
	CodeBodyTooLarge       Code = "body_too_large"
	CodeValidationFailed   Code = "validation_failed"
	CodeCorrectionRaises   Code = "correction_raises"
	CodeScoreOutOfRange    Code = "score_out_of_range"
	CodeDateInFuture       Code = "date_in_future"
	CodeDateClosed         Code = "date_closed"
	CodeEventNotOpen       Code = "event_not_open"
	CodeEventFinal         Code = "event_final"
	CodeOccurredAtInvalid  Code = "occurred_at_invalid"
	CodeNotDaily           Code = "not_daily"
	CodeNotRecognised      Code = "not_recognised"
	CodeAddressLimit       Code = "upload_address_limit"
	CodeAddressUnknown     Code = "upload_address_unknown"
	CodeWeChatCode         Code = "wechat_code_invalid"
	CodeWeChatSession      Code = "wechat_session_expired"
	CodeJoiningClosed      Code = "joining_closed"
	CodeSessionEnded       Code = "session_ended"
	CodeLastOperator       Code = "last_operator"
	CodeNicknameTaken      Code = "nickname_taken"
	CodeUnsupportedMedia   Code = "unsupported_media_type"
	CodeOffsetRequired     Code = "utc_offset_required"
	CodeSpanTooLarge       Code = "span_too_large"
	CodeRateLimited        Code = "rate_limited"
	CodeRequestLimit       Code = "request_limit"
	CodeBusy               Code = "busy"
	CodeUnavailable        Code = "unavailable"
	CodeInternal           Code = "internal"
)

// Error is a failure that clients see: a code for programs and a message for people.
// Any other error that reaches a handler is internal; clients only see a request id.
type Error struct {
	Code Code
	// Message says what to do. It never holds internals.
	Message string
	// Fields point at the parts of the request that are wrong, if any.
	Fields []FieldError
	// Wait is how long to wait before trying again, or 0 if that is not known.
	Wait time.Duration
	// Err is the cause, for the log only.
	Err error
}

// FieldError is one wrong part of a request, such as body.scores[2].date.
type FieldError struct {
	Location string `json:"location" doc:"Where in the request, such as body.scores[2].date"`
	Message  string `json:"message" doc:"What is wrong there"`
}

// Error joins the message with its cause, for the log.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns a validation failure of one part of the request.
func Invalid(location, message string) *Error {
	return &Error{
		Code:    CodeValidationFailed,
		Message: location + ": " + message,
		Fields:  []FieldError{{Location: location, Message: message}},
	}
}

// NoUser returns the error about a user who does not exist.
func NoUser(user UserID) *Error {
	return Errorf(CodeUserNotFound, "there is no user %s", user)
}

// EventNotOpen returns the error of an increment that an event does not take at its time.
func EventNotOpen(board string, start, end time.Time) *Error {
	return Errorf(CodeEventNotOpen, "%s takes increments from %s to %s", board,
		start.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339))
}

// At returns a copy of e that names the part of the request that it is about.
func (e *Error) At(location string) *Error {
	located := *e
	located.Fields = []FieldError{{Location: location, Message: e.Message}}
	return &located
}

// Public returns an error of an operation that clients may see: err itself if it has a code
// for them, and otherwise Unavailable. It returns nil for nil.
func Public(operation string, err error) error {
	if CodeOf(err) == CodeInternal {
		return Unavailable(operation, err)
	}
	return err
}

// Unavailable returns the error of an operation that failed because a store is away,
// so that its result is unknown. The cause is only logged.
func Unavailable(operation string, err error) *Error {
	return &Error{
		Code:    CodeUnavailable,
		Message: "the service can't answer this right now; try again shortly",
		Err:     fmt.Errorf("%s: %w", operation, err),
	}
}

// Wrap returns the error of an operation for the log: err behind the operation's name. It returns
// nil for nil.
func Wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, err)
}

// CodeOf returns the code of the first Error in err's chain, CodeInternal if it has
// none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
