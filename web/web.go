// Package web is what a browser gets: the page and the API reference, both
// embedded, with nothing loaded from anywhere else.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed page docs
var files embed.FS

// pagePolicy lets the page load scripts, styles, pictures and answers from
// this service, and nothing else from anywhere. It writes no markup of its own
// making into the document, which the last part enforces.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// docsPolicy also allows the inline styles that Swagger UI sets.
const docsPolicy = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// File is a file for a browser.
type File struct {
	// ContentType, Policy and ETag are the headers Content-Type,
	// Content-Security-Policy and ETag.
	ContentType, Policy, ETag string
	// Body is the file; Gzipped the same compressed, nil where that is no
	// smaller.
	Body, Gzipped []byte
}

// Site finds files. Safe for concurrent use.
type Site struct {
	demo  bool
	files sync.Map // path in the embedded folder to func() *File
}

// New makes a site; that of a demo says so to the page.
func New(demo bool) *Site { return &Site{demo: demo} }

// Find looks up the file at a path of the service: the page at /, what it
// loads under /assets/, the API reference at /docs and below. It finds files
// only, never a folder. The first look at a file compresses it.
func (s *Site) Find(urlPath string) (*File, bool) {
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
	found, ok := s.files.Load(name)
	if !ok {
		// Stat refuses every name that is not a plain path. What is not there is
		// not remembered: there is no end of it.
		if info, err := fs.Stat(files, name); err != nil || info.IsDir() {
			return nil, false
		}
		found, _ = s.files.LoadOrStore(name, sync.OnceValue(func() *File { return s.load(name, policy) }))
	}
	return found.(func() *File)(), true
}

// load reads a file that is there.
func (s *Site) load(name, policy string) *File {
	body, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	if name == "page/index.html" && s.demo {
		body = bytes.Replace(body, []byte("<html "), []byte("<html data-demo "), 1)
	}
	sum := sha256.Sum256(body)
	f := &File{
		ContentType: contentType(name), Policy: policy, Body: body,
		ETag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
	}
	if text := gzipped(body); len(text) < len(body) {
		f.Gzipped = text
	}
	return f
}

func gzipped(body []byte) []byte {
	var b bytes.Buffer
	// Neither can fail: the level is a valid one, and a buffer takes everything.
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if _, err := w.Write(body); err != nil {
		return body
	}
	if err := w.Close(); err != nil {
		return body
	}
	return b.Bytes()
}

// types are those of the files that there are, whatever the machine knows.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// contentType goes by the file's name; licences and the like have no ending.
func contentType(name string) string {
	if known, ok := types[path.Ext(name)]; ok {
		return known
	}
	return "text/plain; charset=utf-8"
}
