package web_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"stepboard/web"
)

// Documents name the assets of their own version of the service, and browsers keep these. Any other
// path has no file.
func TestFind(t *testing.T) {
	t.Parallel()
	site := web.New(web.Files(), web.Options{})
	for path, want := range map[string]string{
		"/":                         "text/html",
		"/console":                  "text/html",
		"/docs/guide":               "text/plain",
		"/worker.js":                "javascript",
		"page/files.json":           "application/json",
		"/docs":                     "text/html",
		"console/console.js":        "javascript",
		"docs/docs.js":              "javascript",
		"docs/docs.css":             "text/css",
		"page/app.js":               "javascript",
		"page/icon.svg":             "image/svg+xml",
		"page/icon-192.png":         "image/png",
		"page/manifest.webmanifest": "application/manifest+json",
		"page/vendor/uPlot.js":      "javascript",
		"page/vendor/LICENSE.uPlot": "text/plain",
		"page/page.css":             "text/css",
	} {
		cache := "no-cache"
		if !strings.HasPrefix(path, "/") {
			path, cache = site.Assets+path, "max-age=31536000, immutable"
		}
		file, ok := site.Find(path)
		if !ok || len(file.Body) == 0 || !strings.Contains(file.ContentType, want) || file.Policy == "" || file.CacheControl != cache {
			t.Errorf("%s: %v %+v, want %s", path, ok, file, want)
			continue
		}
		for _, address := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(string(file.Body), -1) {
			if _, ok := site.Find("/" + address[1]); !ok && want == "text/html" {
				t.Errorf("%s names %s, which is missing", path, address[1])
			}
		}
	}
	for _, path := range []string{
		"", "/nope", "/docs/", "/docs/docs.js", "/console/", "/console/console.js", "/assets", "/assets/", "/assets/page/app.js",
		"/assets/app.js", "/assets/AAAAAAAAAAAAAAAA/page/app.js", site.Assets, site.Assets + "page", site.Assets + "page/",
		site.Assets + "page/nope", site.Assets + "worker.js", site.Assets + "page/index.html", site.Assets + "docs", site.Assets + "docs//docs.js",
		site.Assets + "page/../docs/docs.js", site.Assets + "page/./app.js", site.Assets + "page/\x00",
	} {
		if file, ok := site.Find(path); ok {
			t.Errorf("%q: found a file of %d bytes, want none", path, len(file.Body))
		}
	}
}

// A change of any file gives all assets another address, and nothing else does.
func TestHash(t *testing.T) {
	t.Parallel()
	folder := func(change func(fstest.MapFS)) string {
		files := fstest.MapFS{"page/index.html": {Data: []byte("a")}, "page/app.js": {Data: []byte("b")}, "docs/docs.js": {Data: []byte("c")}}
		change(files)
		return web.New(files, web.Options{}).Assets
	}
	seen := map[string]string{}
	for name, change := range map[string]func(fstest.MapFS){
		"nothing":       func(fstest.MapFS) {},
		"a text":        func(f fstest.MapFS) { f["docs/docs.js"].Data = []byte("C") },
		"the document":  func(f fstest.MapFS) { f["page/index.html"].Data = []byte("A") },
		"a name":        func(f fstest.MapFS) { f["page/bpp.js"] = f["page/app.js"]; delete(f, "page/app.js") },
		"one file less": func(f fstest.MapFS) { delete(f, "docs/docs.js") },
	} {
		got := folder(change)
		if other, ok := seen[got]; ok || got != folder(change) {
			t.Errorf("%s has the address %s, as %q", name, got, other)
		}
		seen[got] = name
	}
}
