package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// rawConn is a connection from an address of this machine to a process.
type rawConn struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dialFrom(t *testing.T, p *testenv.Process, host byte) *rawConn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
	conn := testenv.Must(dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.URL, "http://")))
	t.Cleanup(func() { _ = conn.Close() }) // or the process has closed it
	return &rawConn{t, conn, bufio.NewReader(conn)}
}

// begin sends a request and reads the head of the answer.
func (c *rawConn) begin(path, token string) (*http.Response, error) {
	if _, err := fmt.Fprintf(c.conn, "GET %s HTTP/1.1\r\nHost: stepboard\r\nAuthorization: Bearer %s\r\n\r\n", path, token); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.reader, nil)
}

// get sends a request and returns the status, 0 if the process has closed the connection.
func (c *rawConn) get(path string) int {
	c.t.Helper()
	res, err := c.begin(path, "")
	if err != nil {
		return 0
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		c.t.Error(err)
	}
	if err := res.Body.Close(); err != nil {
		c.t.Error(err)
	}
	return res.StatusCode
}

// One host opens far more connections than there may be, and leaves them idle. Others are served
// all the same, and keep their connections; so does the host what is busy.
func TestIdleConnectionsOfOneHost(t *testing.T) {
	t.Parallel()
	const most = 100
	p := testenv.Serve(t, harness.Real(t).Config, fmt.Sprintf("--http.max_connections=%d", most))
	stream := dialFrom(t, p, 2)
	res, err := stream.begin("/v1/boards/steps/friends/stream", harness.Token(t, "1", ""))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("no stream: %+v, %v", res, err)
	}
	defer func() {
		_ = stream.conn.Close() // or closing the body waits for its end
		_ = res.Body.Close()
	}()
	other, here := dialFrom(t, p, 3), dialFrom(t, p, 1)
	for _, c := range []*rawConn{other, here} {
		if got := c.get("/healthz"); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
	}
	idle := make([]*rawConn, 3*most)
	for i := range idle {
		idle[i] = dialFrom(t, p, 2)
		if got := idle[i].get("/healthz"); got != http.StatusOK {
			t.Fatalf("connection %d: status %d", i, got)
		}
	}
	for name, c := range map[string]*rawConn{"another host": other, "this machine": here, "a new connection": dialFrom(t, p, 4)} {
		if got := c.get("/v1/boards"); got != http.StatusUnauthorized {
			t.Errorf("%s: status %d", name, got)
		}
	}
	if got := idle[0].get("/healthz"); got != 0 {
		t.Errorf("the longest idle connection is open: %d", got)
	}
	if got := idle[len(idle)-1].get("/healthz"); got != http.StatusOK {
		t.Errorf("the last connection: %d", got)
	}
	harness.Call(t, p, harness.Token(t, "1", ""), "POST", "/v1/boards/steps/scores", `{"date":"`+harness.Today()+`","score":777}`, http.StatusOK)
	events := bufio.NewScanner(res.Body)
	for events.Scan() && !strings.Contains(events.Text(), `"score":777`) {
	}
	if err := events.Err(); err != nil || !strings.Contains(events.Text(), `"score":777`) {
		t.Errorf("the stream has ended: %v, %s", err, events.Text())
	}
	if closed, _ := harness.Metric(t, p, "stepboard_http_connections_idle_closed_total"); closed < 2*most {
		t.Errorf("%v idle connections were closed", closed)
	}
}

// Hosts whose idle connections are spared have all connections. Probes are served nevertheless.
func TestProbesHaveRoom(t *testing.T) {
	t.Parallel()
	const most = 50
	p := testenv.Serve(t, harness.Real(t).Config, fmt.Sprintf("--http.max_connections=%d", most), "--http.trusted_proxies=127.0.0.2")
	conns := make([]*rawConn, most)
	for i := range conns {
		conns[i] = dialFrom(t, p, byte(1+i%2))
		if got := conns[i].get("/healthz"); got != http.StatusOK {
			t.Fatalf("connection %d: status %d", i, got)
		}
	}
	for range 3 {
		for path, want := range map[string]int{
			"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/metrics": http.StatusOK, "/v1/boards": http.StatusServiceUnavailable,
		} {
			if got := dialFrom(t, p, 5).get(path); got != want {
				t.Errorf("%s: %d, want %d", path, got, want)
			}
		}
	}
	for i, c := range conns {
		if got := c.get("/v1/boards"); got != http.StatusUnauthorized {
			t.Errorf("connection %d: status %d", i, got)
		}
	}
}
