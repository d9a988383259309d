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

func TestAddresses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address         string
		public, private bool // permitted without and with private_network
	}{
		{"93.184.216.34:443", true, true},
		{"[2606:2800:220:1::1]:443", true, true},
		{"127.0.0.1:80", false, true},
		{"[::1]:80", false, true},
		{"10.1.2.3:80", false, true},
		{"172.16.0.1:80", false, true},
		{"192.168.1.1:80", false, true},
		{"[fd00::1]:80", false, true},
		{"100.64.1.1:80", false, true},
		{"[::ffff:10.0.0.1]:80", false, true},
		{"[64:ff9b::a00:1]:80", false, true},
		{"192.0.2.1:80", false, true},
		{"198.51.100.1:80", false, true},
		{"203.0.113.1:80", false, true},
		{"192.88.99.1:80", false, true},
		{"255.255.255.255:80", false, true},
		{"[2001::1]:80", false, true},
		{"[2001:db8::1]:80", false, true},
		{"[2002:a00:1::]:80", false, true},
		{"[100::1]:80", false, true},
		{"169.254.169.254:80", false, false},
		{"[fe80::1]:80", false, false},
		{"[::ffff:169.254.169.254]:80", false, false},
		{"0.0.0.0:80", false, false},
		{"224.0.0.1:80", false, false},
		{"nonsense", false, false},
	}
	for _, tt := range tests {
		if got := checkAddress(tt.address, false) == nil; got != tt.public {
			t.Errorf("%s: permitted without private_network: %v", tt.address, got)
		}
		if got := checkAddress(tt.address, true) == nil; got != tt.private {
			t.Errorf("%s: permitted with private_network: %v", tt.address, got)
		}
	}
}

// Whatever bytes a target answers, an attempt ends, and it counts as received only if the
// answer begins with a status from 200 to 299.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		"", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nx",
		"HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 -1 no\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", answerHeaderBytes) + "\r\n",
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
