package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// An excluded and blocked user, who was erased, returns, and the process is killed at each step
// between creating the user and the end of moving what was kept. The exclusion and the block hold
// once another process runs.
func TestSoakReturningKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "returning")) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			testKilledReturn(t, step)
		})
	}
}

func testKilledReturn(t *testing.T, step string) {
	t.Helper()
	env := harness.Real(t)
	call := func(p *testenv.Process, user models.UserID, scope, method, path, body string, want int) string {
		t.Helper()
		return harness.Call(t, p, harness.Token(t, user, scope), method, path, body, want)
	}
	upload := fmt.Sprintf(`{"date":%q,"score":5000}`, harness.Today())
	first := testenv.Serve(t, env.Config)
	for _, user := range []models.UserID{"cheat", "ann", "ben"} {
		call(first, user, "", "PUT", "/v1/me", `{"nickname":"N"}`, http.StatusOK)
	}
	call(first, "ops", auth.ScopeAdmin, "POST", "/v1/admin/corrections",
		`{"board":"steps","user_id":"cheat","kind":"exclude","date":null,"reason":"a machine"}`, http.StatusCreated)
	call(first, "ann", "", "PUT", "/v1/blocked/cheat", "", http.StatusNoContent)
	call(first, "cheat", "", "POST", "/v1/friends/requests", `{"user_id":"ben"}`, http.StatusCreated)
	call(first, "ben", "", "DELETE", "/v1/friends/requests/cheat", "", http.StatusNoContent)
	call(first, "cheat", "", "DELETE", "/v1/me", `{"confirm":"erase"}`, http.StatusAccepted)
	first.Stop()

	p := testenv.ServeUntil(t, step, env.Config)
	_, _, _ = harness.Request(t.Context(), http.DefaultClient, harness.Token(t, "cheat", ""), "POST", p.URL+"/v1/boards/steps/scores", upload)
	p.Killed()
	var created int64
	if err := env.Gorm.Raw(`SELECT count(*) FROM erasures WHERE returned_row IS NOT NULL AND NOT moved`).Scan(&created).Error; err != nil || created != 1 {
		t.Fatalf("%d users have returned, %v", created, err)
	}

	last := testenv.Serve(t, env.Config)
	holds := func(query string) bool {
		var n int64
		err := env.Gorm.Raw(`SELECT count(*) FROM users u WHERE u.external_id = 'cheat' AND EXISTS (` + query + `)`).Scan(&n).Error
		return err == nil && n == 1
	}
	for what, query := range map[string]string{
		"the user is excluded":       `SELECT 1 FROM corrections c WHERE c.user_id = u.user_id AND c.lifted_at IS NULL`,
		"the user is blocked":        `SELECT 1 FROM privacy_choices c WHERE c.other_id = u.user_id AND c.kind = 'blocked'`,
		"the request stays declined": `SELECT 1 FROM friend_requests r WHERE r.other_id = u.user_id AND r.declined_at IS NOT NULL`,
	} {
		testenv.Eventually(t, what, func() bool { return holds(query) })
	}
	call(last, "cheat", "", "POST", "/v1/boards/steps/scores", upload, http.StatusOK)
	for _, other := range []string{"ann", "ben"} {
		call(last, "cheat", "", "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, other), http.StatusCreated)
		if text := call(last, models.UserID(other), "", "GET", "/v1/friends/requests", "", http.StatusOK); text != `{"requests":[],"next_cursor":null}` {
			t.Errorf("%s is shown %s", other, text)
		}
	}
	var top models.Ranking
	if err := json.Unmarshal([]byte(call(last, "ann", "", "GET", "/v1/boards/steps/top", "", http.StatusOK)), &top); err != nil {
		t.Fatal(err)
	}
	if len(top.Entries) != 0 {
		t.Errorf("the excluded user is shown: %+v", top.Entries)
	}

	// Two minutes later the erasure is finished, and nothing is left to move.
	last.Stop()
	env.Config.Clock.Offset = 2 * time.Minute
	testenv.Serve(t, env.Config)
	env.Config.Clock.Offset = 4 * time.Minute
	testenv.Serve(t, env.Config)
	testenv.Eventually(t, "everything is moved", func() bool {
		var moved int64
		err := env.Gorm.Raw(`SELECT count(*) FROM erasures WHERE moved AND finished_at IS NOT NULL`).Scan(&moved).Error
		return err == nil && moved == 1
	})
}
