package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"stepboard/handlers"
	"stepboard/models"
)

// erasures records the calls of the service.
type erasures struct{ *recorder }

func (e erasures) Begin(_ context.Context, user models.UserID, dryRun bool) (models.Erasure, error) {
	return models.Erasure{ID: 7}, e.record("Begin", user, dryRun)
}

func (e erasures) BeginBranch(_ context.Context, user models.UserID, dryRun bool) (models.BranchErasure, error) {
	if dryRun {
		return models.BranchErasure{Left: 232}, e.record("BeginBranch", user, dryRun)
	}
	return models.BranchErasure{Done: 100, Left: 132}, e.record("BeginBranch", user, dryRun)
}

func (e erasures) List(_ context.Context, before int64, limit int) ([]models.Erasure, error) {
	at := noon
	user := models.UserID("a|b")
	page := []models.Erasure{
		{ID: 3, User: &user, BegunAt: at},
		{ID: 2, BegunAt: at, SweptAt: &at, Sweeps: 2, Removed: 1, FinishedAt: &at},
		{ID: 1, User: &user, BegunAt: at},
	}
	for len(page) > 0 && before != 0 && page[0].ID >= before {
		page = page[1:]
	}
	return page[:min(limit, len(page))], e.record("List", before, limit)
}

func (e erasures) Export(_ context.Context, user models.UserID, own bool) (func(context.Context, io.Writer) error, error) {
	return func(_ context.Context, w io.Writer) error {
		switch user {
		case "broken":
			return errUnavailable
		case "cut":
			_, err := io.WriteString(w, strings.Repeat(" ", 1<<20))
			return errors.Join(err, errUnavailable)
		}
		_, err := fmt.Fprintf(w, `{"user_id":%q}`, user)
		return err
	}, e.record("Export", user, own)
}

func TestErasures(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Erasures: erasures{r}} }
	const (
		own      = "DELETE /v1/me"
		backend  = "DELETE /v1/users/a%7Cb"
		operator = "DELETE /v1/admin/users/a%7Cb"
		list     = "GET /v1/admin/erasures"
		reason   = `{"reason":"asked"}`

		withInvited = `{"reason":"asked","with_invited":true}`
		confirm     = `{"confirm":"erase"}`
	)
	began := []string{"Begin a|b false"}
	listed := []string{"List 0 51"}
	states := `{"id":"3","user_id":"a|b","begun_at":"2026-11-20T04:00:00.000Z","sweeps":0,"swept_at":null,"removed":0,"finished_at":null},` +
		`{"id":"2","user_id":null,"begun_at":"2026-11-20T04:00:00.000Z","sweeps":2,"swept_at":"2026-11-20T04:00:00.000Z","removed":1,` +
		`"finished_at":"2026-11-20T04:00:00.000Z"},` +
		`{"id":"1","user_id":"a|b","begun_at":"2026-11-20T04:00:00.000Z","sweeps":0,"swept_at":null,"removed":0,"finished_at":null}`
	runCases(t, config, []testCase{
		{"oneself", "1001", own, confirm, nil, []string{"Begin 1001 false"}, `202 {"erasure_id":"7"}`},
		{"oneself, by a service", "service", own + "?user_id=a%7Cb", confirm, nil, began, `202 {"erasure_id":"7"}`},
		{"another user", "1001", own + "?user_id=a%7Cb", confirm, nil, nil, "403 forbidden: a user acts only for oneself"},
		{"without a body", "1001", own, "", nil, nil, "…"},
		{"without the word", "1001", own, `{"confirm":"yes"}`, nil, nil, "422 validation_failed: body.confirm: …"},
		{"nobody", "1001", own, confirm, models.Errorf(models.CodeUserNotFound, "none"), []string{"Begin 1001 false"}, "404 user_not_found: none"},
		{"a user, by a service", "service", backend, "", nil, began, `202 {"erasure_id":"7"}`},
		{"a user, the store is away", "service", backend, "", errUnavailable, began, wantUnavailable},
		{"a user, by a user", "1001", backend, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"by an operator", "admin", operator, reason, nil, began, `202 {"erasure_id":"7","done":1,"left":0}`},
		{"by an operator, tried", "admin", operator + "?dry_run=true", reason, nil, []string{"Begin a|b true"}, `200 {"erasure_id":null,"done":0,"left":1}`},
		{"by an operator, the store is away", "admin", operator, reason, errUnavailable, began, wantUnavailable},
		{"by an operator, tried while the store is away", "admin", operator + "?dry_run=true", reason, errUnavailable, []string{"Begin a|b true"}, wantUnavailable},
		{"with the invited", "admin", operator, withInvited, nil, []string{"BeginBranch a|b false"}, `202 {"erasure_id":null,"done":100,"left":132}`},
		{"with the invited, tried", "admin", operator + "?dry_run=true", withInvited, nil, []string{"BeginBranch a|b true"}, `200 {"erasure_id":null,"done":0,"left":232}`},
		{"with the invited, the last operator", "admin", operator, withInvited, models.Errorf(models.CodeLastOperator, "last"),
			[]string{"BeginBranch a|b false"}, "409 last_operator: last"},
		{"by an operator without a reason", "admin", operator, `{}`, nil, nil, "422 validation_failed: body: …"},
		{"export", "1001", "GET /v1/me/export", "", nil, []string{"Export 1001 true"}, `200 {"user_id":"1001"}`},
		{"export nobody", "1001", "GET /v1/me/export", "", models.Errorf(models.CodeUserNotFound, "none"), []string{"Export 1001 true"}, "404 user_not_found: none"},
		{"export, the store fails meanwhile", "broken", "GET /v1/me/export", "", nil, []string{"Export broken true"}, wantUnavailable},
		{"export a user", "admin", "GET /v1/admin/users/a%7Cb/export", "", nil, []string{"Export a|b false"}, `200 {"user_id":"a|b"}`},
		{"export a user, by a service", "service", "GET /v1/admin/users/a%7Cb/export", "", nil, nil, "403 forbidden: this token may not make this call"},
		{"list", "admin", list, "", nil, listed, `200 {"erasures":[` + states + `],"next_cursor":null}`},
		{"list with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
	})
	checkPages(t, config, "admin", "GET /v1/admin/erasures?limit=1", []string{"List 0 2", "List 3 2", "List 2 2"})
}

// An export that fails when a part of it is sent breaks the connection, so that it does not look
// whole.
func TestExportCutOff(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	server := httptest.NewServer(newAPI(t, handlers.Config{Erasures: erasures{&recorder{}}, Registry: registry}))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/me/export?user_id=cut", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer service")
	r.Header.Set("Accept-Encoding", "identity") // so that a part of it is sent before it fails
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK || len(body) == 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d, %d bytes, %v, want a connection that breaks", res.StatusCode, len(body), err)
	}
	server.Close() // waits for the call
	if n := testutil.CollectAndCount(registry, "stepboard_http_request_duration_seconds"); n != 1 {
		t.Errorf("%d calls are counted", n)
	}
}
