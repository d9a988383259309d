package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/rankings/notices"
)

// telling is a fake handlers.PushService: each user has the app's own subscription.
type telling struct {
	*recorder

	key string
}

func (s telling) PublicKey() string { return s.key }

func (s telling) List(_ context.Context, user models.UserID) ([]models.PushSubscription, error) {
	return []models.PushSubscription{{ID: 88001, UserID: 88002, Told: models.Told{Passed: true}, CreatedAt: noon}}, s.record("List", user)
}

func (s telling) Put(_ context.Context, user models.UserID, c notices.Choice) (models.PushSubscription, error) {
	stored := models.PushSubscription{ID: 88001, UserID: 88002, Told: models.ToldOf(c.Tell), TimeZone: c.TimeZone, CreatedAt: noon}
	if c.Endpoint != "" {
		stored.Endpoint = &c.Endpoint
	}
	return stored, s.record("Put", user, c)
}

func (s telling) End(_ context.Context, user models.UserID, endpoint *string) error {
	if endpoint == nil {
		return s.record("End", user, "of the app")
	}
	return s.record("End", user, "of "+*endpoint)
}

func (s telling) EndAll(_ context.Context, user models.UserID) error { return s.record("EndAll", user) }

func TestPush(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Push: telling{r, "BKey"}} }
	const (
		get  = "GET /v1/me/push"
		put  = "PUT /v1/me/push"
		end  = "DELETE /v1/me/push"
		own  = `{"endpoint":null,"tell":["passed"],"time_zone":"","created_at":"2026-11-20T04:00:00.000Z"}`
		ofX  = `{"endpoint":"https://p.example/x","tell":["passed","digest"],"time_zone":"Asia/Shanghai","created_at":"2026-11-20T04:00:00.000Z"}`
		body = `{"endpoint":"https://p.example/x","keys":{"p256dh":"BA","auth":"aa"},"tell":["digest","passed"],"time_zone":"Asia/Shanghai"}`
		putX = "Put 1001 {Endpoint:https://p.example/x P256DH:BA Auth:aa Tell:[digest passed] TimeZone:Asia/Shanghai}"
	)
	runCases(t, config, []testCase{
		{"get", "1001", get, "", nil, []string{"List 1001"}, `200 {"vapid_public_key":"BKey","subscriptions":[` + own + `]}`},
		{"get, the store is away", "1001", get, "", errUnavailable, []string{"List 1001"}, wantUnavailable},
		{"put", "1001", put, body, nil, []string{putX}, "200 " + ofX},
		{"put the app's own", "service", put + "?user_id=1001", `{"tell":["passed"]}`, nil,
			[]string{"Put 1001 {Endpoint: P256DH: Auth: Tell:[passed] TimeZone:}"}, "200 " + own},
		{"put nothing to tell", "1001", put, `{"tell":[]}`, nil, nil, "422 validation_failed: …"},
		{"put no list", "1001", put, `{"tell":null}`, nil, nil, "422 validation_failed: …"},
		{"put twice the same", "1001", put, `{"tell":["passed","passed"]}`, nil, nil, "422 validation_failed: …"},
		{"put what is not told", "1001", put, `{"tell":["weather"]}`, nil, nil, "422 validation_failed: …"},
		{"put half a pair of keys", "1001", put, `{"endpoint":"https://p.example/x","keys":{"auth":"aa"},"tell":["passed"]}`, nil, nil, "422 validation_failed: …"},
		{"put, an unknown error", "1001", put, body, errUnknown, []string{putX}, wantInternal},
		{"end one", "1001", end, `{"endpoint":"https://p.example/x"}`, nil, []string{"End 1001 of https://p.example/x"}, "204"},
		{"end the app's own", "1001", end, `{"endpoint":null}`, nil, []string{"End 1001 of the app"}, "204"},
		{"end all", "1001", end, "", nil, []string{"EndAll 1001"}, "204"},
		{"end no address", "1001", end, `{"endpoint":""}`, nil, nil, "422 validation_failed: …"},
		{"end, nothing named", "1001", end, `{}`, nil, nil, "422 validation_failed: …"},
		{"end, the store is away", "1001", end, "", errUnavailable, []string{"EndAll 1001"}, wantUnavailable},
	})
	none := func(r *recorder) handlers.Config { return handlers.Config{Push: telling{r, ""}} }
	runCases(t, none, []testCase{
		{"get without Web Push", "1001", get, "", nil, []string{"List 1001"}, `200 {"vapid_public_key":null,"subscriptions":[` + own + `]}`},
	})
}
