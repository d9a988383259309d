package e2e_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// Every request is answered with a status and a code that /openapi.json lists for the
// operation, and none with an error of the server.
func FuzzRequests(f *testing.F) {
	s := newServer(f, testenv.Local(f), withEvents)
	api := readDescription(f, s)
	codes, err := documentedCodes()
	if err != nil {
		f.Fatal(err)
	}
	operations := slices.Sorted(maps.Keys(codes))
	for i, operation := range operations {
		method, path, _ := strings.Cut(operation, " ")
		call := api.Paths[path][strings.ToLower(method)]
		query := url.Values{}
		for _, p := range call.Parameters {
			if p.In == "query" && p.Name != "user_id" {
				query.Set(p.Name, "1")
			}
		}
		body := ""
		if call.RequestBody != nil {
			body = call.fields(api).body("", "")
		}
		f.Add(uint16(i), "steps", "2", "user_id=1", body, "203.0.113.9")
		f.Add(uint16(i), "gifts", "team", query.Encode(), body, "")
	}
	define := slices.Index(operations, "POST /v1/admin/boards")
	for _, start := range []string{"0000-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"} {
		f.Add(uint16(define), "steps", "2", "", `{"name":"early","kind":"event","max_score":5,"start":"`+start+`","end":"9999-12-31T00:00:00Z"}`, "")
	}
	tokens := []string{harness.Token(f, "1", ""), harness.Token(f, "1", "admin service")}
	f.Fuzz(func(t *testing.T, number uint16, board, id, query, body, header string) {
		operation := operations[int(number)%len(operations)]
		method, path, _ := strings.Cut(operation, " ")
		if board == "" || id == "" {
			return // the path of another operation
		}
		path = strings.NewReplacer("{board}", url.PathEscape(board), "{id}", url.PathEscape(id), "{group}", url.PathEscape(id), "{code}", url.PathEscape(id)).Replace(path)
		for _, token := range tokens {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.URL.RawQuery = query
			r.Header = http.Header{"Authorization": {"Bearer " + token}, "X-Forwarded-For": {header}, "X-Request-Id": {header}}
			w := httptest.NewRecorder() // it has no deadlines, so a stream ends at once
			s.app.Handler.ServeHTTP(w, r)
			a := answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
			listed, ok := codes[operation][a.status]
			if !ok || a.status >= 500 || a.status >= 400 && !slices.Contains(listed, a.code()) {
				t.Errorf("%s ?%q %q answers %d %s, and /openapi.json lists %v", r.URL, query, body, a.status, a.body, codes[operation])
			}
		}
	})
}
