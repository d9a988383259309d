package outcomes_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// deliverer returns a deliverer that works when it is told to.
func (f *fixture) deliverer() *outcomes.Deliverer {
	f.t.Helper()
	d, err := outcomes.NewDeliverer(f.store, f.targets, nil, f.env.Clock.Now, f.env.Log, f.registry)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// requests writes n outcomes friend.requested.
func (f *fixture) requests(n int) {
	f.t.Helper()
	for i := range n {
		f.request(models.RowID(2*i+1), models.RowID(2*i+2), nil)
	}
}

// result writes an outcome board.final.
func (f *fixture) result() {
	f.t.Helper()
	if err := f.outbox.Add(f.env.Gorm, models.OutcomeBoardFinal, pair{1, 2}); err != nil {
		f.t.Fatal(err)
	}
}

// states counts the deliveries of a type by state.
func (f *fixture) states(outcome models.OutcomeType) map[models.DeliveryState]int {
	f.t.Helper()
	states := make(map[models.DeliveryState]int)
	for _, d := range f.deliveries() {
		if d.Type == outcome {
			states[d.State]++
		}
	}
	return states
}

// wantStates checks the states of the deliveries of a type.
func (f *fixture) wantStates(when string, outcome models.OutcomeType, waiting, failed, delivered int) {
	f.t.Helper()
	got := f.states(outcome)
	if got[models.DeliveryWaiting] != waiting || got[models.DeliveryFailed] != failed || got[models.DeliveryDelivered] != delivered {
		f.t.Errorf("%s: %s are %v, want %d waiting, %d failed, %d delivered", when, outcome, got, waiting, failed, delivered)
	}
}

// wantMetric checks a metric of the only target.
func (f *fixture) wantMetric(when, name string, want float64) {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			m := family.GetMetric()[0]
			if got := m.GetCounter().GetValue() + m.GetGauge().GetValue(); got != want {
				f.t.Errorf("%s: %s is %v, want %v", when, name, got, want)
			}
			return
		}
	}
	f.t.Errorf("%s: there is no %s", when, name)
}

// moody returns a target that accepts webhooks of a type once it is told to, and all others
// always.
func moody(t *testing.T, refuses models.OutcomeType) (r *receiver, accepts *atomic.Bool) {
	t.Helper()
	accepts = &atomic.Bool{}
	r = newReceiver(t, nil)
	r.answer = func(w http.ResponseWriter, _ *http.Request) {
		list := r.list()
		if strings.Contains(list[len(list)-1].body, string(refuses)) && !accepts.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	return r, accepts
}

// A backlog that is refused is tried a few at a time, with pauses. It delays no other type,
// and once it is accepted it is sent without pauses.
func TestBacklogIsTriedWithPauses(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		target, accepts := moody(t, models.OutcomeFriendRequested)
		f := newFixture(t, env, target.target())
		d := f.deliverer()
		const all = 8 * outcomes.SendAtOnce
		f.requests(all)
		round := func(outcome models.OutcomeType, want time.Duration) {
			t.Helper()
			if wait, err := d.RoundOf(t.Context(), outcome); err != nil || wait != want {
				t.Errorf("%s: a pause of %v, %v, want %v", outcome, wait, err, want)
			}
		}
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second} {
			round(models.OutcomeFriendRequested, want)
		}
		if n := len(target.list()); n != 5*outcomes.SendAtOnce {
			t.Errorf("%d attempts", n)
		}
		f.result()
		round(models.OutcomeBoardFinal, time.Second)
		f.wantStates("away", models.OutcomeBoardFinal, 0, 0, 1)
		accepts.Store(true)
		env.Clock.Advance(time.Minute)
		for range 8 {
			round(models.OutcomeFriendRequested, 0)
		}
		round(models.OutcomeFriendRequested, time.Second)
		f.wantStates("back", models.OutcomeFriendRequested, 0, 0, all)
	})
}

// After three days, what waits for a target that accepts nothing is given up together, also
// what it was never sent. While a target accepts what it gets, nothing is.
func TestOverdueDeliveriesAreGivenUpTogether(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		target, accepts := moody(t, models.OutcomeFriendRequested)
		f := newFixture(t, env, target.target())
		d := f.deliverer()
		const old, young = 2*outcomes.SendAtOnce + 3, 5
		f.requests(old)
		f.result()
		env.Clock.Advance(72 * time.Hour)
		f.requests(young)
		round := func() {
			t.Helper()
			if _, err := d.RoundOf(t.Context(), models.OutcomeFriendRequested); err != nil {
				t.Error(err)
			}
		}
		accepts.Store(true)
		round()
		f.wantStates("accepted", models.OutcomeFriendRequested, old+young-outcomes.SendAtOnce, 0, outcomes.SendAtOnce)
		accepts.Store(false)
		round()
		f.wantStates("refused", models.OutcomeFriendRequested, young, old-outcomes.SendAtOnce, outcomes.SendAtOnce)
		f.wantStates("refused", models.OutcomeBoardFinal, 1, 0, 0)
		f.wantMetric("refused", "stepboard_webhooks_given_up_total", old-outcomes.SendAtOnce)
	})
}

// A target has a bounded number of waiting deliveries: the oldest are given up, but no results.
// Of those that were given up, as many are kept, and all results.
func TestABacklogIsBounded(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		target := newReceiver(t, nil)
		f := newFixture(t, env, target.target())
		d := f.deliverer()
		const most = 10
		d.Keep(most)
		measure := func() {
			t.Helper()
			if err := d.Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		f.result()
		f.requests(most - 1)
		env.Clock.Advance(time.Minute)
		measure()
		f.wantStates("full", models.OutcomeFriendRequested, most-1, 0, 0)
		f.wantMetric("full", "stepboard_webhooks_waiting", most)
		f.wantMetric("full", "stepboard_webhooks_oldest_seconds", 60)
		f.requests(4)
		for range 2 { // as a second process does
			measure()
			f.wantStates("too many", models.OutcomeFriendRequested, most, 3, 0)
			f.wantStates("too many", models.OutcomeBoardFinal, 1, 0, 0)
		}
		f.wantMetric("too many", "stepboard_webhooks_given_up_total", 3)
		list := f.deliveries() // newest first
		for i, delivery := range list {
			if failed := delivery.State == models.DeliveryFailed; failed != (i >= most && delivery.Type != models.OutcomeBoardFinal) {
				t.Errorf("delivery %d of %d: %s, %s", i, len(list), delivery.Type, delivery.State)
			}
		}

		f.requests(2 * most)
		measure()
		f.wantStates("many more", models.OutcomeFriendRequested, most, 3+2*most, 0)
		final := list[len(list)-1].ID
		err := env.Gorm.Exec(`UPDATE webhook_deliveries SET state = 'failed', finished_at = created_at WHERE id = ?`, final).Error
		if err != nil {
			t.Fatal(err)
		}
		if n, err := d.Purge(t.Context()); err != nil || n != 3+most {
			t.Errorf("deleted %d, %v", n, err)
		}
		f.wantStates("purged", models.OutcomeFriendRequested, most, most, 0)
		f.wantStates("purged", models.OutcomeBoardFinal, 0, 1, 0)
	})
}

// A delivery that is given up while it is being sent, and arrives, is delivered.
func TestASuccessAfterGivingUp(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		var other *outcomes.Deliverer
		target := newReceiver(t, func(http.ResponseWriter, *http.Request) {
			if err := other.Measure(t.Context()); err != nil {
				t.Error(err)
			}
		})
		f := newFixture(t, env, target.target())
		f.requests(1)
		d := f.deliverer()
		o := newFixture(t, env, target.target())
		other = o.deliverer()
		other.Keep(0)
		if err := d.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.wantMetric("sent", "stepboard_webhooks_given_up_total", 1)
		f.wantStates("sent", models.OutcomeFriendRequested, 0, 0, 1)
	})
}

// Of the attempts of a delivery only the last ten are kept.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		target, _ := moody(t, models.OutcomeFriendRequested)
		f := newFixture(t, env, target.target())
		f.requests(1)
		d := f.deliverer()
		for range outcomes.ShownAttempts + 3 {
			if err := d.Round(t.Context()); err != nil {
				t.Fatal(err)
			}
			env.Clock.Advance(time.Hour)
		}
		var kept []int
		if err := env.Gorm.Raw(`SELECT number FROM webhook_attempts ORDER BY number`).Scan(&kept).Error; err != nil {
			t.Fatal(err)
		}
		if want := []int{4, 5, 6, 7, 8, 9, 10, 11, 12, 13}; !slices.Equal(kept, want) {
			t.Errorf("kept %v, want %v", kept, want)
		}
	})
}
