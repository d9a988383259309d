package crash_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A process is killed at each step of computing a competition, of making it final and of erasing somebody
// in it, on servers and on a folder. Once it runs again there is one final standing, which was told once,
// and the erased person has no name in it.
func TestSoakCompetitionsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "competitions")) {
		t.Run(step+" servers", func(t *testing.T) {
			t.Parallel()
			env := harness.Real(t)
			testKilledCompetition(t, step, func(step string, flags ...string) *testenv.Process {
				if step == "" {
					return testenv.Serve(t, env.Config, flags...)
				}
				return testenv.ServeUntil(t, step, env.Config, flags...)
			})
		})
		t.Run(step+" folder", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testKilledCompetition(t, step, func(step string, flags ...string) *testenv.Process {
				flags = append(flags, "--auth.hs256_secret="+harness.Secret)
				if step == "" {
					return testenv.ServeFolder(t, dir, flags...).Process
				}
				return testenv.ServeFolderUntil(t, step, dir, flags...).Process
			})
		})
	}
}

// testKilledCompetition has a competition of a day in processes that serve starts, of which one is killed
// at a step.
func testKilledCompetition(t *testing.T, step string, serve func(step string, flags ...string) *testenv.Process) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(p *testenv.Process, user, scope, method, path, body string) (status int, text string) {
		status, text, _ = harness.Request(t.Context(), client, harness.Token(t, models.UserID(user), scope), method, p.URL+path, body)
		return status, text
	}
	day := testenv.Must(models.ParseDate(harness.Today())).String()
	boards, webhooks := `--boards=[{`+harness.Steps+`}]`, `--webhooks=[{url: "http://127.0.0.1:9/", secrets: [`+webhookSecret+`], private_network: true}]`
	const later = "--clock.offset=144h" // the day is archived at the start
	first := serve("", boards)
	for i, user := range []string{"ann", "bob", "cat", "dan"} {
		call(first, user, "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, day, 1000*(i+1)))
	}
	call(first, "ops", "service", "PUT", "/v1/groups/red/members", `{"member_ids":["ann","bob"],"name":"Red"}`)
	call(first, "ops", "service", "PUT", "/v1/groups/blue/members", `{"member_ids":["cat","dan"],"name":"Blue"}`)
	definition := fmt.Sprintf(`{"board":"steps","name":"Day","from":%q,"to":%q,"groups":["red","blue"]}`, day, day)
	if status, text := call(first, "ops", "service", "PUT", "/v1/competitions/day", definition); status != http.StatusOK {
		t.Fatal(status, text)
	}
	first.Stop()

	p := serve(step, boards, webhooks, later)
	_, _ = call(p, "dan", "", "DELETE", "/v1/me", `{"confirm":"erase"}`)
	p.Killed()

	again := serve("", boards, webhooks, later)
	var found struct {
		State    string
		Revision int
	}
	testenv.Eventually(t, "the competition is final", func() bool {
		_, text := call(again, "ops", "service", "GET", "/v1/competitions/day", "")
		return json.Unmarshal([]byte(text), &found) == nil && found.State == "final"
	})
	if found.Revision != 1 {
		t.Errorf("revision %d", found.Revision)
	}
	erase := func() {
		status, _ := call(again, "dan", "", "DELETE", "/v1/me", `{"confirm":"erase"}`)
		if status >= http.StatusInternalServerError {
			t.Errorf("erasing again: %d", status)
		}
	}
	erase()
	testenv.Eventually(t, "nobody has the name", func() bool {
		_, text := call(again, "ops", "service", "GET", "/v1/competitions/day/people", "")
		return !strings.Contains(text, `"dan"`)
	})
	_, teams := call(again, "ops", "service", "GET", "/v1/competitions/day/teams", "")
	// Whether the person was erased before the standing became final decides about the sum.
	if !strings.Contains(teams, `"score":3500,"members":2`) && !strings.Contains(teams, `"score":3000,"members":1`) || !strings.Contains(teams, `"score":1500,"members":2`) {
		t.Error(teams)
	}
	_, told := call(again, "ops", "admin", "GET", "/v1/admin/webhooks/deliveries?state=waiting&event=competition.final", "")
	if n := strings.Count(told, `"competition.final"`); n != 1 {
		t.Errorf("told %d times: %s", n, told)
	}
}
