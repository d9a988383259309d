package handlers_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/phones"
)

const phoneKey = "sb_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// phoneService is a fake handlers.PhoneService that knows one key.
type phoneService struct{ *recorder }

var nineDaysAgo = models.DateOf(noon) - 9

var phone = models.UploadAddress{ID: 7, Name: "My phone", Board: "steps", TimeZone: "Asia/Shanghai", CreatedAt: noon}

func (s phoneService) Add(_ context.Context, user models.UserID, board string, c phones.Choice) (models.UploadAddress, string, error) {
	return phone, phoneKey, s.record("Add", user, board, c)
}

func (s phoneService) List(_ context.Context, user models.UserID) ([]models.UploadAddress, error) {
	day, score, used := models.DateOf(noon), int64(7961), phone
	used.LastUsedAt, used.LastDay, used.LastScore = &phone.CreatedAt, &day, &score
	return []models.UploadAddress{phone, used}, s.record("List", user)
}

func (s phoneService) Change(_ context.Context, user models.UserID, id int64, c phones.Choice) (models.UploadAddress, error) {
	return phone, s.record("Change", user, id, c)
}

func (s phoneService) Revoke(_ context.Context, user models.UserID, id int64, dryRun bool) error {
	return s.record("Revoke", user, id, dryRun)
}

func (s phoneService) Knows(string) bool { return false }

func (s phoneService) Find(_ context.Context, key string) (phones.Address, error) {
	if key != phoneKey {
		return phones.Address{}, models.Errorf(models.CodeAddressUnknown, "this address is not known")
	}
	return phones.Address{UploadAddress: phone, UserID: "1001"}, nil
}

func (s phoneService) Take(_ context.Context, a phones.Address, body []byte, query string) (phones.Taken, error) {
	return phones.Taken{
		Form:     phones.Own,
		Accepted: []ingest.Accepted{{Date: models.DateOf(noon), Score: 5}, {Date: models.DateOf(noon) + 1, Score: 99_000, Held: true}},
		Rejected: []phones.Refused{{Err: models.Errorf(models.CodeNotRecognised, "no date")}, {Date: &nineDaysAgo, Err: models.Errorf(models.CodeDateClosed, "closed")}},
	}, s.record("Take", a.UserID, string(body), query)
}

// A call to an address needs its key and no token, in the path or in the header, and a token is no key.
func TestTakeFromPhone(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Phones: phoneService{r}, Scores: scores{recorder: &recorder{}}}
	}
	const (
		in   = "POST /v1/in/" + phoneKey
		body = `{"date":"2026-11-20","score":5}`
		took = `200 {"accepted":[{"date":"2026-11-20","score":5,"held":false},{"date":"2026-11-21","score":99000,"held":true}],` +
			`"rejected":[{"date":null,"code":"not_recognised","detail":"no date"},{"date":"2026-11-11","code":"date_closed","detail":"closed"}]}`
		unknown = "401 upload_address_unknown: this address is not known"
	)
	taken := []string{"Take 1001 " + body + " "}
	runCases(t, config, []testCase{
		{"without a token", "", in, body, nil, taken, took},
		{"with a token, which is not looked at", "1001", in, body, nil, taken, took},
		{"a query", "", in + "?steps=5&date=2026-11-20", "", nil, []string{"Take 1001  date=2026-11-20&steps=5"}, took},
		{"another parameter", "", in + "?stepps=5", "", nil, nil, "422 validation_failed: query.stepps: unknown query parameter"},
		{"another key", "", "POST /v1/in/sb_", body, nil, nil, unknown},
		{"by the header, with a token", "1001", "POST /v1/in", body, nil, nil, unknown},
		{"by the header, without anything", "", "POST /v1/in", body, nil, nil, unknown},
		{"not daily", "", in, body, models.Errorf(models.CodeNotDaily, "these are parts"), taken, "422 not_daily: these are parts"},
		{"not recognised", "", in, body, models.Errorf(models.CodeNotRecognised, "no steps"), taken, "422 not_recognised: no steps"},
		{"the store is away", "", in, body, errUnavailable, taken, wantUnavailable},
		{"reading", "", "GET /v1/in/" + phoneKey, "", nil, nil, "405 method_not_allowed: this path does not take GET"},
		{"too large", "", in, strings.Repeat(" ", 256<<10+1), nil, nil, "413 body_too_large: the body of this call has at most 262144 bytes"},
	})
}

// Calls with a key count for its address, and not for its user. While a network has tried too many keys that are none, none is
// looked up.
func TestPhonesHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][]string{
		phoneKey: {"Failing 192.0.2.1", "TakeKey 7 192.0.2.1"},
		"sb_":    {"Failing 192.0.2.1", "TakeKey 0 192.0.2.1"},
	} {
		r := &recorder{}
		api := newAPI(t, handlers.Config{Limits: limits{r}, LimitAddresses: true, Phones: phoneService{&recorder{}}, Scores: scores{recorder: &recorder{}}})
		if send(t, api, "", "POST /v1/in/"+key, `{"date":"2026-11-20","score":5}`); !slices.Equal(r.calls, want) {
			t.Errorf("%s: %q, want %q", key, r.calls, want)
		}
		refusing := &recorder{err: &models.Error{Code: models.CodeRateLimited, Message: "too often", Wait: time.Second}}
		api = newAPI(t, handlers.Config{Limits: limits{refusing}, LimitAddresses: true, Phones: phoneService{&recorder{}}})
		if got := describe(t, send(t, api, "", "POST /v1/in/"+key, "")); got != "429 rate_limited: too often" || len(refusing.calls) != 1 {
			t.Errorf("%s: %s, %q", key, got, refusing.calls)
		}
	}
}

// The calls about addresses are the user's, and operators'.
func TestUploadAddresses(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Phones: phoneService{r}}
	}
	const (
		own   = "/v1/me/upload-addresses"
		shown = `{"id":"7","name":"My phone","board":"steps","time_zone":"Asia/Shanghai","created_at":"2026-11-20T04:00:00.000Z","last_used_at":null,"last_result":null`
		used  = `{"id":"7","name":"My phone","board":"steps","time_zone":"Asia/Shanghai","created_at":"2026-11-20T04:00:00.000Z","last_used_at":"2026-11-20T04:00:00.000Z","last_result":{"date":"2026-11-20","score":7961,"code":null}}`
		list  = `200 {"upload_addresses":[` + shown + `},` + used + `]}`
	)
	runCases(t, config, []testCase{
		{"make", "1001", "POST " + own, `{"name":"My phone","board":"steps"}`, nil, []string{"Add 1001 steps {Name:My phone TimeZone: Session:0}"},
			`201 ` + shown + `,"key":"` + phoneKey + `","path":"/v1/in/` + phoneKey + `"}`},
		{"one too many", "1001", "POST " + own, `{"name":"My phone","board":"steps"}`, models.Errorf(models.CodeAddressLimit, "ten"),
			[]string{"Add 1001 steps {Name:My phone TimeZone: Session:0}"}, "409 upload_address_limit: ten"},
		{"list", "1001", "GET " + own, "", nil, []string{"List 1001"}, list},
		{"change", "1001", "PUT " + own + "/7", `{"name":"Watch","time_zone":"UTC"}`, nil, []string{"Change 1001 7 {Name:Watch TimeZone:UTC Session:0}"}, "200 " + shown + "}"},
		{"revoke", "1001", "DELETE " + own + "/7", "", nil, []string{"Revoke 1001 7 false"}, "204"},
		{"revoke by no number", "1001", "DELETE " + own + "/x", "", nil, nil, "422 validation_failed: path.address: …"},
		{"a key for a token", "", "GET " + own, "", nil, nil, "401 unauthenticated: send a token: Authorization: Bearer …"},
		{"list as an operator", "admin", "GET /v1/admin/users/1001/upload-addresses", "", nil, []string{"List 1001"}, list},
		{"list another user's", "1001", "GET /v1/admin/users/1002/upload-addresses", "", nil, nil, "403 forbidden: this token may not make this call"},
	})
}

// Pages of other origins can't call an address, whatever the settings permit.
func TestNoOriginCallsAPhonesAddress(t *testing.T) {
	t.Parallel()
	api := newAPI(t, handlers.Config{Phones: phoneService{&recorder{}}, Scores: scores{recorder: &recorder{}}, Origins: []string{"*"}})
	for _, method := range []string{http.MethodOptions, http.MethodPost} {
		r := httptest.NewRequestWithContext(t.Context(), method, "/v1/in/"+phoneKey, nil)
		r.Header.Set("Origin", "https://example.com")
		r.Header.Set("Access-Control-Request-Method", http.MethodPost)
		got := httptest.NewRecorder()
		api.ServeHTTP(got, r)
		if allowed := got.Header().Get("Access-Control-Allow-Origin"); allowed != "" || method == http.MethodOptions && got.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d, %q", method, got.Code, allowed)
		}
	}
}
