package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"stepboard/handlers"
	"stepboard/internal/testenv"
)

// countedConn counts the writes to a connection.
type countedConn struct {
	net.Conn
	writes chan []byte
}

func (c countedConn) Write(p []byte) (int, error) {
	c.writes <- bytes.Clone(p)
	return c.Conn.Write(p)
}

type countedListener struct {
	net.Listener
	writes chan []byte
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countedConn{conn, l.writes}, err
}

// Whatever the length of an answer and the sizes in which it is written, the client reads
// all of it, and the next one on the same connection.
func TestAnswersArriveWhole(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789abcdef", 4<<10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		length := testenv.Must(strconv.Atoi(query.Get("length")))
		if query.Get("known") == "true" {
			w.Header().Set("Content-Length", strconv.Itoa(length))
		}
		var from io.Reader = strings.NewReader(body[:length])
		if query.Get("halves") == "true" {
			from = iotest.HalfReader(from)
		}
		if _, err := io.Copy(struct{ io.Writer }{w}, from); err != nil {
			t.Error(err)
		}
	}))
	server.Listener = answerListener{Listener: server.Listener}
	server.Start()
	t.Cleanup(server.Close)
	lengths := []int{0, 1, 2048, 8191, 8192, 8193, 28_000, len(body)}
	for n := 3800; n < 4200; n++ { // with the head about the size of the buffer
		lengths = append(lengths, n)
	}
	for _, length := range lengths {
		for _, how := range []string{"known=true", "known=false", "known=true&halves=true"} {
			url := fmt.Sprintf("%s/?length=%d&%s", server.URL, length, how)
			r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))
			answer, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || string(got) != body[:length] {
				t.Fatalf("%s: %d bytes, %v", url, len(got), err)
			}
		}
	}
}

// The buffer of net/http is of the size that answerConn expects.
func TestLongAnswerIsKeptUntilItsSecondPart(t *testing.T) {
	t.Parallel()
	const length = 12_000
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(length))
		_, _ = w.Write(make([]byte, length))
	}))
	writes := make(chan []byte, 10)
	counted := countedListener{server.Listener, writes}
	server.Listener = answerListener{Listener: counted}
	server.Start()
	t.Cleanup(server.Close)
	r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody))
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	first := testenv.Receive(t, "a write", writes) // of a connection that knows no writev
	if !continues(first) {
		t.Errorf("net/http's first part of %d bytes is not kept", len(first))
	}
	if n := testenv.Must(io.Copy(io.Discard, answer.Body)); n != length {
		t.Errorf("%d bytes", n)
	}
}

// Requests that net/http refuses before a handler sees them are answered with a problem, too,
// whose id is in the log.
func TestRefusedRequestsAreProblems(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "of a handler")
	}))
	server.Config.MaxHeaderBytes = maxHeaderBytes
	server.Listener = answerListener{server.Listener, slog.New(slog.NewTextHandler(&log, nil))}
	server.Start()
	t.Cleanup(server.Close)
	for request, want := range map[string]string{
		"GET /v1/users/%zz HTTP/1.1\r\nHost: a\r\n\r\n":                                          "400 the request can't be parsed: send HTTP/1.1, and percent-encode the path, a % itself as %25",
		"GET /v1/boards HTTP/1.1\r\n\r\n":                                                        "400 the request can't be parsed: missing required Host header",
		"GET /v1/boards HTTP/3.0\r\nHost: a\r\n\r\n":                                             "505 the request can't be parsed: unsupported protocol version",
		"POST /v1/boards HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: br\r\n\r\n":                   "501 the request can't be parsed",
		"GET /v1/boards HTTP/1.1\r\nHost: " + strings.Repeat("a", 2*maxHeaderBytes) + "\r\n\r\n": "431 the request can't be parsed: its head has more than 32768 bytes",
	} {
		status, header, body := exchange(t, server.Listener.Addr(), request)
		var p handlers.Problem
		if err := json.Unmarshal(body, &p); err != nil {
			t.Errorf("%.40q: %v %v", request, header, err)
			continue
		}
		if got := fmt.Sprint(status, " ", p.Detail); got != want || p.Status != status || p.Code != "invalid_request" ||
			p.Title == "" || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%.40q: %s, want %s; %+v %v", request, got, want, p, header)
		}
		if id := header.Get("X-Request-Id"); id == "" || id != p.RequestID || !strings.Contains(log.String(), "request_id="+id) {
			t.Errorf("%.40q: id %q and %q, log %s", request, id, p.RequestID, log.String())
		}
	}
	status, _, body := exchange(t, server.Listener.Addr(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if string(body) != "of a handler" || status != http.StatusBadRequest {
		t.Errorf("the answer of a handler becomes %d %s", status, body)
	}
}

// exchange sends a request as it is over a connection of its own, and reads the answer.
func exchange(t *testing.T, address net.Addr, request string) (status int, header http.Header, body []byte) {
	t.Helper()
	conn := testenv.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", address.String()))
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode, answer.Header, testenv.Must(io.ReadAll(answer.Body))
}
