package handlers_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"stepboard/handlers"
	"stepboard/web"
)

// get requests a page with some headers, given as name and value in turn.
func get(t *testing.T, api http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

func TestPages(t *testing.T) {
	t.Parallel()
	api := newAPI(t, handlers.Config{})
	plain := get(t, api, "/")
	if plain.Code != 200 || !strings.HasPrefix(plain.Header().Get("Content-Type"), "text/html") || !strings.Contains(plain.Body.String(), "<html") {
		t.Errorf("the page: %d %v", plain.Code, plain.Header())
	}
	header := plain.Header()
	if header.Get("Cache-Control") != "no-cache" || header.Get("Vary") != "Accept-Encoding" || !strings.Contains(header.Get("Content-Security-Policy"), "script-src 'self'") {
		t.Errorf("headers of the page: %v", header)
	}
	tag := header.Get("ETag")
	if got := get(t, api, "/", "If-None-Match", tag); tag == "" || got.Code != 304 || got.Body.Len() != 0 {
		t.Errorf("with its ETag %q: %d, %d bytes", tag, got.Code, got.Body.Len())
	}
	zipped := get(t, api, "/", "Accept-Encoding", "br, gzip")
	reader, err := gzip.NewReader(bytes.NewReader(zipped.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil || string(text) != plain.Body.String() || zipped.Header().Get("Content-Encoding") != "gzip" || zipped.Header().Get("ETag") == tag {
		t.Errorf("compressed: %v, %d bytes, %v", err, len(text), zipped.Header())
	}
	for _, accept := range []string{"gzip;q=0", "gzip; q=0.000", "identity", "x-gzip"} {
		if got := get(t, api, "/", "Accept-Encoding", accept); got.Header().Get("Content-Encoding") != "" {
			t.Errorf("Accept-Encoding %q is answered with gzip", accept)
		}
	}
	assets := web.New(web.Files(), web.Options{}).Assets
	asset := get(t, api, assets+"page/app.js")
	if kept := asset.Header().Get("Cache-Control"); asset.Code != 200 || kept != "max-age=31536000, immutable" {
		t.Errorf("an asset: %d, Cache-Control %q", asset.Code, kept)
	}
	for _, path := range []string{assets + "page/nothing.js", assets, "/assets/AAAAAAAAAAAAAAAA/page/app.js", "/assets/app.js", "/docs/docs.js", "/nothing"} {
		missing := get(t, api, path)
		if kept := missing.Header().Get("Cache-Control"); strings.HasPrefix(path, "/assets/") != (kept == "no-store") {
			t.Errorf("%s: Cache-Control %q", path, kept)
		}
		if got := describe(t, missing); got != "404 not_found: nothing is served at this path; GET /openapi.json lists every call" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestExtraRoutes(t *testing.T) {
	t.Parallel()
	api := newAPI(t, handlers.Config{Extra: func(engine *gin.Engine) {
		engine.GET("/extra", func(c *gin.Context) { c.String(http.StatusOK, "more") })
	}})
	if got := describe(t, get(t, api, "/extra")); got != "200 more" {
		t.Errorf("an extra route: %s", got)
	}
}

// Below a path everything is served with it and without it, and the page's addresses, which are
// relative, hold only with a slash at the path's end.
func TestBasePath(t *testing.T) {
	t.Parallel()
	const (
		missing = "404 "
		found   = "200 "
	)
	assets := web.New(web.Files(), web.Options{}).Assets
	api := newAPI(t, handlers.Config{History: history{&recorder{}}, BasePath: "/our/steps"})
	for path, want := range map[string]string{
		"/our/steps/":                            found,
		"/our/steps/docs":                        found,
		"/our/steps" + assets + "page/app.js":    found,
		"/our/steps/healthz":                     found,
		"/our/steps/metrics":                     found,
		"/our/steps/openapi.json":                found,
		"/our/steps/v1/boards/steps/history":     found,
		"/our/%73teps/v1/boards/%73teps/history": found,
		"/our/steps/v1/boards/a%2Fb/history":     found,
		"/":                                      found,
		"/docs":                                  found,
		"/healthz":                               found,
		"/metrics":                               found,
		"/v1/boards/steps/history":               found,
		"/our/steps":                             "307 /our/steps/",
		"/our/steps/docs/":                       "307 ../docs",
		"/our/steps/console/":                    "307 ../console",
		"/docs/":                                 "307 ../docs",
		"/our":                                   missing,
		"/our/":                                  missing,
		"/our/stepsv1/boards":                    missing,
		"/our/steps/our/steps/":                  missing,
		"/our%2Fsteps/v1/boards/steps/history":   missing,
		"/our/steps%2Fv1/boards/steps/history":   missing,
	} {
		got := get(t, api, path, "Authorization", "Bearer 1001")
		if text := fmt.Sprint(got.Code, " ", got.Header().Get("Location")); text != want {
			t.Errorf("%s: %s, want %s", path, text, want)
		}
		if got.Code == http.StatusNotFound && got.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %v", path, got.Header())
		}
	}
	if spec := get(t, api, "/our/steps/openapi.json").Body.String(); !strings.Contains(spec, `"servers":[{"description":"This service","url":"/our/steps"}]`) {
		t.Error("the description does not name the path")
	}
	if got := get(t, newAPI(t, handlers.Config{}), "/our/steps/"); got.Code != http.StatusNotFound {
		t.Errorf("without a base path: %d", got.Code)
	}
}
