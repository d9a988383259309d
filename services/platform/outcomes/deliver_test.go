package outcomes_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// A committed outcome is received once, signed, by each target that wants it; one that was
// rolled back by none.
func TestDelivery(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		all, some, none := newReceiver(t, nil), newReceiver(t, nil), newReceiver(t, nil)
		rotating := some.target(models.OutcomeFriendAccepted, models.OutcomeFriendRequested)
		rotating.Secrets = []string{newSecret, secret}
		f := newFixture(t, env, all.target(), rotating, none.target(models.OutcomeBoardFinal))
		f.deliver()
		f.request(7, 8, errors.New("rolled back"))
		f.request(1, 2, nil)
		testenv.Eventually(t, "both are delivered", func() bool { return len(all.list()) > 0 && len(some.list()) > 0 })
		f.waitFor(models.DeliveryDelivered)
		if n := len(f.deliveries()); n != 2 || len(all.list()) != 1 || len(some.list()) != 1 || len(none.list()) != 0 {
			t.Fatalf("%d deliveries; %v %v %v", n, all.list(), some.list(), none.list())
		}
		one, other := all.list()[0], some.list()[0]
		want := `{"type":"friend.requested","timestamp":"2026-11-20T13:00:00.000Z","data":{"from":"1","to":"2"}}`
		if one.body != want || other.body != want || one.id != other.id || !strings.HasPrefix(one.id, "msg_") {
			t.Errorf("received %+v and %+v", one, other)
		}
		verify(t, secret, one)
		verify(t, secret, other)
		verify(t, newSecret, other)
	})
}

// A delivery that fails is repeated with the same id after growing pauses, and each attempt
// is recorded.
func TestRepeating(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		var attempts atomic.Int64
		target := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
			switch attempts.Add(1) {
			case 1:
				w.WriteHeader(http.StatusInternalServerError)
			case 2:
				panic(http.ErrAbortHandler) // resets the connection
			case 3:
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			}
		})
		f := newFixture(t, env, target.target())
		f.deliver()
		f.request(1, 2, nil)
		for n, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			testenv.Eventually(t, "the attempt is recorded", func() bool { return len(f.deliveries()[0].Last) == n+1 })
			d := f.deliveries()[0]
			if got := d.NextAttemptAt.Sub(env.Clock.Now()); got != pause || d.State != models.DeliveryWaiting {
				t.Errorf("after attempt %d: %s, pause %v", n+1, d.State, got)
			}
			env.Clock.Advance(pause)
		}
		f.waitFor(models.DeliveryDelivered)
		got := target.list()
		if len(got) != 4 || got[0].id != got[3].id || got[0].body != got[3].body {
			t.Errorf("received %v", got)
		}
		d := f.deliveries()[0]
		if d.Last[0].Status != 500 || d.Last[1].Status != 0 || d.Last[2].Status != 307 || d.Last[3].Status != 200 ||
			d.Last[1].Error == "" || d.Last[2].Error != "redirects are not followed" || d.Last[3].Error != "" {
			t.Errorf("recorded %+v", d.Last)
		}
	})
}

// After three days a delivery is given up, until it is replayed. A dry run changes nothing.
func TestGivingUpAndReplaying(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		var healthy atomic.Bool
		target := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			if !healthy.Load() {
				w.WriteHeader(http.StatusGone)
			}
		})
		f := newFixture(t, env, target.target())
		service := f.store
		undelivered := func() int {
			return len(testenv.Must(service.List(t.Context(), outcomes.Query{Undelivered: true, Limit: 10})))
		}
		f.request(1, 2, nil)
		env.Clock.Advance(72*time.Hour - time.Millisecond)
		f.deliver()
		testenv.Eventually(t, "the attempt is recorded", func() bool { return len(f.deliveries()[0].Last) == 1 })
		f.waitFor(models.DeliveryWaiting)
		waiting := undelivered()
		env.Clock.Advance(time.Second)
		f.waitFor(models.DeliveryFailed)
		if failed := undelivered(); waiting != 1 || failed != 1 {
			t.Errorf("undelivered are %d while it waits and %d once it was given up, want 1 and 1", waiting, failed)
		}
		healthy.Store(true)
		id := f.deliveries()[0].ID
		if d, err := service.Replay(t.Context(), id, true); err != nil || d.State != models.DeliveryFailed || len(d.Last) != 2 {
			t.Errorf("a dry run: %+v, %v", d, err)
		}
		f.waitFor(models.DeliveryFailed)
		if d, err := service.Replay(t.Context(), id, false); err != nil || d.State != models.DeliveryWaiting || d.FinishedAt != nil {
			t.Errorf("a replay: %+v, %v", d, err)
		}
		f.waitFor(models.DeliveryDelivered)
		if n := undelivered(); n != 0 {
			t.Errorf("%d deliveries are undelivered after it was delivered", n)
		}
		if got := target.list(); len(got) != 3 || got[2].id != got[0].id {
			t.Errorf("received %v", got)
		}
		if _, err := service.Replay(t.Context(), id+1, false); models.CodeOf(err) != models.CodeNotFound {
			t.Errorf("a delivery that does not exist: %v", err)
		}
	})
}

// A target that never answers holds up its own deliveries only.
func TestDeadTarget(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		silent := make(chan struct{})
		dead := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-silent:
			case <-r.Context().Done():
			}
		})
		healthy := newReceiver(t, nil)
		f := newFixture(t, env, dead.target(), healthy.target())
		f.deliver()
		t.Cleanup(func() { close(silent) })
		for n := range models.RowID(50) {
			f.request(n+1, n+2, nil)
		}
		testenv.Eventually(t, "the healthy target has all while the dead one answers none", func() bool {
			return len(healthy.list()) == 50
		})
		for _, d := range f.deliveries() {
			if d.Target == dead.URL && d.State != models.DeliveryWaiting {
				t.Errorf("delivered to the dead target: %+v", d)
			}
		}
	})
}

// An outcome that nobody is to be told of any more when it is sent is dropped.
func TestDropped(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		target := newReceiver(t, nil)
		f := newFixture(t, env, target.target())
		f.store = outcomes.NewStore(env.Gorm, topics(func(p *pair) error {
			if p.From == 1 {
				return outcomes.ErrErased
			}
			return outcomes.ErrHidden
		})...)
		f.request(1, 9, nil)
		f.request(2, 9, nil)
		f.deliver()
		f.waitFor(models.DeliveryDropped)
		if got := target.list(); len(got) != 0 {
			t.Errorf("received %v", got)
		}
	})
}

// The result of an attempt is stored whatever its error says.
func TestErrorsAreStored(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, newReceiver(t, nil).target())
		// It can't be cut at any byte.
		failure := errors.New("x" + strings.Repeat("é", 200) + "\x00")
		f.store = outcomes.NewStore(env.Gorm, topics(func(*pair) error { return failure })...)
		f.request(1, 2, nil)
		f.deliver()
		testenv.Eventually(t, "the attempt is recorded", func() bool { return len(f.deliveries()[0].Last) == 1 })
		if got := f.deliveries()[0].Last[0].Error; !strings.HasPrefix(got, "xéé") || len(got) > 210 {
			t.Errorf("the error is stored as %q", got)
		}
	})
}

// Private addresses are called only where the settings permit it.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	target := newReceiver(t, nil)
	forbidden := target.target()
	forbidden.PrivateNetwork = false
	f := newFixture(t, env, forbidden)
	f.deliver()
	f.request(1, 2, nil)
	testenv.Eventually(t, "the attempt is recorded", func() bool { return len(f.deliveries()[0].Last) == 1 })
	if got := f.deliveries()[0].Last[0]; !strings.Contains(got.Error, "private_network") || len(target.list()) != 0 {
		t.Errorf("the attempt: %+v; received %v", got, target.list())
	}
}

// Finished deliveries are deleted after 30 days, with their attempts; those of a target that
// is not configured any more are given up after three.
func TestPurge(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		target := newReceiver(t, nil)
		removed := outcomes.Target{URL: "https://removed.example.com", Secrets: []string{secret}}
		f := newFixture(t, env, target.target(), removed)
		f.request(1, 2, nil)
		f.targets = f.targets[:1]
		f.deliver()
		testenv.Eventually(t, "it is delivered", func() bool { return f.deliveries()[1].State == models.DeliveryDelivered })
		purge := func(want int64) {
			t.Helper()
			d := newFixture(t, env, f.targets...).deliverer()
			if n, err := d.Purge(t.Context()); err != nil || n != want {
				t.Errorf("deleted %d, %v, want %d", n, err, want)
			}
		}
		purge(0)
		f.waitForOne(removed.URL, models.DeliveryWaiting)
		env.Clock.Advance(72 * time.Hour)
		purge(0)
		f.waitForOne(removed.URL, models.DeliveryFailed)
		env.Clock.Advance(27*24*time.Hour + time.Second)
		purge(1)
		env.Clock.Advance(3 * 24 * time.Hour)
		purge(1)
		var attempts int64
		if err := env.Gorm.Table("webhook_attempts").Count(&attempts).Error; err != nil || attempts != 0 {
			t.Errorf("%d attempts are left, %v", attempts, err)
		}
	})
}

// waitForOne waits until the delivery to a target has the state.
func (f *fixture) waitForOne(target string, state models.DeliveryState) {
	f.t.Helper()
	testenv.Eventually(f.t, target+" is "+string(state), func() bool {
		for _, d := range f.deliveries() {
			if d.Target == target {
				return d.State == state
			}
		}
		return false
	})
}
