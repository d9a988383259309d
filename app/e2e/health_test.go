package e2e_test

import (
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// The health command is the health check of containers.
func TestHealth(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	cert, key := testenv.NewCertificate(t, "stepboard.example.com").Write(t, t.TempDir())
	secure := []string{"--http.tls_cert=" + cert, "--http.tls_key=" + key}
	encrypted := testenv.Serve(t, env.Config, secure...)
	args := append([]string{"health"}, append(secure, "--http.addr="+strings.TrimPrefix(encrypted.URL, "http://"))...)
	if stdout, stderr, status := testenv.Run(t, args...); status != 0 || !strings.Contains(stdout, "postgres") {
		t.Errorf("encrypted: status %d, %q %q", status, stdout, stderr)
	}
	p := testenv.Serve(t, env.Config)
	addr := "--http.addr=" + strings.TrimPrefix(p.URL, "http://")
	if stdout, stderr, status := testenv.Run(t, "health", addr); status != 0 || !strings.Contains(stdout, "postgres") {
		t.Errorf("status %d, %q %q", status, stdout, stderr)
	}
	p.Stop()
	if stdout, stderr, status := testenv.Run(t, "health", addr); status != 1 || !strings.Contains(stderr, "the service does not answer") {
		t.Errorf("stopped: status %d, %q %q", status, stdout, stderr)
	}
}
