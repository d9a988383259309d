package e2e_test

import (
	"compress/gzip"
	"io"
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
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+assets+"page/page.css", nil)
	if err != nil {
		t.Fatal(err)
	}
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
	}
}

// Files for browsers are compressed if the browser accepts that, and not sent
// again if it has them already.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, testenv.Local(t))
	assets := web.New(web.Files(), web.Options{}).Assets
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	get := func(path, accept, tag string) (status int, header http.Header, body []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", accept)
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if body, err = io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header, body
	}
	for _, path := range []string{"/", assets + "page/app.js", assets + "page/page.css", "/docs"} {
		_, plain, whole := get(path, "identity", "")
		if plain.Get("Content-Encoding") != "" || !strings.Contains(plain.Get("Content-Security-Policy"), "default-src") {
			t.Errorf("%s: %v", path, plain)
		}
		_, header, packed := get(path, "br, gzip;q=0.8", "")
		r, err := gzip.NewReader(strings.NewReader(string(packed)))
		if err != nil {
			t.Fatalf("%s: %v, %v", path, err, header)
		}
		text, err := io.ReadAll(r)
		if err != nil || string(text) != string(whole) || header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %v, %v", path, err, header)
		}
		if _, header, _ := get(path, "gzip;q=0, identity", ""); header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed although the client refuses that", path)
		}
		if strings.HasPrefix(path, assets) {
			continue // browsers keep it and don't ask again
		}
		if header.Get("Etag") == plain.Get("Etag") {
			t.Errorf("%s has one ETag for both forms", path)
		}
		if status, _, body := get(path, "gzip", header.Get("Etag")); status != http.StatusNotModified || len(body) > 0 {
			t.Errorf("%s again: %d, %d bytes", path, status, len(body))
		}
	}
	// The page of a service is not marked as a demo's.
	if _, _, page := get("/", "identity", ""); strings.Contains(string(page), "data-demo") {
		t.Error("it is a demo's page")
	}
}
