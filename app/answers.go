package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"stepboard/handlers"
)

// answerBuffer is the size of the buffer through which net/http writes to a connection.
// It writes a longer answer in two parts: the full buffer, and the rest.
const answerBuffer = 4 << 10

// answerListener is a listener whose connections write the two parts of an answer in one
// system call, which is a tenth of the processor time of a friend ranking. They refuse requests
// with a problem where net/http itself would with plain text.
type answerListener struct {
	net.Listener

	log *slog.Logger
}

// Accept waits for the next connection.
func (l answerListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &answerConn{Conn: conn, log: l.log}, nil
}

// answerConn is a connection to a client. Its methods must be called as net/http does:
// one write at a time.
type answerConn struct {
	net.Conn
	first []byte // the first part of an answer, until the next write; may be empty
	log   *slog.Logger
}

// Write sends p after what is kept. It keeps p if the next write must follow because p is
// the first part of an answer of known length.
func (c *answerConn) Write(p []byte) (int, error) {
	if len(c.first) == 0 {
		if status, reason, ok := refusal(p); ok {
			return len(p), c.refuse(status, reason)
		}
		if !continues(p) {
			return c.Conn.Write(p)
		}
		c.first = append(c.first, p...)
		return len(p), nil
	}
	parts := net.Buffers{c.first, p}
	sent, err := parts.WriteTo(c.Conn)
	sent -= int64(len(c.first))
	c.first = c.first[:0]
	return int(max(sent, 0)), err
}

// continues reports whether p is a full buffer that begins with the head of an answer, and
// the head names a length that p does not have.
func continues(p []byte) bool {
	if len(p) != answerBuffer || !bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
		return false
	}
	head, body, ok := bytes.Cut(p, []byte("\r\n\r\n"))
	if !ok {
		return false
	}
	_, length, ok := bytes.Cut(head, []byte("\r\nContent-Length: "))
	if !ok {
		return false
	}
	length, _, _ = bytes.Cut(length, []byte("\r\n"))
	n, err := strconv.Atoi(string(length))
	return err == nil && n > len(body)
}

// refusal reports whether p is the answer by which net/http refuses a request that it can't
// parse, such as one for /v1/users/%zz. No handler sees these requests, and nothing in net/http
// changes the answers. They are the only ones whose head has just these two headers. reason is
// what net/http says beside the status, or empty.
func refusal(p []byte) (status int, reason string, ok bool) {
	if !bytes.HasPrefix(p, []byte("HTTP/1.1 4")) && !bytes.HasPrefix(p, []byte("HTTP/1.1 5")) {
		return 0, "", false
	}
	head, text, ok := bytes.Cut(p, []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"))
	if !ok || bytes.Contains(head, []byte("\r\n")) {
		return 0, "", false
	}
	_, line, _ := strings.Cut(string(head), " ")
	number, _, _ := strings.Cut(line, " ")
	status, err := strconv.Atoi(number)
	_, reason, _ = strings.Cut(string(text), ": ")
	return status, reason, err == nil
}

// refuse answers a request that net/http refuses.
func (c *answerConn) refuse(status int, reason string) error {
	detail := "the request can't be parsed"
	switch {
	case reason != "":
		detail += ": " + reason
	case status == http.StatusRequestHeaderFieldsTooLarge:
		detail += fmt.Sprintf(": its head has more than %d bytes", maxHeaderBytes)
	case status == http.StatusBadRequest:
		detail += ": send HTTP/1.1, and percent-encode the path, a % itself as %25"
	}
	p := handlers.Refuse(status, detail)
	c.log.Info("request", "request_id", p.RequestID, "route", "none", "status", status, "code", p.Code)
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var answer bytes.Buffer
	err = (&http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header: http.Header{"Content-Type": {p.ContentType("")}, "X-Request-Id": {p.RequestID}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).Write(&answer)
	if err == nil {
		_, err = c.Conn.Write(answer.Bytes())
	}
	return err
}
