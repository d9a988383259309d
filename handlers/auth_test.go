package handlers_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// limits is a fake handlers.RateLimiter.
type limits struct {
	*recorder
}

func (l limits) Take(_ context.Context, user models.UserID, address string) error {
	return l.record("Take", user, address)
}

func (l limits) Failing(address string) error { return l.record("Failing", address) }

func (l limits) TakeKey(_ context.Context, id int64, address string) error {
	return l.record("TakeKey", id, address)
}

func (l limits) EnterReport(_ context.Context, user models.UserID, export bool) (leave func(), err error) {
	err = l.record("EnterReport", user, export)
	return func() { l.calls = append(l.calls, "leave") }, err
}

// Calls about many days are bounded by the user whom they are for, until they are answered.
func TestReports(t *testing.T) {
	t.Parallel()
	for request, want := range map[string][]string{
		"1001 GET /v1/boards/steps/friends":                                     {"Take 1001 192.0.2.1"},
		"1001 GET /v1/boards/steps/friends?from=2026-11-16":                     {"Take 1001 192.0.2.1", "EnterReport 1001 false", "leave"},
		"1001 GET /v1/boards/steps/friends?%66rom=2026-11-16":                   {"Take 1001 192.0.2.1", "EnterReport 1001 false", "leave"},
		"1001 GET /v1/boards/steps/groups/family?from=2026-11-16&to=2026-11-17": {"Take 1001 192.0.2.1", "EnterReport 1001 false", "leave"},
		"1001 GET /v1/boards/steps/history":                                     {"Take 1001 192.0.2.1", "EnterReport 1001 false", "leave"},
		"service GET /v1/boards/steps/summary?user_id=a%7Cb":                    {"EnterReport a|b false", "leave"},
		"1001 GET /v1/me/export":                                                {"Take 1001 192.0.2.1", "EnterReport 1001 true", "leave"},
		"admin GET /v1/admin/users/a%7Cb/export":                                {"EnterReport a|b true", "leave"},
	} {
		token, call, _ := strings.Cut(request, " ")
		r := &recorder{}
		api := newAPI(t, handlers.Config{
			Limits: limits{r}, LimitAddresses: true, Rankings: rankings{recorder: &recorder{}}, History: history{&recorder{}}, Erasures: erasures{&recorder{}},
		})
		if w := send(t, api, token, call, ""); w.Code != http.StatusOK || !slices.Equal(r.calls, want) {
			t.Errorf("%s: %s, %q, want %q", request, describe(t, w), r.calls, want)
		}
		busy := &recorder{err: &models.Error{Code: models.CodeBusy, Message: "busy", Wait: time.Second}}
		if len(want) > 1 {
			w := send(t, newAPI(t, handlers.Config{Limits: reportsOnly{limits{busy}}}), token, call, "")
			if got := describe(t, w); got != "429 busy: busy" || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: %s, %v", request, got, w.Header())
			}
		}
	}
}

// reportsOnly limits nothing but reports.
type reportsOnly struct{ limits }

func (reportsOnly) Take(context.Context, models.UserID, string) error { return nil }

const listBoards = "GET /v1/boards"

func TestTokens(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Boards: boards{recorder: r}} }
	const missing = "401 unauthenticated: send a token: Authorization: Bearer …"
	runCases(t, config, []testCase{
		{"no token", "", listBoards, "", nil, nil, missing},
		{"a broken token", "a token", listBoards, "", nil, nil, "401 unauthenticated: the token is not valid; get a new one"},
		{"a parameter twice", "1", listBoards + "?user_id=1&user_id=1", "", nil, nil, "422 validation_failed: query.user_id: is given more than once"},
		{"a parameter twice, without values", "1", listBoards + "?a&user_id=1&user_id", "", nil, nil, "422 validation_failed: query.user_id: is given more than once"},
		{"a parameter twice, once escaped", "1", listBoards + "?user_id=1&user%5fid=1", "", nil, nil, "422 validation_failed: query.user_id: is given more than once"},
		{"a broken query", "1", listBoards + "?user_id=%zz", "", nil, nil, "422 validation_failed: query: …"},
		{"an unknown path", "1", "GET /v1/nothing", "", nil, nil, "404 not_found: nothing is served at this path; GET /openapi.json lists every call"},
		{"another method", "1", "PATCH /v1/boards", "", nil, nil, "405 method_not_allowed: this path does not take PATCH"},
	})
	for _, header := range []string{"Basic dXNlcg==", "Bearer", "Bearer ", "1001"} {
		if got := get(t, newAPI(t, handlers.Config{}), "/v1/boards", "Authorization", header); got.Code != 401 || got.Header().Get("Www-Authenticate") != "Bearer" {
			t.Errorf("Authorization %q: %d %v", header, got.Code, got.Header())
		}
	}
	if got := get(t, newAPI(t, config(&recorder{})), "/v1/boards", "Authorization", "bearer 1"); got.Code != 200 {
		t.Errorf("a scheme in lower case: %d %s", got.Code, got.Body)
	}
}

// A process that may not know who was erased changes nothing but scores.
func TestChangesNeedErasures(t *testing.T) {
	t.Parallel()
	unknown := models.Unavailable("read erasures", errUnknown)
	config := func(r *recorder) handlers.Config {
		return handlers.Config{
			Friends: friendships{r}, Scores: scores{recorder: r}, Boards: stepsBoards(t), Buckets: buckets{r},
			CheckErasures: func(context.Context) error { return unknown },
		}
	}
	for request, want := range map[string]int{
		"DELETE /v1/friends/2":           http.StatusServiceUnavailable,
		"POST /v1/boards/steps/scores":   http.StatusOK,
		"GET /v1/boards":                 http.StatusOK,
		"PUT /v1/boards/steps/likes/2":   http.StatusServiceUnavailable,
		"POST /v1/friends/requests":      http.StatusServiceUnavailable,
		"DELETE /v1/me":                  http.StatusServiceUnavailable,
		"DELETE /v1/nothing/of/the/kind": http.StatusNotFound,
	} {
		r := &recorder{}
		got := send(t, newAPI(t, config(r)), "1", request, `{"date":"2026-11-20","score":1}`)
		if got.Code != want {
			t.Errorf("%s: %d %s, want %d", request, got.Code, got.Body, want)
		}
		if want == http.StatusServiceUnavailable && len(r.calls) > 0 {
			t.Errorf("%s: a service was called: %v", request, r.calls)
		}
	}
}

// Calls of users and of callers without a token are counted, those of services
// and operators are not.
func TestLimits(t *testing.T) {
	t.Parallel()
	limited := &models.Error{Code: models.CodeRateLimited, Message: "too often", Wait: 1500 * time.Millisecond}
	const refused = "429 rate_limited: too often"
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Limits: limits{recorder: r}, LimitAddresses: true, Boards: boards{list: []*catalog.Board{}}}
	}
	runCases(t, config, []testCase{
		{"a user", "1001", listBoards, "", nil, []string{"Take 1001 192.0.2.1"}, `200 {"boards":[]}`},
		{"a user above the limit", "1001", listBoards, "", limited, []string{"Take 1001 192.0.2.1"}, refused},
		{"a broken token above the limit", "a token", listBoards, "", limited, []string{"Take  192.0.2.1"}, refused},
		{"a call that is forbidden, above the limit", "1001", "GET /v1/admin/archives", "", limited, []string{"Take 1001 192.0.2.1"}, refused},
		{"a service", "service", listBoards, "", limited, nil, `200 {"boards":[]}`},
		{"an operator", "admin", listBoards, "", limited, nil, `200 {"boards":[]}`},
	})
	api := newAPI(t, config(&recorder{err: limited}))
	if got := send(t, api, "1001", listBoards, "").Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After is %q, want the seconds rounded up", got)
	}
}

// The address that is counted is the peer's, or the last one that a trusted
// proxy has seen.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		trusted   []string
		forwarded []string
		want      string
	}{
		{"no proxy", nil, nil, "Take 1001 192.0.2.1"},
		{"a proxy that is not trusted", nil, []string{"203.0.113.9"}, "Take 1001 192.0.2.1"},
		{"a trusted proxy", []string{"192.0.2.0/24"}, []string{"203.0.113.9"}, "Take 1001 203.0.113.9"},
		{"a client that invents an address", []string{"192.0.2.1"}, []string{"10.0.0.1, 203.0.113.9"}, "Take 1001 203.0.113.9"},
		{"a client that invents a header", []string{"192.0.2.1"}, []string{"10.0.0.1", "203.0.113.9"}, "Take 1001 203.0.113.9"},
		{"a port", []string{"192.0.2.1"}, []string{"203.0.113.9:4444"}, "Take 1001 203.0.113.9"},
		{"a port in front of a trusted proxy", []string{"192.0.2.0/24"}, []string{"203.0.113.9:4444,192.0.2.7:80"}, "Take 1001 203.0.113.9"},
		{"a port in a second header", []string{"192.0.2.1"}, []string{"10.0.0.1", "203.0.113.9:4444"}, "Take 1001 203.0.113.9"},
		{"IPv6", []string{"192.0.2.1"}, []string{"2001:db8::9"}, "Take 1001 2001:db8::9"},
		{"IPv6 in brackets", []string{"192.0.2.1"}, []string{"[2001:db8::9]"}, "Take 1001 2001:db8::9"},
		{"IPv6 with a port", []string{"192.0.2.1"}, []string{"[2001:db8::9]:4444"}, "Take 1001 2001:db8::9"},
		{"IPv6 with a zone", []string{"192.0.2.1"}, []string{"[fe80::9%eth0]:4444"}, "Take 1001 fe80::9"},
		{"text", []string{"192.0.2.1"}, []string{"unknown"}, "Take 1001 192.0.2.1"},
	} {
		r := &recorder{}
		api := newAPI(t, handlers.Config{Limits: limits{r}, LimitAddresses: true, Boards: boards{}, TrustedProxies: tt.trusted})
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/boards", nil)
		request.Header.Set("Authorization", "Bearer 1001")
		request.Header["X-Forwarded-For"] = tt.forwarded
		api.ServeHTTP(httptest.NewRecorder(), request)
		if diff := cmp.Diff([]string{tt.want}, r.calls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// The log says once that the proxy in front is not trusted.
func TestUntrustedProxyIsReported(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		trusted []string
		limited bool
		headers []string
		want    int
	}{
		{"a proxy", nil, true, []string{"X-Forwarded-For", "203.0.113.9"}, 1},
		{"no proxy", nil, true, nil, 0},
		{"a trusted proxy", []string{"192.0.2.1"}, true, []string{"X-Forwarded-For", "203.0.113.9"}, 0},
		{"addresses are not limited", nil, false, []string{"X-Forwarded-For", "203.0.113.9"}, 0},
	} {
		var log bytes.Buffer
		api := newAPI(t, handlers.Config{
			Limits: limits{&recorder{}}, LimitAddresses: tt.limited, Boards: boards{}, TrustedProxies: tt.trusted, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		for range 3 {
			get(t, api, "/v1/boards", append([]string{"Authorization", "Bearer 1001"}, tt.headers...)...)
		}
		if got := strings.Count(log.String(), "http.trusted_proxies is empty"); got != tt.want {
			t.Errorf("%s: %d warnings, want %d: %s", tt.name, got, tt.want, log.String())
		}
	}
}

func TestTrustedProxyThatIsNone(t *testing.T) {
	t.Parallel()
	if _, err := handlers.New(handlers.Config{Registry: registry(), TrustedProxies: []string{"proxy"}}); err == nil {
		t.Error("a name is taken for an address")
	}
}
