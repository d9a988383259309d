package handlers_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
)

const (
	appOrigin = "https://app.example.com"
	exposed   = "Content-Disposition, Retry-After, Www-Authenticate, X-Request-Id"
)

// Pages of permitted origins read every answer of the API, errors included. Nothing else says so.
func TestAnswersToOtherOrigins(t *testing.T) {
	t.Parallel()
	permitted := []string{"http://localhost:5173", appOrigin}
	limited := &models.Error{Code: models.CodeRateLimited, Message: "enough", Wait: 3}
	for _, tt := range []struct {
		name          string
		origins       []string
		origin, token string
		request       string
		err           error
		status        int
		allowed       string
	}{
		{"a success", permitted, appOrigin, "1001", oneHistory, nil, 200, appOrigin},
		{"HEAD", permitted, appOrigin, "1001", "HEAD /v1/boards/steps/history", nil, 200, appOrigin},
		{"without a token", permitted, appOrigin, "", oneHistory, nil, 401, appOrigin},
		{"a limit", permitted, appOrigin, "1001", oneHistory, limited, 429, appOrigin},
		{"a store is away", permitted, appOrigin, "1001", oneHistory, errUnavailable, 503, appOrigin},
		{"an unknown path", permitted, appOrigin, "1001", "GET /v1/nothing", nil, 404, appOrigin},
		{"another method", permitted, appOrigin, "1001", "PATCH /v1/boards/steps/history", nil, 405, ""},
		{"every origin", []string{"*"}, "https://other.example.com", "1001", oneHistory, nil, 200, "*"},
		{"another origin", permitted, "https://other.example.com", "1001", oneHistory, nil, 200, ""},
		{"another port", permitted, "http://localhost:5174", "1001", oneHistory, nil, 200, ""},
		{"no origin", permitted, "", "1001", oneHistory, nil, 200, ""},
		{"a file for browsers", permitted, appOrigin, "", "GET /", nil, 200, ""},
		{"metrics", permitted, appOrigin, "", "GET /metrics", nil, 200, ""},
		{"no origins are set", nil, appOrigin, "1001", oneHistory, nil, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			api := newAPI(t, handlers.Config{History: history{&recorder{err: tt.err}}, Origins: tt.origins})
			got := sendFrom(t, api, tt.origin, tt.token, tt.request)
			header := got.Header()
			wantExposed := ""
			if tt.allowed != "" {
				wantExposed = exposed
			}
			if got.Code != tt.status || header.Get("Access-Control-Allow-Origin") != tt.allowed || header.Get("Access-Control-Expose-Headers") != wantExposed {
				t.Errorf("answered %d %v", got.Code, header)
			}
			if header.Get("Access-Control-Allow-Credentials") != "" {
				t.Error("cookies are permitted")
			}
		})
	}
}

// A browser's question before a call needs no token and counts for no limit. One about another
// origin or method gets no permission.
func TestPreflight(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	api := newAPI(t, handlers.Config{Origins: []string{appOrigin}, Limits: limits{recorder: r}, LimitAddresses: true})
	for _, tt := range []struct {
		origin, path, method, allowed string
	}{
		{appOrigin, "/v1/boards/steps/scores", "POST", appOrigin},
		{appOrigin, "/v1/me", "PUT", appOrigin},
		{appOrigin, "/v1/me", "DELETE", appOrigin},
		{appOrigin, "/v1/me", "PATCH", ""},
		{"https://other.example.com", "/v1/me", "PUT", ""},
	} {
		got := sendFrom(t, api, tt.origin, "", "OPTIONS "+tt.path, "Access-Control-Request-Method", tt.method,
			"Access-Control-Request-Headers", "authorization,content-type,traceparent")
		header := got.Header()
		if got.Code != http.StatusNoContent || got.Body.Len() > 0 || header.Get("Access-Control-Allow-Origin") != tt.allowed {
			t.Errorf("%+v: %d %v", tt, got.Code, header)
		}
		if tt.allowed != "" && (header.Get("Access-Control-Allow-Methods") != tt.method || header.Get("Access-Control-Max-Age") != "7200" ||
			header.Get("Access-Control-Allow-Headers") != "authorization,content-type,traceparent") {
			t.Errorf("%+v: %v", tt, header)
		}
	}
	// Other requests with this method are none of a browser's.
	for request, want := range map[string]int{"OPTIONS /v1/me": 405, "OPTIONS /": 405} {
		if got := sendFrom(t, api, appOrigin, "", request); got.Code != want {
			t.Errorf("%s: %d, want %d", request, got.Code, want)
		}
	}
	if off := sendFrom(t, newAPI(t, handlers.Config{}), appOrigin, "", "OPTIONS /v1/me", "Access-Control-Request-Method", "PUT"); off.Code != 405 {
		t.Errorf("without origins: %d", off.Code)
	}
	if len(r.calls) > 0 {
		t.Errorf("limits: %v", r.calls)
	}
}

// sendFrom makes a request as a page of an origin; headers are given as name and value in turn.
func sendFrom(t *testing.T, api http.Handler, origin, token, request string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return send(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		api.ServeHTTP(w, r)
	}), token, request, "")
}
