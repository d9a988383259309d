package handlers

import (
	"errors"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"stepboard/models"
)

// Every error that Huma finds by itself gets a code of the contract and the
// status of that code.
func TestProblemFor(t *testing.T) {
	t.Parallel()
	internal := errors.New("json: cannot unmarshal string into Go handlers.secret")
	for _, tt := range []struct {
		name   string
		status int
		msg    string
		errs   []error
		want   int
		code   models.Code
	}{
		{"no body", 400, "request body is required", nil, 422, models.CodeValidationFailed},
		{"a body that arrives too slowly", 408, "request body read timeout", nil, 408, models.CodeRequestTimeout},
		{"a slow body after a bad parameter", 408, "request body read timeout", []error{&huma.ErrorDetail{Location: "query.limit", Message: "invalid integer"}}, 408, models.CodeRequestTimeout},
		{"a body that ends too early", 500, "cannot read request body", []error{errors.New("unexpected EOF")}, 400, models.CodeInvalidRequest},
		{"a body too large", 413, "request body is too large limit=1048577 bytes", nil, 413, models.CodeBodyTooLarge},
		{"an unknown content type", 415, "validation failed", []error{&huma.ErrorDetail{Location: "body", Message: "unknown content type"}}, 400, models.CodeInvalidRequest},
		{"an unknown Accept header", 406, "unable to marshal response", []error{errors.New("unknown accept content type")}, 400, models.CodeInvalidRequest},
		{"headers too large", 431, "too large", nil, 400, models.CodeInvalidRequest},
		{"a bad parameter", 422, "validation failed", []error{&huma.ErrorDetail{Location: "query.limit", Message: "invalid integer"}}, 422, models.CodeValidationFailed},
		{"an error that is no detail", 422, "validation failed", []error{internal}, 422, models.CodeValidationFailed},
		{"not JSON", 400, "validation failed", []error{&huma.ErrorDetail{Location: "body", Message: notJSON}}, 400, models.CodeInvalidRequest},
		{"an error of a handler", 500, "unexpected error occurred", []error{models.Errorf(models.CodeForbidden, "no")}, 403, models.CodeForbidden},
		{"an unknown error", 500, "unexpected error occurred", []error{internal}, 500, models.CodeInternal},
	} {
		p := problemFor(tt.status, tt.msg, tt.errs, 1<<20)
		if p.Status != tt.want || p.Code != tt.code || p.Title == "" || p.Detail == "" {
			t.Errorf("%s: %+v", tt.name, p)
		}
		for _, f := range append(p.Errors, models.FieldError{Message: p.Detail}) {
			if f.Message == internal.Error() {
				t.Errorf("%s: shows %q", tt.name, f.Message)
			}
		}
	}
}

// Every code has a status.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	for code, status := range statusOf {
		if p := problemOf(models.Errorf(code, "text")); p.Status != status || p.Title == "" {
			t.Errorf("%s: %+v", code, p)
		}
	}
}
