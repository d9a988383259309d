// Package web holds the files for browsers: the page, the operators' console and the
// API reference. They are embedded and load nothing from other servers.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"stepboard/docs"
)

//go:embed page console docs worker.js
var embedded embed.FS

// Files returns the folder that is embedded.
func Files() fs.FS { return embedded }

// consolePolicy is the content security policy of the console and of the API reference: they may load
// scripts, styles and pictures from this service and call it, and nothing else. Trusted types are
// required and no policy may create them, so a script can't turn text into markup.
const consolePolicy = closedPolicy + "trusted-types 'none'"

// pagePolicy is that of the page. It has a trusted type for the address of its service worker.
const pagePolicy = closedPolicy + "trusted-types worker"

const closedPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; "

// workerPolicy is that of the page's service worker, which fetches the page's files.
const workerPolicy = "default-src 'none'; connect-src 'self'; frame-ancestors 'none'"

// assetPolicy is the policy of the page's files. It counts only if one of them is opened
// by itself.
const assetPolicy = "default-src 'none'; frame-ancestors 'none'"

// File is a file with its response headers.
type File struct {
	// ContentType, Policy, CacheControl and ETag are the headers Content-Type,
	// Content-Security-Policy, Cache-Control and ETag. Assets have no ETag, as nobody asks for one
	// again.
	ContentType, Policy, CacheControl, ETag string
	// Body is the content. Gzipped is the same content compressed, or nil if that
	// is not smaller.
	Body, Gzipped []byte
}

// Site finds files by URL path. It is safe for concurrent use.
type Site struct {
	// Assets is the path of the folder of assets: /assets/HASH/.
	Assets string

	o        Options
	embedded fs.FS
	files    sync.Map // path in the embedded folder to func() *File
}

// Options says what a site shows to somebody who is not signed in.
type Options struct {
	// Demo offers to switch between the simulated people instead of asking for a token, and gives the API reference the
	// token of one of them.
	Demo bool
	// Login is the address that the page sends people to; without one it asks for a token.
	Login string
	// Folder says that the service runs on a data folder, whose secret signs tokens.
	Folder bool
	// Codes says that people can sign in by codes.
	Codes bool
}

// New returns a site of a folder as Files returns it, which it reads once.
func New(embedded fs.FS, o Options) *Site {
	return &Site{o: o, embedded: embedded, Assets: "/assets/" + hashOf(embedded) + "/"}
}

// hashOf returns a hash of all files of a folder and their names. It is one hash because modules
// import each other by relative addresses.
func hashOf(folder fs.FS) string {
	hash := sha256.New()
	err := fs.WalkDir(folder, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := fs.ReadFile(folder, name)
		fmt.Fprintf(hash, "%s %d ", name, len(body))
		hash.Write(body)
		return err
	})
	if err != nil {
		panic(err) // it is embedded
	}
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:12])
}

// unhashed are the paths of the files that browsers ask for each time, and their names in the
// embedded folder: the documents, and the page's service worker, whose address must not change.
var unhashed = map[string]string{
	"/":          "page/index.html",
	"/console":   "console/index.html",
	"/docs":      "docs/index.html",
	"/worker.js": "worker.js",

	"/docs/guide": guideName,
}

// Names of files that are not in the embedded folder: the list of the page's files, a JSON array of
// their names, and the guide for app developers.
const (
	listName  = "page/files.json"
	guideName = "guide"
)

// Find returns the file at a URL path: the page at /, its service worker at /worker.js, the console
// at /console, the API reference at /docs, the guide at /docs/guide, and the files of all three under
// /assets/HASH/. It returns false if there is no file at the path; folders are not found, nor are
// files of another version of the service. The first call for a file compresses it. The addresses in
// the files are relative, so they hold below any path.
func (s *Site) Find(urlPath string) (*File, bool) {
	name, ok := unhashed[urlPath]
	if !ok {
		if name, ok = strings.CutPrefix(urlPath, s.Assets); !ok || path.Ext(name) == ".html" || path.Dir(name) == "." {
			return nil, false
		}
	}
	found, ok := s.files.Load(name)
	if !ok {
		// Stat refuses every name that is not a clean path. Missing names are not
		// cached, as clients could fill the memory with them.
		if info, err := fs.Stat(s.embedded, name); name != listName && name != guideName && (err != nil || info.IsDir()) {
			return nil, false
		}
		found, _ = s.files.LoadOrStore(name, sync.OnceValue(func() *File { return s.load(name) }))
	}
	return found.(func() *File)(), true
}

// read returns the content of a file, with the addresses of this build.
func (s *Site) read(name string) []byte {
	switch name {
	case listName:
		return s.list()
	case guideName:
		return docs.Guide
	}
	body, err := fs.ReadFile(s.embedded, name)
	if err != nil {
		panic(err) // it is embedded
	}
	if path.Ext(name) != ".html" {
		return body
	}
	body = bytes.ReplaceAll(body, []byte(`"assets/`), []byte(`"`+s.Assets[1:]))
	attributes := ""
	if s.o.Demo {
		attributes += "data-demo "
	}
	if s.o.Folder {
		attributes += "data-folder "
	}
	if s.o.Codes {
		attributes += "data-codes "
	}
	if s.o.Login != "" && name == "page/index.html" {
		attributes += `data-login="` + html.EscapeString(s.o.Login) + `" `
	}
	return bytes.Replace(body, []byte("<html "), []byte("<html "+attributes), 1)
}

// list returns the names of the files that the page needs without a connection.
func (s *Site) list() []byte {
	names := []string{}
	// Neither error can occur: the files are embedded, and names are text.
	_ = fs.WalkDir(s.embedded, "page", func(name string, _ fs.DirEntry, err error) error {
		if slices.Contains([]string{".css", ".js", ".svg"}, path.Ext(name)) {
			names = append(names, name)
		}
		return err
	})
	body, _ := json.Marshal(names)
	return body
}

// load returns an existing file. name is its path in the embedded folder.
func (s *Site) load(name string) *File {
	body := s.read(name)
	f := &File{ContentType: contentType(name), Policy: policyOf(name), CacheControl: "max-age=31536000, immutable", Body: body}
	if slices.Contains(slices.Collect(maps.Values(unhashed)), name) {
		sum := sha256.Sum256(body)
		f.CacheControl, f.ETag = "no-cache", `"`+base64.RawURLEncoding.EncodeToString(sum[:12])+`"`
	}
	if text := gzipped(body); len(text) < len(body) {
		f.Gzipped = text
	}
	return f
}

// policyOf returns the policy of a file in the embedded folder.
func policyOf(name string) string {
	switch name {
	case "page/index.html":
		return pagePolicy
	case "console/index.html", "docs/index.html":
		return consolePolicy
	case "worker.js":
		return workerPolicy
	default:
		return assetPolicy
	}
}

func gzipped(body []byte) []byte {
	var b bytes.Buffer
	// No error can occur: the level is valid, and writing to a buffer never fails.
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// contentTypes lists the types of the embedded files. Unlike package mime it does
// not depend on the machine.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".svg":  "image/svg+xml",
	".png":  "image/png",

	".webmanifest": "application/manifest+json",
}

// contentType returns a file's content type by its extension. Files without one,
// such as licences, are plain text.
func contentType(name string) string {
	if known, ok := contentTypes[path.Ext(name)]; ok {
		return known
	}
	return "text/plain; charset=utf-8"
}
