package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// backend is an app's backend that receives webhooks.
type backend struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

// newBackend starts a backend, which checks the signature of each webhook.
func newBackend(t testing.TB) *backend {
	t.Helper()
	b := &backend{}
	verifier := testenv.Must(standardwebhooks.NewWebhook(webhookSecret))
	b.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil {
			t.Errorf("webhook %s: %v", body, err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.bodies = append(b.bodies, string(body))
	}))
	t.Cleanup(b.Close)
	return b
}

// use is a change of the settings that makes the backend a target.
func (b *backend) use(c *config.Config) {
	c.Webhooks = []config.Webhook{{URL: b.URL, Secrets: []string{webhookSecret}, PrivateNetwork: true}}
}

// received waits until n webhooks of a type have arrived, and returns their data.
func (b *backend) received(t testing.TB, kind models.OutcomeType, n int) []string {
	t.Helper()
	var list []string
	testenv.Eventually(t, fmt.Sprintf("%d of %s have arrived", n, kind), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		list = nil
		for _, body := range b.bodies {
			var m struct {
				Type models.OutcomeType
				Data json.RawMessage
			}
			if err := json.Unmarshal([]byte(body), &m); err != nil {
				t.Fatal(err)
			}
			if m.Type == kind {
				list = append(list, string(m.Data))
			}
		}
		return len(list) >= n
	})
	return list
}

// webhooksPage is a page of deliveries.
type webhooksPage struct {
	Deliveries []struct {
		ID            string           `json:"id"`
		WebhookID     string           `json:"webhook_id"`
		Target        string           `json:"target"`
		Event         string           `json:"event"`
		State         string           `json:"state"`
		Attempts      int              `json:"attempts"`
		CreatedAt     models.Timestamp `json:"created_at"`
		NextAttemptAt any              `json:"next_attempt_at"`
		FinishedAt    any              `json:"finished_at"`
		LastAttempts  []any            `json:"last_attempts"`
	} `json:"deliveries"`
	Next *string `json:"next_cursor"`
}

// Operators list deliveries and send one again on the command line.
func TestDeliveriesForOperators(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	backend := newBackend(t)
	s := newServer(t, env, backend.use)
	s.want(s.service("PUT", "/v1/users/ann", `{"nickname":"Ann"}`), 200, nil)
	for n := range 3 {
		s.want(s.as(models.UserID(fmt.Sprintf("user%d", n)), "POST", "/v1/friends/requests", `{"user_id":"ann"}`), 201, nil)
	}
	const list = "/v1/admin/webhooks/deliveries"
	testenv.Eventually(t, "all are delivered", func() bool {
		var page webhooksPage
		s.want(s.admin("GET", list+"?state=delivered&event=friend.requested&target="+backend.URL, nil), 200, &page)
		return len(page.Deliveries) == 3
	})
	var page webhooksPage
	s.want(s.admin("GET", list+"?limit=1", nil), 200, &page)
	id := page.Deliveries[0].ID
	cfg := env.Config
	if out := mustRun(t, append([]string{"webhooks", "list", "--state", "delivered"}, testenv.Flags(cfg)...)...); strings.Count(out, "friend.requested\tdelivered\t"+backend.URL) < 2 {
		t.Errorf("webhooks list: %s", out)
	}
	mustRun(t, append([]string{"webhooks", "replay", id, "--dry-run"}, testenv.Flags(cfg)...)...)
	env.Clock.Set(time.Now().Add(time.Hour)) // not behind the command's
	if out := mustRun(t, append([]string{"webhooks", "replay", id}, testenv.Flags(cfg)...)...); !strings.HasPrefix(out, id+"\t") {
		t.Errorf("webhooks replay: %s", out)
	}
	var replays struct {
		Entries []struct{ Actor, Target string }
	}
	s.read(s.admin("GET", "/v1/admin/audit?action=webhooks+replay", nil), 200, &replays)
	if len(replays.Entries) != 1 || replays.Entries[0].Target != id || replays.Entries[0].Actor == "" {
		t.Errorf("the audit log has %+v of the command", replays)
	}
	if got := backend.received(t, models.OutcomeFriendRequested, 4); len(got) != 4 {
		t.Errorf("received %v", got)
	}
	for _, args := range [][]string{{"list", "--state", "lost"}, {"list", "--event", "lost"}, {"replay", "x"}, {"replay", "99999"}} {
		args = append(append([]string{"webhooks"}, args...), testenv.Flags(cfg)...)
		if _, stderr, status := testenv.Run(t, args...); status != 1 || stderr == "" {
			t.Errorf("%v: status %d, %s", args[:3], status, stderr)
		}
	}
}
