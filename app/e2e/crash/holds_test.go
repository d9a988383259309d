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

// A process is killed at each step of releasing a held total, on servers with and without a queue, and
// on a folder. Once it runs again, the released total counts.
func TestSoakHoldsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	const boards = `--boards=[{name: steps, hold_above: 60000}]`
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "holds")) {
		for _, mode := range []string{"direct", "redis"} {
			t.Run(step+" "+mode, func(t *testing.T) {
				t.Parallel()
				env := harness.Real(t)
				mode := "--ingest.mode=" + mode
				testKilledRelease(t, func(step string) *testenv.Process {
					if step == "" {
						return testenv.Serve(t, env.Config, boards, mode)
					}
					return testenv.ServeUntil(t, step, env.Config, boards, mode)
				}, step, func(scope string) string { return harness.Token(t, "1", scope) })
			})
		}
		t.Run(step+" folder", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testKilledRelease(t, func(step string) *testenv.Process {
				if step == "" {
					return testenv.ServeFolder(t, dir, boards).Process
				}
				return testenv.ServeFolderUntil(t, step, dir, boards).Process
			}, step, func(scope string) string {
				out, _, _ := testenv.Run(t, "token", "--user=1", "--scope="+scope, "--data="+dir)
				return strings.TrimSpace(out)
			})
		})
	}
}

// testKilledRelease releases a total in a process that serve kills at a step, which is empty for none.
func testKilledRelease(t *testing.T, serve func(step string) *testenv.Process, step string, token func(scope string) string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(p *testenv.Process, scope, method, path, body string) string {
		_, text, _ := harness.Request(t.Context(), client, token(scope), method, p.URL+path, body)
		return text
	}
	first := serve("")
	day := testenv.Must(models.ParseDate(harness.Today())).String()
	held := call(first, "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":70000}`, day))
	if !strings.Contains(held, `"held":true`) {
		t.Fatal(held)
	}
	first.Stop()
	p := serve(step)
	_ = call(p, "admin", "POST", "/v1/admin/holds/1/release", `{"reason":"r","score":70000}`)
	p.Killed()
	again := serve("")
	testenv.Eventually(t, "the released total counts and is written", func() bool {
		var me struct{ Score *int64 }
		if err := json.Unmarshal([]byte(call(again, "", "GET", "/v1/boards/steps/me?date="+day, "")), &me); err != nil {
			t.Fatal(err)
		}
		list := call(again, "admin", "GET", "/v1/admin/holds?state=released", "")
		return me.Score != nil && *me.Score == 70_000 && strings.Contains(list, `"pending":false`)
	})
}
