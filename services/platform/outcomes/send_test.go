package outcomes

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"stepboard/models"
)

// Whatever bytes a target answers, an attempt ends, and it counts as received only if the
// answer begins with a status from 200 to 299.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nx",
		"HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 -1 no\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", (64<<10)) + "\r\n",
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		s, err := newWebhook(nil, Target{URL: "http://target.test/", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.client.CloseIdleConnections()
		s.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return answering(answer), nil }
		status, err := s.send(t.Context(), &models.Delivery{MessageID: "msg_1"}, []byte("{}"))
		if status == 0 && err == nil || (err == nil) != (status >= 200 && status <= 299) {
			t.Errorf("%q is status %d, %v", answer, status, err)
		}
		if status != 0 && !strings.HasPrefix(string(answer), "HTTP/") {
			t.Errorf("%q is status %d", answer, status)
		}
	})
}

// answering returns a connection to a server that reads a request and writes these bytes.
func answering(answer []byte) net.Conn {
	client, server := net.Pipe()
	go func() {
		defer server.Close()
		if request, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
			_, _ = io.Copy(io.Discard, request.Body) // the client may be gone
			_, _ = server.Write(answer)
		}
	}()
	return client
}
