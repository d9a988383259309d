// Package web is what a browser gets: the page and the API reference, both
// embedded, with nothing loaded from anywhere else.
package web

import (
	"embed"
	"mime"
	"path"
	"strings"
)

//go:embed page docs
var files embed.FS

// pagePolicy lets the page load from this service and nowhere else.
const pagePolicy = "default-src 'self'; img-src 'self' data: https:; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// docsPolicy also allows the inline styles that Swagger UI sets.
const docsPolicy = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// File is a file for a browser.
type File struct {
	// ContentType and Policy are the headers Content-Type and
	// Content-Security-Policy.
	ContentType, Policy string
	Body                []byte
}

// Find looks up the file at a path of the service: the page at /, what it
// loads under /assets/, the API reference at /docs and below. It finds files
// only, never a folder.
func Find(urlPath string) (*File, bool) {
	name, policy := "", pagePolicy
	switch {
	case urlPath == "/":
		name = "page/index.html"
	case urlPath == "/docs" || urlPath == "/docs/":
		name, policy = "docs/index.html", docsPolicy
	case strings.HasPrefix(urlPath, "/assets/"):
		name = "page/" + strings.TrimPrefix(urlPath, "/assets/")
	case strings.HasPrefix(urlPath, "/docs/"):
		name, policy = strings.TrimPrefix(urlPath, "/"), docsPolicy
	}
	// ReadFile refuses folders and every name that is not a plain path.
	body, err := files.ReadFile(name)
	if err != nil {
		return nil, false
	}
	return &File{ContentType: contentType(name), Policy: policy, Body: body}, true
}

// contentType goes by the file's name; licences and the like have no ending.
func contentType(name string) string {
	if known := mime.TypeByExtension(path.Ext(name)); known != "" {
		return known
	}
	return "text/plain; charset=utf-8"
}
