package typescript

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/platform/outcomes"
)

// The public JavaScript library accepts a webhook that is signed with two secrets, with
// either of them, and refuses one that was changed.
func TestSignatureInJavaScript(t *testing.T) {
	t.Parallel()
	const oldSecret, newSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMgISEhISE="
	type webhook struct {
		body    string
		headers map[string]string
	}
	received := make(chan webhook, 1)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		headers := make(map[string]string)
		for name := range r.Header {
			headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		received <- webhook{string(body), headers}
	}))
	t.Cleanup(target.Close)

	env := testenv.Local(t)
	targets := []outcomes.Target{{URL: target.URL, Secrets: []string{newSecret, oldSecret}, PrivateNetwork: true}}
	d := testenv.Must(outcomes.NewDeliverer(
		outcomes.NewStore(env.Gorm, friends.Topics(testenv.Numbers{}, nil)...), targets, nil, env.Clock.Now, env.Log, prometheus.NewRegistry(),
	))
	outbox := outcomes.NewOutbox(targets, env.Clock.Now)
	if err := outbox.Add(env.Gorm, models.OutcomeFriendAccepted, friends.Pair{From: 1, To: 2}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	got := <-received
	cancel()
	running.Wait()

	verify := func(secret, body string) (string, error) {
		input := testenv.Must(json.Marshal(map[string]any{"secret": secret, "body": body, "headers": got.headers}))
		cmd := exec.CommandContext(t.Context(), "node", "test/webhook.mjs")
		cmd.Stdin = bytes.NewReader(input)
		output, err := cmd.Output()
		return strings.TrimSpace(string(output)), err
	}
	for _, secret := range []string{oldSecret, newSecret} {
		if kind, err := verify(secret, got.body); err != nil || kind != "friend.accepted" {
			t.Errorf("verified with %s: %q, %v", secret, kind, err)
		}
	}
	if _, err := verify(newSecret, strings.Replace(got.body, `"1"`, `"3"`, 1)); err == nil {
		t.Error("a changed webhook is accepted")
	}
}
