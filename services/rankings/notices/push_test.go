package notices_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/internal/testenv/browsers"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
	"stepboard/services/rankings/notices"
)

// news is the payload of the outcomes of these tests: About has done something that all of To are
// told of.
type news struct {
	About models.RowID   `json:"about"`
	To    []models.RowID `json:"to"`
}

func (n news) Receivers() iter.Seq2[models.RowID, any] {
	return func(yield func(models.RowID, any) bool) {
		for _, user := range n.To {
			if !yield(user, news{n.About, []models.RowID{user}}) {
				return
			}
		}
	}
}

// pushing is a service that sends notices to the browsers of a push service, when the test says so.
type pushing struct {
	*notices.Service

	t         testing.TB
	env       *testenv.Env
	deliverer *outcomes.Deliverer
	outbox    *outcomes.Outbox
	store     *outcomes.Store
	registry  *prometheus.Registry
	key       string
	// hidden is the user who hides.
	hidden models.RowID
}

func newPushing(t testing.TB, env *testenv.Env, private bool) *pushing {
	t.Helper()
	testenv.NumberUsers(t, env, 9)
	p := &pushing{t: t, env: env, outbox: outcomes.NewOutbox(nil, env.Clock.Now).WithPush(), registry: prometheus.NewRegistry()}
	store := notices.NewStore(env.Gorm)
	key := testenv.Must(store.Key(t.Context()))
	p.Service = notices.New(notices.Options{
		Store: store, Directory: testenv.Numbers{DB: env.Gorm}, Key: key, PrivateNetwork: true, Clock: env.Clock.Now,
	})
	p.key = p.PublicKey()
	p.store = outcomes.NewStore(env.Gorm, p.topic(models.OutcomeLikeGiven), p.topic(models.OutcomeDigestReady), p.topic(models.OutcomeFriendAccepted))
	p.deliverer = testenv.Must(outcomes.NewDeliverer(p.store, nil, &outcomes.Push{
		Subject: "mailto:ops@example.com", Key: key, PrivateNetwork: private, Subscriptions: store,
	}, env.Clock.Now, env.Log, p.registry))
	return p
}

// topic returns a topic whose outcomes are news. About who hides, nobody is told.
func (p *pushing) topic(outcome models.OutcomeType) outcomes.Topic {
	without := func(n *news, user models.RowID) (named, left bool) { return n.About == user || n.To[0] == user, false }
	topic := outcomes.NewTopic(outcome, func(context.Context, *news) (any, error) { return nil, nil }, without) //nolint:nilnil // it is not sent
	return outcomes.WithNotices(topic, func(_ context.Context, n news) (outcomes.Notice, error) {
		if n.About == p.hidden {
			return outcomes.Notice{}, outcomes.ErrHidden
		}
		return outcomes.Notice{People: []outcomes.Person{{UserID: testenv.ID(n.About), Nickname: "N"}}, URL: "#/"}, nil
	})
}

// subscribe lets a user be told in a browser.
func (p *pushing) subscribe(user models.RowID, b *browsers.Browser, tell ...models.Tell) {
	p.t.Helper()
	choice := notices.Choice{Endpoint: b.Endpoint, P256DH: b.P256DH, Auth: b.Auth, Tell: tell}
	testenv.Must(p.Put(p.t.Context(), testenv.ID(user), choice))
}

// happens writes an outcome about a user.
func (p *pushing) happens(outcome models.OutcomeType, about models.RowID, to ...models.RowID) {
	p.t.Helper()
	err := p.env.Gorm.Transaction(func(tx *gorm.DB) error { return p.outbox.Add(tx, outcome, news{about, to}) })
	if err != nil {
		p.t.Fatal(err)
	}
}

// round sends what is due.
func (p *pushing) round() {
	p.t.Helper()
	if err := p.deliverer.Round(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// deliveries returns all deliveries, newest first.
func (p *pushing) deliveries() []outcomes.Delivery {
	p.t.Helper()
	return testenv.Must(p.store.List(p.t.Context(), outcomes.Query{Limit: 100}))
}

// states returns the states of all deliveries, newest first.
func (p *pushing) states() (states string) {
	p.t.Helper()
	for _, d := range p.deliveries() {
		states += string(d.State) + " "
	}
	return strings.TrimSpace(states)
}

// texts returns what has arrived at a browser.
func texts(b *browsers.Browser) (list []string) {
	for _, push := range b.Got() {
		list = append(list, push.Text)
	}
	return list
}

const (
	about3 = `{"type":"like.given","board":"","date":"","people":[{"user_id":"3","nickname":"N"}],"rank":0,"total":0,"score":0,"url":"#/"}`
	about4 = `{"type":"digest.ready","board":"","date":"","people":[{"user_id":"4","nickname":"N"}],"rank":0,"total":0,"score":0,"url":"#/"}`
)

// Each browser gets what its user wants there, encrypted, and known by the service's key. Whoever
// wants nothing of it costs no delivery.
func TestNotices(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := browsers.New(t, nil)
		phone, laptop, other := service.Browser("phone"), service.Browser("laptop"), service.Browser("other")
		p := newPushing(t, env, true)
		p.happens(models.OutcomeLikeGiven, 3, 1) // before anybody wants to hear of it
		p.subscribe(1, phone, models.TellLikes, models.TellDigest)
		p.subscribe(1, laptop, models.TellDigest)
		p.subscribe(2, other, models.TellDigest)
		testenv.Must(p.Put(t.Context(), "1", notices.Choice{Tell: []models.Tell{models.TellPassed}}))
		p.happens(models.OutcomeLikeGiven, 3, 1)
		p.happens(models.OutcomeLikeGiven, 3, 2)
		p.happens(models.OutcomeFriendAccepted, 3, 1)
		p.happens(models.OutcomeDigestReady, 4, 1, 2, 5)
		if n := len(p.deliveries()); n != 4 {
			t.Errorf("%d deliveries", n)
		}
		p.round()
		for b, wanted := range map[*browsers.Browser][]string{phone: {about4, about3}, laptop: {about4}, other: {about4}} {
			got := texts(b)
			if len(got) == 2 && got[0] == about3 { // each type has a worker of its own
				got[0], got[1] = got[1], got[0]
			}
			want(t, b.Endpoint, got, wanted)
		}
		for _, push := range append(laptop.Got(), other.Got()...) {
			if push.TTL != "10800" || push.Subject != "mailto:ops@example.com" || push.Key != p.key {
				t.Errorf("%+v", push)
			}
		}
		if states := p.states(); states != "delivered delivered delivered delivered" {
			t.Errorf("deliveries are %s", states)
		}
		for _, d := range p.deliveries() {
			if d.Target != "push" || len(d.Last) != 1 || d.Last[0].Status != http.StatusCreated || d.Last[0].Error != "" {
				t.Errorf("%+v", d)
			}
		}
		env.Clock.Advance(24*time.Hour + time.Second)
		if n := testenv.Must(p.deliverer.Purge(t.Context())); n != 4 {
			t.Errorf("%d were purged", n)
		}
	})
}

// What a push service answers decides what follows: a browser that is gone is told no more, and
// everything else is tried again until it is no news any more. No address is recorded.
func TestAnswers(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		var status atomic.Int64
		service := browsers.New(t, func(string) int { return int(status.Load()) })
		p := newPushing(t, env, true)
		for _, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusFound, http.StatusForbidden} {
			status.Store(int64(code))
			b := service.Browser("again")
			p.subscribe(1, b, models.TellLikes)
			p.happens(models.OutcomeLikeGiven, 3, 1)
			p.round()
			d := p.deliveries()[0]
			if d.State != models.DeliveryWaiting || len(d.Last) != 1 || d.Last[0].Status != code || d.NextAttemptAt.Sub(env.Clock.Now()) != time.Second {
				t.Errorf("%d: %+v", code, d)
			}
			status.Store(http.StatusCreated)
			env.Clock.Advance(time.Second)
			p.round()
			want(t, "the second time", texts(b), []string{about3})
		}
		for _, code := range []int{http.StatusNotFound, http.StatusGone} {
			status.Store(int64(code))
			p.subscribe(1, service.Browser("gone"), models.TellLikes)
			p.subscribe(2, service.Browser("stays"), models.TellRequests)
			p.happens(models.OutcomeLikeGiven, 3, 1)
			p.happens(models.OutcomeLikeGiven, 3, 1)
			p.round()
			if states := p.states(); !strings.HasPrefix(states, "dropped dropped ") {
				t.Errorf("%d: %s", code, states)
			}
			want(t, "subscriptions after an end", shown(t, p.Service, "1"), nil)
			if n := len(shown(t, p.Service, "2")); n != 1 {
				t.Errorf("another user has %d", n)
			}
		}

		status.Store(http.StatusInternalServerError)
		late := service.Browser("late")
		p.subscribe(1, late, models.TellLikes, models.TellDigest)
		p.happens(models.OutcomeDigestReady, 4, 1)
		p.round()
		status.Store(http.StatusCreated)
		env.Clock.Advance(3 * time.Hour)
		p.round()
		if d := p.deliveries()[0]; d.State != models.DeliveryFailed || len(late.Got()) != 0 {
			t.Errorf("three hours later: %+v, %v", d, late.Got())
		}
		if _, err := p.store.Replay(t.Context(), p.deliveries()[0].ID, false); err != nil {
			t.Fatal(err)
		}
		p.round()
		want(t, "replayed", texts(late), []string{about4})
		for _, d := range p.deliveries() {
			text := string(testenv.Must(json.Marshal(d)))
			if strings.Contains(text, service.URL) || strings.Contains(text, "127.0.0.1") || strings.Contains(text, late.Auth) {
				t.Errorf("a delivery has the address: %s", text)
			}
		}
		counted := map[string]float64{}
		for _, result := range []string{"delivered", "status", "ended", "dropped"} {
			counted[result] = counter(t, p.registry, result)
		}
		// Two of one browser that are sent together may both find that it is gone.
		if c := counted; c["delivered"] != 5 || c["status"] != 5 || c["ended"] < 3 || c["ended"]+c["dropped"] != 7 {
			t.Errorf("attempts: %v", c)
		}
	})
}

// A push service that refuses this service for ever, as after the key was replaced, is given up after a day. A success
// between begins it anew, and load is no refusal.
func TestAPushServiceThatRefusesForEver(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		var status atomic.Int64
		p := newPushing(t, env, true)
		p.subscribe(1, browsers.New(t, func(string) int { return int(status.Load()) }).Browser("a"), models.TellLikes)
		hours := func(n, code int) (left int) {
			status.Store(int64(code))
			for range n {
				p.happens(models.OutcomeLikeGiven, 3, 1)
				p.happens(models.OutcomeLikeGiven, 2, 1)
				p.round()
				env.Clock.Advance(time.Hour)
			}
			return len(shown(t, p.Service, "1"))
		}
		for _, tt := range []struct{ hours, code, left int }{
			{30, http.StatusServiceUnavailable, 1}, {30, http.StatusTooManyRequests, 1}, {23, http.StatusBadRequest, 1},
			{1, http.StatusCreated, 1}, {23, http.StatusForbidden, 1}, {1, http.StatusBadRequest, 0},
		} {
			if left := hours(tt.hours, tt.code); left != tt.left {
				t.Fatalf("after %+v there are %d subscriptions", tt, left)
			}
		}
	})
}

// counter returns how many attempts had a result.
func counter(t testing.TB, registry *prometheus.Registry, result string) float64 {
	t.Helper()
	for _, family := range testenv.Must(registry.Gather()) {
		for _, m := range family.GetMetric() {
			if family.GetName() == "stepboard_webhooks_attempts_total" && m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// An address that leads into the private network is not called, and a service that is away is said
// to be away without its name.
func TestAddressesAreNotCalled(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	service := browsers.New(t, nil)
	b := service.Browser("private")
	p := newPushing(t, env, false)
	p.subscribe(1, b, models.TellLikes)
	away := &browsers.Browser{Endpoint: "http://push.invalid/secret", P256DH: b.P256DH, Auth: b.Auth}
	p.subscribe(2, away, models.TellLikes)
	p.happens(models.OutcomeLikeGiven, 3, 1)
	p.happens(models.OutcomeLikeGiven, 3, 2)
	p.round()
	if len(b.Got()) != 0 || p.states() != "waiting waiting" {
		t.Errorf("%v, %s", b.Got(), p.states())
	}
	for i, text := range []string{"the push service's name is not found", "it is not a public address: set private_network to permit it"} {
		if got := p.deliveries()[i].Last[0].Error; got != text && got != "no connection to the push service" && got != "context deadline exceeded" {
			t.Errorf("attempt %d: %s", i, got)
		}
	}
}

// Between cause and sending, a person may hide, a user may be erased or sign out, and another user may
// sign in with the same browser: nothing arrives that is not for who is there then.
func TestWhatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		service := browsers.New(t, nil)
		p := newPushing(t, env, true)
		family, gone, signedOut, stays := service.Browser("family"), service.Browser("gone"), service.Browser("out"), service.Browser("stays")
		p.subscribe(1, family, models.TellLikes)
		p.subscribe(5, gone, models.TellLikes)
		p.subscribe(6, signedOut, models.TellLikes)
		p.subscribe(7, stays, models.TellLikes)
		for _, user := range []models.RowID{1, 5, 6, 7} {
			p.happens(models.OutcomeLikeGiven, 3, user)
		}
		p.happens(models.OutcomeLikeGiven, 8, 7)
		p.hidden = 8
		p.subscribe(2, family, models.TellLikes)
		store := notices.NewStore(env.Gorm)
		exported := 0
		for _, user := range []models.RowID{3, 5} { // the one whom it is about, and the one who is told
			err := p.store.Subject().Export[0].Each(t.Context(), user, func(any) error { exported++; return nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		if exported != 1 {
			t.Errorf("%d notices are exported", exported)
		}
		for _, n := range []int64{1, 0} {
			if got := testenv.Must(store.Erase(t.Context(), 5)); got != n {
				t.Errorf("%d subscriptions were erased", got)
			}
			if got := testenv.Must(p.store.Erase(t.Context(), 5)); got != n {
				t.Errorf("%d deliveries were erased", got)
			}
		}
		if err := p.End(t.Context(), "6", &signedOut.Endpoint); err != nil {
			t.Fatal(err)
		}
		p.round()
		for _, b := range []*browsers.Browser{family, gone, signedOut} {
			want(t, b.Endpoint, texts(b), nil)
		}
		want(t, "who has stayed", texts(stays), []string{about3})
		if states := p.states(); states != "dropped delivered dropped dropped" {
			t.Errorf("deliveries are %s", states)
		}
		p.happens(models.OutcomeLikeGiven, 3, 2)
		p.happens(models.OutcomeLikeGiven, 3, 1)
		p.round()
		want(t, "who has signed in", texts(family), []string{about3})
	})
}
