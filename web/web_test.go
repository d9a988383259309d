package web_test

import (
	"strings"
	"testing"

	"stepboard/web"
)

func TestFind(t *testing.T) {
	t.Parallel()
	site := web.New(false)
	for path, want := range map[string]string{
		"/":                                     "text/html",
		"/console":                              "text/html",
		"/console/console.js":                   "javascript",
		"/docs":                                 "text/html",
		"/docs/docs.js":                         "javascript",
		"/docs/swagger-ui/swagger-ui.css":       "text/css",
		"/docs/swagger-ui/LICENSE":              "text/plain",
		"/assets/app.js":                        "javascript",
		"/assets/icon.svg":                      "image/svg+xml",
		"/assets/icon-192.png":                  "image/png",
		"/assets/manifest.webmanifest":          "application/manifest+json",
		"/assets/vendor/uPlot.js":               "javascript",
		"/assets/vendor/LICENSE.uPlot":          "text/plain",
		"/assets/page.css":                      "text/css",
		"/docs/swagger-ui/swagger-ui-bundle.js": "javascript",
	} {
		file, ok := site.Find(path)
		if !ok || len(file.Body) == 0 || !strings.Contains(file.ContentType, want) || file.Policy == "" {
			t.Errorf("%s: %v %+v, want %s", path, ok, file, want)
		}
	}
	for _, path := range []string{
		"", "/nope", "/docs/", "/docs/nope", "/console/", "/console/nope", "/assets/nope", "/assets", "/assets/", "/docs/swagger-ui", "/docs/swagger-ui/",
		"/docs//docs.js", "/assets/../docs/docs.js", "/assets/./app.js", "/docs/../page/index.html", "/assets/vendor", "/assets/\x00",
	} {
		if file, ok := site.Find(path); ok {
			t.Errorf("%q: found a file of %d bytes, want none", path, len(file.Body))
		}
	}
}
