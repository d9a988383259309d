package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/web"
)

// Probes, metrics, documentation and the page are served without a token.
func TestPathsOutsideTheAPI(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testPathsOutsideTheAPI)
}

func testPathsOutsideTheAPI(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env)
	assets := web.New(web.Files(), web.Options{}).Assets
	ready, connections := `"redis":"ok"`, []string{"stepboard_redis_pool_connections", "stepboard_postgres_pool_connections"}
	if env.Redis == nil {
		ready, connections = `"database":"ok"`, []string{"go_sql_open_connections", "stepboard_sqlite_wal_bytes"}
	}
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":1}`), 200, nil)
	for path, part := range map[string]string{
		"/healthz":                          `"status":"ok"`,
		"/readyz":                           ready,
		"/metrics":                          `stepboard_uploads_accepted_total{board="steps"} 1`,
		"/openapi.json":                     `"openapi":"3.1.0"`,
		"/docs":                             `docs/docs.js"`,
		assets + "docs/examples.js":         `openapi.json`,
		"/":                                 `Stepboard`,
		assets + "page/vendor/stepboard.js": `groups/{group}`,
	} {
		a := s.call("", "GET", path, nil)
		if a.status != 200 || !strings.Contains(string(a.body), part) {
			t.Errorf("%s: %d, without %s", path, a.status, part)
		}
	}
	counted := `stepboard_http_request_duration_seconds_count{method="POST",route="/v1/boards/:board/scores",status="200"} 1`
	for _, part := range append(connections, counted) {
		if a := s.call("", "GET", "/metrics", nil); !strings.Contains(string(a.body), part) {
			t.Errorf("the metrics lack %s", part)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/", assets + "page/page.css", "/docs"} { // some load balancers ask with HEAD
		if a := s.call("", "HEAD", path, nil); a.status != 200 || len(a.body) != 0 {
			t.Errorf("HEAD %s: %d %s", path, a.status, a.body)
		}
	}
	// A client can't create time series with made-up methods.
	for _, method := range []string{"BREW", "get", "PROPFIND"} {
		s.refuse(s.call("", method, "/healthz", nil), 405, models.CodeMethodNotAllowed)
	}
	metrics := string(s.call("", "GET", "/metrics", nil).body)
	if !strings.Contains(metrics, `count{method="other",route="none",status="405"} 3`) || strings.Contains(metrics, "BREW") {
		t.Error("methods are counted by any name")
	}
	// Ranges and conditions are ignored: files are sent whole.
	r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+assets+"page/page.css", nil))
	r.Header.Set("Range", "bytes=99999999-")
	r.Header.Set("If-Match", `"nix"`)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != 200 {
		t.Errorf("a range past the end: %d, %v", res.StatusCode, err)
	}
	// No file for browsers names another server.
	for _, path := range []string{"/", "/docs", assets + "docs/docs.js", assets + "page/app.js", assets + "page/page.css"} {
		a := s.call("", "GET", path, nil)
		if strings.Contains(string(a.body), "https://") || strings.Contains(string(a.body), "http://") {
			t.Errorf("%s names another address", path)
		}
		if !strings.Contains(path, "docs") && !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s has policy %q", path, a.header.Get("Content-Security-Policy"))
		}
		if path == "/" && strings.Contains(string(a.body), "data-demo") {
			t.Error("the page of a service is marked as a demo's")
		}
	}
}
