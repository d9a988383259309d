package app

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

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
	server.Listener = answerListener{server.Listener}
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
	server.Listener = answerListener{counted}
	server.Start()
	t.Cleanup(server.Close)
	r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody))
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	first := <-writes // of a connection that knows no writev
	if !continues(first) {
		t.Errorf("net/http's first part of %d bytes is not kept", len(first))
	}
	if n := testenv.Must(io.Copy(io.Discard, answer.Body)); n != length {
		t.Errorf("%d bytes", n)
	}
}
