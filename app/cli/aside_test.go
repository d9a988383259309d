package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The address of metrics serves these and the probes alone.
func TestMetricsAndProbes(t *testing.T) {
	t.Parallel()
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	handler := metricsAndProbes(answer, answer)
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 200, "/": 404, "/v1/boards": 404, "/debug/pprof/": 404, "/metrics/": 404} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
