package models_test

import (
	"errors"
	"testing"

	"stepboard/models"
)

func TestErrorsOfOperations(t *testing.T) {
	t.Parallel()
	cause := errors.New("no connection")
	refused := models.Invalid("body.name", "is too long")
	cases := []struct {
		name string
		err  error
		code models.Code
		text string
	}{
		{"wrapped", models.Wrap("read users", cause), models.CodeInternal, "read users: no connection"},
		{"wrapped with a code", models.Wrap("read users", refused), models.CodeValidationFailed, "read users: body.name: is too long"},
		{"public", models.Public("read users", cause), models.CodeUnavailable, models.Unavailable("read users", cause).Error()},
		{"public with a code", models.Public("read users", refused), models.CodeValidationFailed, "body.name: is too long"},
	}
	for _, c := range cases {
		if code := models.CodeOf(c.err); code != c.code || c.err.Error() != c.text {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, code, c.err, c.code, c.text)
		}
	}
	if !errors.Is(cases[0].err, cause) || !errors.Is(cases[2].err, cause) {
		t.Error("the cause is not in the chain")
	}
	if models.Wrap("read users", nil) != nil || models.Public("read users", nil) != nil {
		t.Error("nil has become an error")
	}
}
