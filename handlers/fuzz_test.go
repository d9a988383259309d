package handlers

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
)

// The bodies that handlers decode themselves are refused with a code that clients know, or
// decoded into items that are the same once they are encoded again.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"date":"2026-11-20","score":5}`,
		`{"scores":[{"date":"2026-11-20","score":-9223372036854775809},{"date":"2026-11-19","score":1e3}]}`,
		`{"scores":[{"user_id":"1","date":"2025-11-20","score":5}]}`,
		`{ "scores" : [ {"score":0,"date":"2025-11-20","user_id":"12"} , {"user_id":"3","date":"2025-11-21","score":007} ] }`,
		`{"scores":[{"user_id":"a\u002fb","date":"2025-11-20","score":5},{"user_id":"a\\b","date":"2025-11-20","score":5}]}`,
		`{"scores":[{"user_id":"auth0|x","date":"2025-11-20","score":5},{"user_id":"..","date":"2025-11-20","score":5}]}`,
		`{"user_id":"1","delta":1,"event_id":"a"}`,
		`{"increments":[{"user_id":"1","delta":1,"event_id":"a"},{"user_id":"1","delta":1,"event_id":1},null]}`,
		`{"increments":[{"user_id":"é","delta":99999999999999999999,"event_id":"\ud800","more":{}}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		checkAgreement(t, body)
		if u, err := parseUploads(body, "1001"); checkBodyError(t, body, err) {
			again, err := parseUploads(encoded(t, "scores", u.items, dayJSON), "1001")
			if err != nil || cmp.Diff(u.items, again.items) != "" {
				t.Errorf("%s is %+v, and then %+v, %v", body, u.items, again, err)
			}
		}
		if b, err := parseBatch(body); checkBodyError(t, body, err) && len(b.uploads) > 0 {
			again, err := parseBatch(encoded(t, "scores", b.uploads, uploadJSON))
			if err != nil || len(again.rejected) > 0 || cmp.Diff(b.uploads, again.uploads) != "" {
				t.Errorf("%s is %+v, and then %+v, %v", body, b.uploads, again, err)
			}
		}
		if l, err := parseIncrements(body); checkBodyError(t, body, err) {
			rejected := slices.DeleteFunc(slices.Clone(l.results), func(r incrementResult) bool { return r.Code == "" })
			if len(l.items)+len(rejected) != len(l.results) || len(l.positions) != len(l.items) {
				t.Errorf("%s: %d items and %d rejected ones of %d", body, len(l.items), len(rejected), len(l.results))
			}
			if len(l.items) > 0 {
				again, err := parseIncrements(encoded(t, "increments", l.items, incrementJSON))
				if err != nil || cmp.Diff(l.items, again.items) != "" {
					t.Errorf("%s is %+v, and then %+v, %v", body, l.items, again, err)
				}
			}
		}
	})
}

// checkBodyError checks that an error has one of the codes of bodies, and reports whether
// there is none.
func checkBodyError(t *testing.T, body []byte, err error) bool {
	t.Helper()
	var known *models.Error
	if err == nil {
		return true
	}
	if !errors.As(err, &known) || known.Code != models.CodeInvalidRequest && known.Code != models.CodeValidationFailed {
		t.Errorf("%q: %v", body, err)
	}
	return false
}

// encoded returns the body of a list.
func encoded[T any](t *testing.T, list string, items []T, fields func(T) map[string]any) []byte {
	t.Helper()
	all := make([]map[string]any, len(items))
	for i, item := range items {
		all[i] = fields(item)
	}
	body, err := json.Marshal(map[string]any{list: all})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func dayJSON(u ingest.Upload) map[string]any {
	return map[string]any{"date": u.Date.String(), "score": u.Score}
}

func uploadJSON(u ingest.Upload) map[string]any {
	return map[string]any{"user_id": u.User, "date": u.Date.String(), "score": u.Score}
}

func incrementJSON(i ledger.Increment) map[string]any {
	fields := map[string]any{"user_id": i.User, "delta": i.Amount, "event_id": i.EventID}
	if i.Result {
		fields["score"] = i.Amount
		delete(fields, "delta")
	}
	if i.OccurredAt != nil {
		fields["occurred_at"] = i.OccurredAt
	}
	return fields
}

// listed reports whether a header lists an address, in whatever form and with any zone. A
// zone may be any text: "::1%]" is the address ::1.
func listed(header, address string) bool {
	for text := range strings.SplitSeq(header, ",") {
		text = strings.TrimSpace(text)
		for _, form := range []string{text, strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")} {
			entry, err := netip.ParseAddr(form)
			if pair, pairErr := netip.ParseAddrPort(form); pairErr == nil {
				entry, err = pair.Addr(), nil
			}
			if err == nil && entry.WithZone("").Unmap().String() == address {
				return true
			}
		}
	}
	return false
}

// The address that a call is counted under is the peer's, or one that X-Forwarded-For
// names. What a client sends ahead of the address that a trusted proxy adds has no effect.
func FuzzForwardedFor(f *testing.F) {
	f.Add("203.0.113.9", false)
	f.Add("10.0.0.1, 203.0.113.9:4444", true)
	f.Add("[2001:db8::9%eth0]:4444,,", true)
	f.Add("unknown, ::ffff:192.0.2.7", false)
	f.Add("\xff,[]:,[[::1]]", true)
	f.Add("::1.0.0.0%]", false)
	f.Add("[::1%]], [::2%]]]:80", true)
	engine, err := newEngine([]string{"192.0.2.0/24"})
	if err != nil {
		f.Fatal(err)
	}
	var address string
	engine.GET("/", func(c *gin.Context) { address = addressOf(c) })
	const peer, client = "192.0.2.1", "203.0.113.9"
	ask := func(t *testing.T, headers ...string) string {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = peer + ":1234"
		r.Header[forwardedFor] = headers
		engine.ServeHTTP(httptest.NewRecorder(), r)
		return address
	}
	f.Fuzz(func(t *testing.T, header string, apart bool) {
		got := ask(t, header)
		if _, err := netip.ParseAddr(got); err != nil || got != peer && !strings.Contains(header, got) && !listed(header, got) {
			t.Errorf("%q is %q", header, got)
		}
		added := []string{header + "," + client}
		if apart {
			added = []string{header, client}
		}
		if got := ask(t, added...); got != client {
			t.Errorf("%q is %q, want the one that the proxy added", added, got)
		}
	})
}
