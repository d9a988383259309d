package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// The service answers with the caller's request id, unless that could break a
// log line.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env)
	for id, kept := range map[string]bool{"abc-123": true, "with space": false, strings.Repeat("a", 65): false, "": false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Request-Id", id)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		if got := res.Header.Get("X-Request-Id"); (got == id) != kept || got == "" {
			t.Errorf("%q came back as %q", id, got)
		}
	}
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := newServer(t, testenv.Local(t))
	for path, cache := range map[string]string{
		"/v1/boards": "no-store", "/v1/boards/nix/me": "no-store", "/v1/nix": "no-store",
		"/healthz": "", "/metrics": "", "/nix": "", "/openapi.json": "", "/": "no-cache", "/docs": "no-cache",
	} {
		a := s.as("1", "GET", path, nil)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cache-Control": cache,
		} {
			if got := a.header.Values(name); len(got) > 1 || a.header.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if policy := a.header.Get("Content-Security-Policy"); !containsAll(policy, "default-src '", "frame-ancestors 'none'") {
			t.Errorf("%s has policy %q", path, policy)
		}
	}
}

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
