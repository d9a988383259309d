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

// Errors of a body have texts of the API and name the field.
func TestErrorsOfBodies(t *testing.T) {
	t.Parallel()
	const (
		ask, replace, upload = "POST /v1/friends/requests", "PUT /v1/users/1/friends", "POST /v1/boards/steps/scores"

		invalid = "422 validation_failed: "
		notJSON = "400 invalid_request: the body is not JSON, or names a key twice"
		badID   = invalid + `body.user_id: expected string to be a user id: printable ASCII characters without spaces, and no path segment "." or ".."`
		inList  = invalid + `body.friend_ids[1]: a user id is 1 to 128 printable ASCII characters without spaces, and has no path segment "." or ".."`
	)
	runCases(t, func(r *recorder) handlers.Config { return userCalls(t, r) }, []testCase{
		{"an id that is none", "1001", ask, `{"user_id":"10 02"}`, nil, nil, badID},
		{"another type", "1001", ask, `{"user_id":1e999}`, nil, nil, invalid + "body.user_id: has the wrong type"},
		{"nothing", "1001", ask, ``, nil, nil, invalid + "body: is required"},
		{"a key twice", "1001", ask, `{"user_id":"5","user_id":"6"}`, nil, nil, notJSON},
		{"half an object", "1001", ask, `{"user_id":"5"`, nil, nil, notJSON},
		{"two objects", "1001", ask, `{"user_id":"5"}{}`, nil, nil, notJSON},
		{"no UTF-8", "1001", "PUT /v1/me", "{\"nickname\":\"\xff\"}", nil, nil, notJSON},
		{"an id in a list that is none", "service", replace, `{"friend_ids":["2","é"]}`, nil, nil, inList},
		{"no list", "service", replace, `{"friend_ids":null}`, nil, nil, invalid + "body.friend_ids: is required"},
		{"a list twice", "service", replace, `{"friend_ids":["2"],"friend_ids":[]}`, nil, nil, notJSON},
		{"a score twice", "1001", upload, `{"date":"2026-11-20","score":1,"score":2}`, nil, nil, notJSON},
	})
}

// Whatever is wrong with the body of an upload, nothing of it reaches the service.
func TestRefusedUploads(t *testing.T) {
	t.Parallel()
	const item = `{"date":"2026-11-20","score":1}`
	score := func(text string) string { return `{"date":"2026-11-20","score":` + text + `}` }
	date := func(text string) string { return `{"date":` + text + `,"score":1}` }
	for want, bodies := range map[string][]string{
		"400 invalid_request: ": {
			`steps=5`, `{"date":"2026-11-20"`, item + item, "{\"date\":\"\xff\",\"score\":1}", `[`, score("NaN"), score("007"), `{"date":5`,
			`{"scores":[{"date":"2026-11-20","score":1,"date":"2026-11-19"}]}`, `{"steps":1,"date":"2026-11-20","date":"2026-11-19"}`,
		},
		"422 validation_failed: ": {
			`[]`, `null`, `{}`, `{"Date":"2026-11-20","score":1}`, `{"scores":[` + item + `,` + score("1.5") + `]}`,
			score("null"), score(`"NaN"`), score("1e3"), score("[1]"), score(`1,"steps":2`),
			date(`"2026-02-30"`), date(`"20.11.2026"`), date(`"2026-11-20T00:00:00Z"`), date("20261120"),
		},
	} {
		for _, body := range bodies {
			r := &recorder{}
			if got := describe(t, send(t, newAPI(t, userCalls(t, r)), "1001", "POST /v1/boards/steps/scores", body)); !strings.HasPrefix(got, want) || r.calls != nil {
				t.Errorf("%s: %s, %v, want %s", body, got, r.calls, want)
			}
		}
	}
}

// A key with other letter case is an unknown key.
func TestMistypedKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ token, request, body, location string }{
		{"1001", "POST /v1/friends/requests", `{"user_id":"3","USER_ID":"4"}`, "body.USER_ID"},
		{"1001", "PUT /v1/me", `{"Nickname":"Eve"}`, "body.Nickname"},
		{"service", "PUT /v1/users/1", `{"nickname":"Eve","avatar_Url":""}`, "body.avatar_Url"},
		{"service", "PUT /v1/users/1/friends", `{"friend_ids":["2"],"friend_Ids":[]}`, "body.friend_Ids"},
	} {
		r := &recorder{}
		got := send(t, newAPI(t, userCalls(t, r)), tt.token, tt.request, tt.body)
		if text := got.Body.String(); got.Code != 422 || !strings.Contains(text, `"location":"`+tt.location+`"`) || r.calls != nil {
			t.Errorf("%s: %d %s, %v", tt.body, got.Code, text, r.calls)
		}
	}
}
