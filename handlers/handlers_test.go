package handlers_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/operations/audit"
	"stepboard/services/platform/auth"
)

// noon is the time of every test's clock.
var noon = time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC)

// The errors that fakes return: one with a code, and one that clients must not
// see.
var (
	errUnavailable = models.Unavailable("read", errors.New("connection refused"))
	errUnknown     = errors.New("secret")
)

const (
	wantUnavailable = "503 unavailable: the service can't answer this right now; try again shortly"
	wantInternal    = "500 internal: an internal error occurred; its cause is in the service's log, under this request's id"
)

// testCase is one request and what must come of it.
type testCase struct {
	name string
	// token names the caller: a user's id, "service" or "admin".
	token string
	// request is method and path.
	request string
	body    string
	// err is returned by the fake service.
	err error
	// calls are the calls of services that the handler makes.
	calls []string
	// want is the status and the body; of a problem, the status, the code and
	// the detail. An answer may continue after a want that ends in "…".
	want string
}

// runCases sends the requests to an API built from a config, whose fake
// services record their calls in the recorder.
func runCases(t *testing.T, config func(*recorder) handlers.Config, cases []testCase) {
	t.Helper()
	for _, tt := range cases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{err: tt.err}
			got := send(t, newAPI(t, config(r)), tt.token, tt.request, tt.body)
			text := describe(t, got)
			start, open := strings.CutSuffix(tt.want, "…")
			if matches := text == tt.want || open && strings.HasPrefix(text, start); !matches {
				t.Errorf("answered\n\t%s\nwant\n\t%s", text, tt.want)
			}
			if diff := cmp.Diff(tt.calls, r.calls); diff != "" {
				t.Errorf("calls of services (-want +got):\n%s", diff)
			}
		})
	}
}

// recorder records the calls of a fake service. Not safe for concurrent use.
type recorder struct {
	calls []string
	err   error
}

// record notes a call and returns the error that the fake returns.
func (r *recorder) record(method string, args ...any) error {
	call := method
	for _, arg := range args {
		call += fmt.Sprintf(" %+v", arg)
	}
	r.calls = append(r.calls, call)
	return r.err
}

// newAPI builds an API whose tokens are those of tokenNames. What the config
// leaves out is filled in.
func newAPI(t *testing.T, config handlers.Config) http.Handler {
	t.Helper()
	if config.Tokens == nil {
		config.Tokens = tokenNames{}
	}
	if config.Limits == nil {
		config.Limits = noLimits{}
	}
	if config.CheckErasures == nil {
		config.CheckErasures = func(context.Context) error { return nil }
	}
	if config.Cursors == nil {
		config.Cursors = plainCursors{}
	}
	if config.Audit == nil {
		config.Audit = noAudit{}
	}
	if config.Registry == nil {
		config.Registry = prometheus.NewRegistry()
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	config.Requests = config.Log
	config.Clock = func() time.Time { return noon }
	api, err := handlers.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// send makes one request. The request is method and path.
func send(t *testing.T, api http.Handler, token, request, body string) *httptest.ResponseRecorder {
	t.Helper()
	method, path, ok := strings.Cut(request, " ")
	if !ok {
		t.Fatalf("request %q: want method and path", request)
	}
	var r *http.Request
	if body == "" {
		r = httptest.NewRequestWithContext(t.Context(), method, path, nil)
	} else {
		r = httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

// describe writes an answer as testCase.want does.
func describe(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	status := strconv.Itoa(w.Code)
	if w.Header().Get("Content-Type") != "application/problem+json" {
		return strings.TrimSpace(status + " " + w.Body.String())
	}
	var p handlers.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if p.Status != w.Code || p.RequestID == "" || p.RequestID != w.Header().Get("X-Request-Id") {
		t.Errorf("problem of status %d: %+v", w.Code, p)
	}
	return fmt.Sprintf("%s %s: %s", status, p.Code, p.Detail)
}

// tokenNames verifies tokens that name their caller.
type tokenNames struct{}

func (tokenNames) Verify(token string) (*auth.Caller, error) {
	switch token {
	case "service":
		return &auth.Caller{Service: true, Expires: time.Now().Add(time.Hour)}, nil
	case "admin":
		return &auth.Caller{Admin: true, Operator: "alice", Expires: time.Now().Add(time.Hour)}, nil
	case "admin without a sub":
		return &auth.Caller{Admin: true, Expires: time.Now().Add(time.Hour)}, nil
	case "expired": // since it was verified
		return &auth.Caller{User: "1001", Expires: time.Now()}, nil
	}
	user, err := models.ParseUserID(token)
	if err != nil {
		return nil, auth.Unauthenticated("the token is not valid; get a new one", err)
	}
	return &auth.Caller{User: user, Expires: time.Now().Add(time.Hour)}, nil
}

// noLimits limits nobody.
type noLimits struct{}

func (noLimits) Take(context.Context, models.UserID, string) error { return nil }

func (noLimits) Failing(string) error { return nil }

func (noLimits) TakeKey(context.Context, int64, string) error { return nil }

func (noLimits) EnterReport(context.Context, models.UserID, bool) (leave func(), err error) {
	return func() {}, nil
}

// noAudit keeps nothing.
type noAudit struct{}

func (noAudit) Begin(context.Context, audit.Entry) (func(error), error) { return func(error) {}, nil }

func (noAudit) List(context.Context, audit.Query) ([]audit.Entry, error) { return nil, nil }

// accepted returns the value of stepboard_uploads_accepted_total for a board.
func accepted(t *testing.T, registry *prometheus.Registry, board string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "stepboard_uploads_accepted_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == board {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// plainCursors is a fake handlers.CursorSealer whose cursors can be read.
type plainCursors struct{}

func (plainCursors) Seal(c models.Cursor, scope ...string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %q", c.Key, c.Row, scope))
}

func (s plainCursors) Open(_ context.Context, text string, scope ...string) (models.Cursor, error) {
	var c models.Cursor
	if text == "" {
		return c, nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		_, err = fmt.Sscan(string(plain), &c.Key, &c.Row)
	}
	if err != nil || s.Seal(c, scope...) != text {
		return models.Cursor{}, models.Errorf(models.CodeInvalidCursor, "not a cursor of this list")
	}
	return c, nil
}

// cursor returns a cursor of a list.
func cursor(key int64, row models.RowID, scope ...string) string {
	return plainCursors{}.Seal(models.Cursor{Key: key, Row: row}, scope...)
}

// checkPages lists one entry at a time, following next_cursor, and compares
// the calls of the service.
func checkPages(t *testing.T, config func(*recorder) handlers.Config, token, request string, calls []string) {
	t.Helper()
	r := &recorder{}
	api := newAPI(t, config(r))
	next := ""
	for range calls {
		got := send(t, api, token, request+next, "")
		if got.Code != 200 {
			t.Fatalf("%s%s: %d %s", request, next, got.Code, got.Body)
		}
		_, text, found := strings.Cut(got.Body.String(), `"next_cursor":"`)
		if !found {
			next = ""
			break
		}
		text, _, _ = strings.Cut(text, `"`)
		next = "&cursor=" + text
	}
	if next != "" {
		t.Errorf("another page follows: %s", next)
	}
	if diff := cmp.Diff(calls, r.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
