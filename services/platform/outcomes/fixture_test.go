package outcomes_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newSecret = "whsec_c2VjcmV0IG9mIHRoaXJ0eS10d28gYnl0ZXMgISEhISE="
)

// received is a webhook that a receiver has got.
type received struct {
	id, body string
	header   http.Header
}

// receiver is a target. answer is called for each webhook after it was noted; nil means
// 204.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []received
	answer func(w http.ResponseWriter, r *http.Request)
}

func newReceiver(t testing.TB, answer func(w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Errorf("a webhook can't be read: %v", err)
		}
		r.mu.Lock()
		r.got = append(r.got, received{request.Header.Get("webhook-id"), string(body), request.Header.Clone()})
		r.mu.Unlock()
		if r.answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r.answer(w, request)
	}))
	t.Cleanup(r.Close)
	return r
}

// list returns the webhooks that were received so far.
func (r *receiver) list() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

// target returns the receiver as a target.
func (r *receiver) target(types ...models.OutcomeType) outcomes.Target {
	return outcomes.Target{URL: r.URL, Secrets: []string{secret}, Types: types, PrivateNetwork: true}
}

// pair is the payload of the outcomes of these tests.
type pair struct {
	From models.RowID `json:"from"`
	To   models.RowID `json:"to"`
}

// topics returns topics whose outcomes are pairs. render fails with what refuse returns.
func topics(refuse func(p *pair) error) (list []outcomes.Topic) {
	render := func(_ context.Context, p *pair) (any, error) {
		return map[string]models.UserID{"from": testenv.ID(p.From), "to": testenv.ID(p.To)}, refuse(p)
	}
	without := func(p *pair, user models.RowID) (named, left bool) {
		named = p.To == user
		if named {
			p.To = 0
		}
		return named || p.From == user, p.From != user
	}
	for _, outcome := range models.OutcomeTypes() {
		list = append(list, outcomes.NewTopic(outcome, render, without))
	}
	return list
}

// fixture is an outbox over a test's stores and its targets. Users are named by their rows.
type fixture struct {
	t        testing.TB
	env      *testenv.Env
	outbox   *outcomes.Outbox
	store    *outcomes.Store
	registry *prometheus.Registry
	targets  []outcomes.Target
}

func newFixture(t testing.TB, env *testenv.Env, targets ...outcomes.Target) *fixture {
	t.Helper()
	return &fixture{
		t: t, env: env, outbox: outcomes.NewOutbox(targets, env.Clock.Now), store: outcomes.NewStore(env.Gorm, topics(func(*pair) error { return nil })...),
		registry: prometheus.NewRegistry(), targets: targets,
	}
}

// deliver delivers until the test ends.
func (f *fixture) deliver() {
	f.t.Helper()
	d, err := outcomes.NewDeliverer(f.store, f.targets, nil, f.env.Clock.Now, f.env.Log, f.registry)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	f.t.Cleanup(func() {
		cancel()
		testenv.Wait(f.t, "all that runs ends", &running)
	})
}

// request writes friend.requested in a transaction, which fails with the given error.
func (f *fixture) request(from, to models.RowID, failure error) {
	f.t.Helper()
	err := f.env.Gorm.Transaction(func(db *gorm.DB) error {
		if err := f.outbox.Add(db, models.OutcomeFriendRequested, pair{from, to}); err != nil {
			return err
		}
		return failure
	})
	if err != failure { //nolint:errorlint // the very same
		f.t.Fatal(err)
	}
}

// deliveries returns all deliveries, newest first.
func (f *fixture) deliveries() []outcomes.Delivery {
	f.t.Helper()
	list, err := f.store.List(f.t.Context(), outcomes.Query{Limit: 1000})
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

// waitFor waits until all deliveries have the state.
func (f *fixture) waitFor(state models.DeliveryState) {
	f.t.Helper()
	testenv.Eventually(f.t, "all deliveries are "+string(state), func() bool {
		for _, d := range f.deliveries() {
			if d.State != state {
				return false
			}
		}
		return true
	})
}

// verify checks a webhook's signature with the public library.
func verify(t testing.TB, key string, r received) {
	t.Helper()
	wh := testenv.Must(standardwebhooks.NewWebhook(key))
	if err := wh.Verify([]byte(r.body), r.header); err != nil {
		t.Errorf("%s is not signed with %s: %v", r.id, key, err)
	}
}
