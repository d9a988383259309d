package handlers_test

import (
	"errors"
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
	for _, path := range []string{"/v1/boards/steps/scores", "/v1/friends/requests"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, unread{t})
		r.Header.Set("Authorization", "Bearer 1001")
		r.ContentLength = 1<<20 + 1
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if got, want := describe(t, w), "413 body_too_large: a body has at most 1048576 bytes"; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
