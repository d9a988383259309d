package demo

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A page whose name leads to this machine must not reach the demo.
func TestHosts(t *testing.T) {
	t.Parallel()
	handler := onlyHosts(http.NotFoundHandler(), "walkers.example:8080")
	for host, known := range map[string]bool{
		"localhost": true, "LOCALHOST:8080": true, "127.0.0.1:8080": true, "[::1]:8080": true, "[::1]": true, "192.168.1.7:80": true,
		"walkers.example:8080": true, "Walkers.Example": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "127.0.0.1.evil.example:8080": false, "": false, ":8080": false,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/demo/people", nil)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if answered := w.Code != http.StatusMisdirectedRequest; answered != known {
			t.Errorf("%q: %d", host, w.Code)
		}
	}
}
