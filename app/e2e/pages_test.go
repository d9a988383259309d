package e2e_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// Files for browsers come compressed to who takes that, and not at all to who
// has them already.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newServer(t, testenv.Embedded(t))
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
	for _, path := range []string{"/", "/assets/app.js", "/assets/page.css", "/docs"} {
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
		if err != nil || string(text) != string(whole) || header.Get("Content-Encoding") != "gzip" || header.Get("Etag") == plain.Get("Etag") {
			t.Errorf("%s: %v, %v", path, err, header)
		}
		if status, _, body := get(path, "gzip", header.Get("Etag")); status != http.StatusNotModified || len(body) > 0 {
			t.Errorf("%s again: %d, %d bytes", path, status, len(body))
		}
		if _, header, _ := get(path, "gzip;q=0, identity", ""); header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed for who refuses that", path)
		}
	}
	// The page of a service is not told that it is a demo's.
	if _, _, page := get("/", "identity", ""); strings.Contains(string(page), "data-demo") {
		t.Error("it is a demo's page")
	}
}
