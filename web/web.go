// Package web is what a browser gets: the page and the API reference, both
// embedded, with nothing loaded from anywhere else.
package web

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed page docs
var files embed.FS

// policy lets pages load from this service and nowhere else.
const policy = "default-src 'self'; img-src 'self' data: https:; style-src 'self'; script-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// docsPolicy also allows the inline styles that Swagger UI sets.
const docsPolicy = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// Page is the page at /.
func Page() http.Handler {
	return withPolicy(policy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, files, "page/index.html")
	}))
}

// Assets is what the page loads, under /assets/.
func Assets() http.Handler { return withPolicy(policy, under("/assets/", "page")) }

// Docs is the API reference, under /docs.
func Docs() http.Handler {
	assets := under("/docs/", "docs")
	return withPolicy(docsPolicy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/docs" || r.URL.Path == "/docs/" {
			http.ServeFileFS(w, r, files, "docs/index.html")
			return
		}
		assets.ServeHTTP(w, r)
	}))
}

// under serves the files of an embedded folder below a path.
func under(path, folder string) http.Handler {
	sub, err := fs.Sub(files, folder)
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return http.StripPrefix(path, http.FileServerFS(sub))
}

func withPolicy(policy string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}
