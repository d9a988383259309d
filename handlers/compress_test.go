package handlers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/stream"
)

// longExports are exports of about as many bytes as the id of their user says.
type longExports struct{ erasures }

func (longExports) Export(_ context.Context, user models.UserID, _ bool) (func(context.Context, io.Writer) error, error) {
	return func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, `{"padding":"`+strings.Repeat("x", testenv.Must(strconv.Atoi(string(user))))+`"}`)
		return err
	}, nil
}

// Answers of a kilobyte and more are compressed for clients that accept gzip.
func TestLongAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	api := newAPI(t, handlers.Config{Erasures: longExports{}, History: history{&recorder{}}})
	for _, tt := range []struct {
		path, user, accept string
		compressed         bool
	}{
		{"/v1/me/export", "1100", "gzip", true},
		{"/v1/me/export", "200000", "br, gzip;q=0.5", true},
		{"/v1/me/export", "900", "gzip", false},
		{"/v1/me/export", "200000", "br", false},
		{"/v1/me/export", "200000", "gzip;q=0", false},
		{"/v1/me/export", "200000", "", false},
		{"/openapi.json", "1", "gzip", true},
		{"/v1/boards/steps/history", "1", "gzip", false},
		{"/v1/nothing", "1", "gzip", false},
	} {
		plain := get(t, api, tt.path, "Authorization", "Bearer "+tt.user)
		got := get(t, api, tt.path, "Authorization", "Bearer "+tt.user, "Accept-Encoding", tt.accept)
		body := got.Body.Bytes()
		if compressed := got.Header().Get("Content-Encoding") == "gzip"; compressed != tt.compressed {
			t.Errorf("%s of %d bytes, accepting %q: compressed %v", tt.path, plain.Body.Len(), tt.accept, compressed)
		} else if compressed {
			if vary := got.Header().Get("Vary"); vary != "Accept-Encoding" || len(body) >= plain.Body.Len() || got.Header().Get("Content-Length") != "" {
				t.Errorf("%s: %d of %d bytes, %v", tt.path, len(body), plain.Body.Len(), got.Header())
			}
			body = testenv.Must(io.ReadAll(testenv.Must(gzip.NewReader(bytes.NewReader(body)))))
		}
		if got.Code != plain.Code || tt.path != "/v1/nothing" && !bytes.Equal(body, plain.Body.Bytes()) {
			t.Errorf("%s, accepting %q: %d, %d bytes, want %d, %d", tt.path, tt.accept, got.Code, len(body), plain.Code, plain.Body.Len())
		}
	}
}

// A stream is not compressed, whatever its client accepts: its events must arrive one by one.
func TestStreamsAreNotCompressed(t *testing.T) {
	t.Parallel()
	response, lines, _ := watch(t, &changing{}, stream.Limits{}, "1001", "", "Accept-Encoding", "gzip") //nolint:bodyclose // watch closes it at the end of the test
	if header := response.Header; header.Get("Content-Encoding") != "" || header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("answered %v", header)
	}
	expect(t, lines, `data: {"board":"steps",`)
}

// A HEAD of an export reads nothing, and one of other calls is logged without a body.
func TestHeadHasNoBody(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	api := newAPI(t, handlers.Config{
		Erasures: longExports{}, History: history{&recorder{}}, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	got := send(t, api, "1100", "HEAD /v1/me/export", "")
	if got.Code != http.StatusOK || got.Body.Len() > 0 || got.Header().Get("Content-Type") != "application/json" {
		t.Errorf("HEAD of an export: %d %v, %d bytes", got.Code, got.Header(), got.Body.Len())
	}
	got = send(t, api, "1001", "HEAD /v1/boards/steps/history", "")
	if got.Code != http.StatusOK || strings.Count(log.String(), " bytes=0\n") != 2 || strings.Count(log.String(), " method=HEAD ") != 2 {
		t.Errorf("%d, logged %s", got.Code, log.String())
	}
}
