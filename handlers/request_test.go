package handlers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stepboard/handlers"
)

// A path is split at its slashes before its values are decoded.
func TestEncodedPaths(t *testing.T) {
	t.Parallel()
	const nothing = "404 not_found: nothing is served at this path; GET /openapi.json lists every call"
	for _, tt := range []struct {
		path  string
		board string // the board that the ranking is asked for; "" for nothing
	}{
		{"/v1/boards/steps/friends", "steps"},
		{"/v1/boards/%73teps/friends", "steps"},
		{"/v1/board%73/steps/f%72iends", "steps"},
		{"/v1/boards/a%2Fb/friends", "a/b"},
		{"/v1/boards/a%2fb/friends", "a/b"},
		{"/v1/boards/a%252fb/friends", "a%2fb"},
		{"/v1/boards/a+b/friends", "a+b"},
		{"/v1/boards/a+b%2Fc/friends", "a+b/c"},
		{"/v1/boards/a%2Bb%20c/friends", "a+b c"},
		{"/v1/boards/auth0%7Cx/friends", "auth0|x"},
		{"/v1%2fboards/steps/friends", ""},
		{"/v1/boards%2fsteps/friends", ""},
		{"/v1/boards/steps%2ffriends", ""},
		{"/v1%2Fboards%2Fsteps%2Ffriends", ""},
		{"/v1/boards/steps/friends%2f", ""},
	} {
		r := &recorder{}
		got := send(t, newAPI(t, handlers.Config{Rankings: rankings{recorder: r}, Boards: boards{}}), "1001", "GET "+tt.path, "")
		switch {
		case tt.board == "" && (describe(t, got) != nothing || len(r.calls) > 0):
			t.Errorf("%s: %s, %v", tt.path, describe(t, got), r.calls)
		case tt.board != "" && (len(r.calls) != 1 || !strings.HasPrefix(r.calls[0], "Friends "+tt.board+" today ")):
			t.Errorf("%s: %s, %v, want the board %s", tt.path, describe(t, got), r.calls, tt.board)
		}
	}
	if got := describe(t, send(t, newAPI(t, handlers.Config{}), "admin", "GET /v1%2fadmin/archives", "")); got != nothing {
		t.Errorf("the operators' calls: %s", got)
	}
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (b unread) Read([]byte) (int, error) {
	b.t.Error("the body is read")
	return 0, errors.New("the body is read")
}

// A body that is announced as too large is refused before any of it is read.
func TestAnnouncedBodies(t *testing.T) {
	t.Parallel()
	api := newAPI(t, handlers.Config{})
	for path, limit := range map[string]int64{
		"/v1/boards/steps/scores": 16 << 10, "/v1/friends/requests": 16 << 10,
		"/v1/boards/steps/scores/batch": 1 << 20, "/v1/boards/gifts/increments": 1 << 20,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, unread{t})
		r.Header.Set("Authorization", "Bearer 1001")
		if limit == 1<<20 {
			r.Header.Set("Authorization", "Bearer service")
		}
		r.ContentLength = limit + 1
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if got, want := describe(t, w), fmt.Sprintf("413 body_too_large: the body of this call has at most %d bytes", limit); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(strings.Repeat(" ", int(limit)+1)))
		r.Header.Set("Authorization", "Bearer service")
		r.ContentLength = -1 // it is not announced
		w = httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %s", path, describe(t, w))
		}
	}
}

// An answer about a request with very many errors names 20 of them, and a list ends at the first.
func TestManyErrors(t *testing.T) {
	t.Parallel()
	api := newAPI(t, handlers.Config{})
	fields := func(length int) string {
		var b strings.Builder
		for i := 0; b.Len() < length; i++ {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return "{" + b.String() + `"z":0}`
	}
	for request, want := range map[string]struct {
		body   string
		errors int
	}{
		"PUT /v1/me":                                     {fields(16_000), 20},
		"PUT /v1/me?user_id=%20":                         {fields(16_000), 20},
		"PUT /v1/users/1/friends":                        {`{"friend_ids":[` + strings.Repeat(`5,`, 500_000) + `5]}`, 1},
		"PUT /v1/groups/family/members":                  {fields(1_000_000), 1},
		"POST /v1/boards/steps/scores/batch":             {fields(1_000_000), 1},
		"GET /v1/boards?" + strings.Repeat("a&", 15_000): {"", 1},
		"GET /v1/boards?" + query(15_000):                {"", 1},
		"GET /v1/boards?" + query(32):                    {"", 20},
	} {
		w := send(t, api, "service", request, want.body)
		var p handlers.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 422 || len(p.Errors) != want.errors || w.Body.Len() > 5_000 {
			t.Errorf("%.50s: %d, %d bytes, %d errors, want %d: %.500s", request, w.Code, w.Body.Len(), len(p.Errors), want.errors, w.Body)
		}
	}
}

// query returns a query with as many parameters that no call has.
func query(parameters int) string {
	var b strings.Builder
	for i := range parameters {
		fmt.Fprintf(&b, "x%d=%d&", i, i)
	}
	return strings.TrimSuffix(b.String(), "&")
}
