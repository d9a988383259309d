package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// correctedBoard says how a score of user 1 gets onto a board and is excluded from it.
type correctedBoard struct {
	name string
	// path and report are the call that reports the score, by a token of the scope.
	scope, path, report string
	// query and field have the date of rankings and corrections; empty without days.
	query, field string
}

// A process is killed at each step of making, lifting and archiving a correction, on a board
// of days and in an event. Another one then shows the score as the list of corrections says,
// in Redis and in the archive.
func TestSoakCorrectionsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	day := testenv.Must(models.ParseDate(harness.Today())).String()
	boards := []correctedBoard{
		{"steps", "", "scores", fmt.Sprintf(`{"date":%q,"score":5000}`, day), "?date=" + day, fmt.Sprintf(`"date":%q,`, day)},
		{"gifts", auth.ScopeService, "increments", `{"user_id":"1","delta":5000,"event_id":"a"}`, "", ""},
	}
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "corrections")) {
		for _, b := range boards {
			t.Run(step+" on "+b.name, func(t *testing.T) {
				t.Parallel()
				testKilledCorrection(t, step, b)
			})
		}
	}
}

func testKilledCorrection(t *testing.T, step string, b correctedBoard) {
	t.Helper()
	env := harness.Real(t)
	start := time.Now().Add(-time.Hour).UTC()
	boards := fmt.Sprintf(`--boards=[{`+harness.Steps+`}, {name: gifts, kind: event, max_score: 100000, start: %q, end: %q}]`,
		start.Format(time.RFC3339), start.Add(2*time.Hour).Format(time.RFC3339))
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
	exclude := fmt.Sprintf(`{"board":%q,%s"user_id":"1","kind":"exclude","reason":"r"}`, b.name, b.field)
	first := testenv.Serve(t, env.Config, boards)
	must(first, b.scope, "POST", "/v1/boards/"+b.name+"/"+b.path, b.report)
	later := env.Config
	later.Clock.Offset = 6 * 24 * time.Hour // the day and the event are archived at the start
	if step == "corrections.lifted" || step == "corrections.archived" {
		must(first, auth.ScopeAdmin, "POST", corrections, exclude)
	}
	first.Stop()
	switch step {
	case "corrections.archived":
		testenv.ServeUntil(t, step, later, boards).Killed()
	case "corrections.lifted":
		p := testenv.ServeUntil(t, step, env.Config, boards)
		_, _, _ = call(p, auth.ScopeAdmin, "POST", corrections+"/1/lift", `{"reason":"r"}`)
		p.Killed()
	default:
		p := testenv.ServeUntil(t, step, env.Config, boards)
		_, _, _ = call(p, auth.ScopeAdmin, "POST", corrections, exclude)
		p.Killed()
	}
	check := func(p *testenv.Process, source string) {
		t.Helper()
		var list struct{ Corrections []struct{ ID string } }
		if err := json.Unmarshal([]byte(must(p, auth.ScopeAdmin, "GET", corrections+"?active=true", "")), &list); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("the board is read from %s with %d corrections applied", source, len(list.Corrections))
		testenv.Eventually(t, what, func() bool {
			text := must(p, "", "GET", "/v1/boards/"+b.name+"/top"+b.query, "")
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
		hot := testenv.Serve(t, env.Config, boards)
		check(hot, "hot")
		hot.Stop()
	}
	cold := testenv.Serve(t, later, boards)
	if b.field == "" { // a start archives only events that are final already
		testenv.Eventually(t, "the event is final", func() bool {
			return strings.Contains(must(cold, "", "GET", "/v1/boards/"+b.name+"/top", ""), `"final":true`)
		})
		cold.Stop()
		cold = testenv.Serve(t, later, boards)
	}
	check(cold, "archive")
}
