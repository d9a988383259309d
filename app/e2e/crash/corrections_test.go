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
	"stepboard/services/auth"
)

// A process is killed at each step of making, lifting and archiving a correction. Another
// one then shows the score as the list of corrections says, in Redis and in the archive.
func TestSoakCorrectionsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range testenv.Failpoints(t, "corrections") {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			testKilledCorrection(t, step)
		})
	}
}

func testKilledCorrection(t *testing.T, step string) {
	t.Helper()
	env := harness.Real(t)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(p *testenv.Process, scope, method, path, body string) (int, string, error) {
		return harness.Request(t.Context(), client, harness.Token(t, "1", scope), method, p.URL+path, body)
	}
	must := func(p *testenv.Process, scope, method, path, body string) string {
		t.Helper()
		status, text, err := call(p, scope, method, path, body)
		if err != nil || status >= 300 {
			t.Fatalf("%s %s: %d %s, %v", method, path, status, text, err)
		}
		return text
	}
	const corrections = "/v1/admin/corrections"
	day := testenv.Must(models.ParseDate(harness.Today()))
	exclude := fmt.Sprintf(`{"board":"steps","date":%q,"user_id":"1","kind":"exclude","reason":"r"}`, day)
	first := testenv.Serve(t, env.Config)
	must(first, "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":5000}`, day))
	later := env.Config
	later.Clock.Offset = 6 * 24 * time.Hour // the day is archived at the start
	if step == "corrections.lifted" || step == "corrections.archived" {
		must(first, auth.ScopeAdmin, "POST", corrections, exclude)
	}
	first.Stop()
	switch step {
	case "corrections.archived":
		testenv.ServeUntil(t, step, later).Killed()
	case "corrections.lifted":
		p := testenv.ServeUntil(t, step, env.Config)
		_, _, _ = call(p, auth.ScopeAdmin, "POST", corrections+"/1/lift", `{"reason":"r"}`)
		p.Killed()
	default:
		p := testenv.ServeUntil(t, step, env.Config)
		_, _, _ = call(p, auth.ScopeAdmin, "POST", corrections, exclude)
		p.Killed()
	}
	check := func(p *testenv.Process, source string) {
		t.Helper()
		var list struct{ Corrections []struct{ ID string } }
		if err := json.Unmarshal([]byte(must(p, auth.ScopeAdmin, "GET", corrections+"?active=true", "")), &list); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("the day is read from %s with %d corrections applied", source, len(list.Corrections))
		testenv.Eventually(t, what, func() bool {
			text := must(p, "", "GET", "/v1/boards/steps/top?date="+day.String(), "")
			var r struct {
				Source  string
				Entries []struct{ Score int }
			}
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			return r.Source == source && len(r.Entries) == 1-len(list.Corrections)
		})
	}
	if step != "corrections.archived" {
		hot := testenv.Serve(t, env.Config)
		check(hot, "hot")
		hot.Stop()
	}
	cold := testenv.Serve(t, later)
	check(cold, "archive")
}
