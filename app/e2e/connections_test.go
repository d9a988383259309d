package e2e_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// rawConn is a connection from an address of this machine to a process, encrypted if it is dialed
// with settings of TLS.
type rawConn struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dialFrom(t *testing.T, p *testenv.Process, host byte, secure *tls.Config) *rawConn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
	conn := testenv.Must(dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.URL, "http://")))
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	t.Cleanup(func() { _ = conn.Close() }) // or the process has closed it
	return &rawConn{t, conn, bufio.NewReader(conn)}
}

// begin sends a request and reads the head of the answer. With a body, it is a POST.
func (c *rawConn) begin(path, token, body string) (*http.Response, error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	if _, err := fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: stepboard\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		method, path, token, len(body), body); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.reader, nil)
}

// call sends a request and returns the answer, status 0 if the process has closed the connection.
func (c *rawConn) call(path, token, body string) (status int, text string) {
	c.t.Helper()
	res, err := c.begin(path, token, body)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	return res.StatusCode, string(testenv.Must(io.ReadAll(res.Body)))
}

// get is call without a token, for the status.
func (c *rawConn) get(path string) int {
	c.t.Helper()
	status, _ := c.call(path, "", "")
	return status
}

// One host opens far more connections than there may be, encrypted, and leaves them idle. Others are
// served all the same, and keep their connections; so does the host what is busy.
func TestIdleConnectionsOfOneHost(t *testing.T) {
	t.Parallel()
	certificate := testenv.NewCertificate(t, "stepboard.example.com")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate.Cert)
	cert, key := certificate.Write(t, t.TempDir())
	secure := &tls.Config{RootCAs: roots, ServerName: "stepboard.example.com"}
	const most = 100
	p := testenv.Serve(t, harness.Real(t).Config, "--http.tls_cert="+cert, "--http.tls_key="+key, fmt.Sprintf("--http.max_connections=%d", most))
	stream := dialFrom(t, p, 2, secure)
	res, err := stream.begin("/v1/boards/steps/friends/stream", harness.Token(t, "1", ""), "")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("no stream: %+v, %v", res, err)
	}
	defer func() {
		_ = stream.conn.Close() // or closing the body waits for its end
		_ = res.Body.Close()
	}()
	other, here := dialFrom(t, p, 3, secure), dialFrom(t, p, 1, secure)
	for _, c := range []*rawConn{other, here} {
		if got := c.get("/healthz"); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
	}
	idle := make([]*rawConn, 3*most)
	for i := range idle {
		idle[i] = dialFrom(t, p, 2, secure)
		if got := idle[i].get("/healthz"); got != http.StatusOK {
			t.Fatalf("connection %d: status %d", i, got)
		}
	}
	for name, c := range map[string]*rawConn{"another host": other, "this machine": here, "a new connection": dialFrom(t, p, 4, secure)} {
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
	if status, text := other.call("/v1/boards/steps/scores", harness.Token(t, "1", ""), `{"date":"`+harness.Today()+`","score":777}`); status != http.StatusOK {
		t.Errorf("an upload: %d %s", status, text)
	}
	events := bufio.NewScanner(res.Body)
	for events.Scan() && !strings.Contains(events.Text(), `"score":777`) {
	}
	if err := events.Err(); err != nil || !strings.Contains(events.Text(), `"score":777`) {
		t.Errorf("the stream has ended: %v, %s", err, events.Text())
	}
	_, metrics := other.call("/metrics", "", "")
	_, closed, _ := strings.Cut(metrics, "\nstepboard_http_connections_idle_closed_total ")
	if n, err := strconv.Atoi(strings.Fields(closed + " none")[0]); err != nil || n < 2*most {
		t.Errorf("%d idle connections were closed, %v", n, err)
	}
}
