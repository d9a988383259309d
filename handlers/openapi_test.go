package handlers

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
)

// The pattern of the API's description and models.ParseUserID agree, because Huma
// checks the ids of paths and queries by the pattern alone.
func TestUserIDPattern(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(userIDPattern)
	text := rapid.OneOf(
		rapid.StringMatching(`[.!/~a -]{0,4}`), rapid.StringMatching(`[!-~]{126,130}`), rapid.StringN(0, 4, -1),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "bytes")) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		id := text.Draw(t, "id")
		_, err := models.ParseUserID(id)
		if got := pattern.MatchString(id) && len(id) <= models.MaxUserID; got != (err == nil) {
			t.Errorf("%q matches: %v, ParseUserID: %v", id, got, err)
		}
	})
}

// Every call by which an operator changes something can be tried first.
func TestChangesOfOperatorsTakeDryRun(t *testing.T) {
	t.Parallel()
	document, err := OpenAPI("1")
	if err != nil {
		t.Fatal(err)
	}
	type parameter struct{ Name, In string }
	var spec struct {
		Paths map[string]map[string]struct{ Parameters []parameter }
	}
	if err := json.Unmarshal(document, &spec); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for path, methods := range spec.Paths {
		for method, call := range methods {
			if !strings.HasPrefix(path, "/v1/admin/") || method == "get" {
				continue
			}
			calls++
			if !slices.Contains(call.Parameters, parameter{"dry_run", "query"}) {
				t.Errorf("%s %s takes no dry_run", method, path)
			}
		}
	}
	if calls == 0 {
		t.Error("found no calls")
	}
}

// Generated clients have names that say what a call does and what a schema holds, and not
// how a handler uses it.
func TestNamesInGeneratedClients(t *testing.T) {
	t.Parallel()
	document, err := OpenAPI("1")
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &spec); err != nil {
		t.Fatal(err)
	}
	verbAndNoun := regexp.MustCompile("^[a-z]+[A-Z][A-Za-z]+$")
	for path, methods := range spec.Paths {
		for method, op := range methods {
			if !verbAndNoun.MatchString(op.OperationID) {
				t.Errorf("%s %s has the id %q: set it in its operation", method, path, op.OperationID)
			}
		}
	}
	inner := regexp.MustCompile("(Body|Input|Output|Answer|Items?)$")
	for name := range spec.Components.Schemas {
		if inner.MatchString(name) {
			t.Errorf("%s is a handler's word: give its Go type another name", name)
		}
	}
}
