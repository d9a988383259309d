package crash_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

// A process is stopped within a transaction that counts an increment, just before the event ends. The
// event is not final before Postgres has ended the transaction, and nothing is counted afterwards.
func TestAnEventIsNotFinalWhileAnIncrementIsCounted(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	link := testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN))
	behind := env.Config
	const name = "stopped-before-an-event-is-final" // other tests have transactions in the same database
	behind.Postgres.DSN = testenv.WithAddress(behind.Postgres.DSN, link.Addr()) + "&application_name=" + name
	living, stopped := testenv.Serve(t, env.Config), testenv.Serve(t, behind, "--only", "api")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	call := func(p *testenv.Process, scope, method, path, body string) (status int, text string) {
		status, text, err := harness.Request(t.Context(), client, harness.Token(t, "1", scope), method, p.URL+path, body)
		if err != nil {
			return 0, err.Error()
		}
		return status, text
	}
	give := func(p *testenv.Process, id string) (status int, text string) {
		return call(p, auth.ScopeService, "POST", "/v1/boards/sprint/increments", harness.IncrementJSON(1, 1, id))
	}
	now := time.Now().UTC()
	end := now.Add(8 * time.Second)
	status, text := call(living, auth.ScopeAdmin, "POST", "/v1/admin/boards", fmt.Sprintf(
		`{"name":"sprint","kind":"event","max_score":1000,"start":%q,"end":%q}`, now.Add(-time.Hour).Format(time.RFC3339Nano), end.Format(time.RFC3339Nano)))
	if status != 201 {
		t.Fatal(status, text)
	}
	testenv.Eventually(t, "the other process knows the event", func() bool {
		status, _ := give(stopped, "first")
		return status == 200
	})
	link.HoldAt(0, "held", "held") // the first is in the lookup of ids, the second in the step that commits
	var lost sync.WaitGroup
	lost.Go(func() {
		if status, text := give(stopped, "held"); status == 200 {
			t.Errorf("a process that was stopped answered %d %s", status, text)
		}
	})
	testenv.Eventually(t, "the transaction is held", func() bool { return link.Holding() })
	stopped.Signal(syscall.SIGSTOP)
	sum := func() int64 {
		return sums(t, env.Stores, `SELECT '1', score FROM score_totals WHERE board = 'sprint'`)["1"]
	}
	testenv.Eventually(t, "the event is final", func() bool {
		_, text := call(living, "", "GET", "/v1/boards/sprint/top", "")
		return strings.Contains(text, `"final":true`)
	})
	if open := sums(t, env.Stores, `SELECT 'open', count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name = '`+name+`'
		AND query LIKE '%score_totals%'`)["open"]; time.Now().Before(end) || open != 0 {
		t.Errorf("final %v before the end, with %d transactions", time.Until(end), open)
	}
	final := sum()
	link.Cut()
	stopped.Signal(syscall.SIGCONT)
	testenv.Wait(t, "the lost call ends", &lost)
	if status, text := give(living, "late"); status != 422 || !strings.Contains(text, "event_not_open") {
		t.Errorf("after it was final: %d %s", status, text)
	}
	if after := sum(); final != 1 || after != final {
		t.Errorf("final with %d, then %d", final, after)
	}
}
