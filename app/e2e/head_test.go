package e2e_test

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// HEAD is answered as GET is, without the body, at every path but those of streams, which
// would not end. It is refused where GET is.
func TestHead(t *testing.T) {
	t.Parallel()
	s := &authorization{server: newServer(t, testenv.Local(t), withEvents)}
	p := s.newPeople()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	ask := func(method, path, token string) (status int, header http.Header, body string) {
		t.Helper()
		r := testenv.Must(http.NewRequestWithContext(t.Context(), method, s.url+path, nil))
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		header = maps.Clone(res.Header)
		for _, name := range []string{"Date", "X-Request-Id", "Content-Length"} {
			header.Del(name)
		}
		return res.StatusCode, header, string(testenv.Must(io.ReadAll(res.Body)))
	}
	paths := map[string]string{"/openapi.json": "", "/metrics": "", "/v1/nix": ""}
	for operation, entry := range matrix() {
		method, path := s.target(operation, entry, p)
		role := permissions(entry)[0]
		if sub := strings.NewReplacer(p.values()...).Replace(role.sub); method == http.MethodGet {
			paths[path] = harness.Token(t, models.UserID(sub), role.scope)
		}
	}
	for path, token := range paths {
		for _, token := range []string{token, ""} {
			status, header, body := ask(http.MethodHead, path, token)
			if strings.HasSuffix(path, "/stream") {
				if status != http.StatusMethodNotAllowed || header.Get("Allow") != http.MethodGet {
					t.Errorf("HEAD %s: %d %v", path, status, header)
				}
				continue
			}
			wantStatus, wantHeader, _ := ask(http.MethodGet, path, token)
			if status != wantStatus || body != "" || !equalJSON(t, header, wantHeader) {
				t.Errorf("HEAD %s: %d %v %s, want %d %v", path, status, header, body, wantStatus, wantHeader)
			}
		}
	}
	// A path that has no GET has no HEAD.
	s.refuse(s.as("1", "POST", "/v1/boards", nil), http.StatusMethodNotAllowed, models.CodeMethodNotAllowed)
	if status, header, _ := ask(http.MethodHead, "/v1/boards/steps/scores", paths["/v1/me"]); status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD of an upload: %d %v", status, header)
	}
	metrics := string(s.call("", "GET", "/metrics", nil).body)
	for _, want := range []string{
		`_count{method="HEAD",route="/v1/boards",status="200"} 1`, `stepboard_uploads_accepted_total{board="steps"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
