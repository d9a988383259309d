//go:build !race

package friends_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/people/privacy"
	"stepboard/services/servicetest"
)

// requestModel says what the calls about requests return. Its edges go from the sender to
// the recipient; friendships have both directions.
type requestModel struct {
	limits    friends.Limits
	friends   map[models.Edge]bool
	pending   map[models.Edge]time.Time // when the sender sent it
	shown     map[models.Edge]time.Time // since when the recipient is shown it
	declined  map[models.Edge]time.Time // when the recipient last declined one
	blocks    map[models.Edge]bool      // from who blocks to who is blocked
	sent      map[models.RowID]int      // in the day that ends at until
	until     map[models.RowID]time.Time
	delivered int
}

func newRequestModel(limits friends.Limits) *requestModel {
	return &requestModel{
		limits: limits, friends: make(map[models.Edge]bool),
		pending: make(map[models.Edge]time.Time), shown: make(map[models.Edge]time.Time), declined: make(map[models.Edge]time.Time),
		blocks: make(map[models.Edge]bool), sent: make(map[models.RowID]int), until: make(map[models.RowID]time.Time),
	}
}

func (m *requestModel) send(from, to models.RowID, now time.Time) string {
	there, back := models.Edge{A: from, B: to}, models.Edge{A: to, B: from}
	if m.friends[there] {
		return "friends"
	}
	if m.blocks[there] {
		return "validation_failed, wait 0s"
	}
	if _, pending := m.pending[there]; pending {
		m.deliver(there, now)
		return "pending"
	}
	if _, pending := m.pending[back]; pending {
		m.befriend(from, to)
		return "new friends"
	}
	pending := 0
	for e := range m.pending {
		if e.A == from {
			pending++
		}
	}
	if pending >= m.limits.Pending {
		return "request_limit, wait 1h0m0s"
	}
	if !now.Before(m.until[from]) {
		m.sent[from], m.until[from] = 0, now.Add(day)
	}
	if m.sent[from] >= m.limits.PerDay {
		return fmt.Sprintf("request_limit, wait %v", m.until[from].Sub(now))
	}
	m.sent[from]++
	m.pending[there] = now
	delete(m.declined, back)
	m.deliver(there, now)
	return "new pending"
}

func (m *requestModel) deliver(e models.Edge, now time.Time) {
	if _, shown := m.shown[e]; shown || m.blocks[models.Edge{A: e.B, B: e.A}] {
		return
	}
	if declined, ok := m.declined[e]; ok && now.Before(declined.Add(week)) {
		return
	}
	delete(m.declined, e)
	m.shown[e] = now
	m.delivered++
}

func (m *requestModel) befriend(a, b models.RowID) {
	for _, e := range []models.Edge{{A: a, B: b}, {A: b, B: a}} {
		m.friends[e] = true
		delete(m.pending, e)
		delete(m.shown, e)
		delete(m.declined, e)
	}
}

func (m *requestModel) remove(a, b models.RowID) {
	delete(m.friends, models.Edge{A: a, B: b})
	delete(m.friends, models.Edge{A: b, B: a})
}

func (m *requestModel) accept(user, other models.RowID) string {
	e := models.Edge{A: other, B: user}
	_, shown := m.shown[e]
	if !m.friends[e] && !shown {
		return "not_found, wait 0s"
	}
	m.befriend(user, other)
	return "ok"
}

func (m *requestModel) decline(user, other models.RowID, now time.Time) {
	there, back := models.Edge{A: user, B: other}, models.Edge{A: other, B: user}
	if _, pending := m.pending[there]; pending {
		delete(m.pending, there)
		delete(m.shown, there)
	} else if _, shown := m.shown[back]; shown {
		delete(m.shown, back)
		m.declined[back] = now
	}
}

func (m *requestModel) block(user, other models.RowID, now time.Time) {
	m.blocks[models.Edge{A: user, B: other}] = true
	m.decline(user, other, now)
	m.remove(user, other)
}

// listed returns the requests that a user is shown.
func (m *requestModel) listed(user models.RowID) string {
	var list []friends.Request
	for e, at := range m.pending {
		if e.A == user {
			list = append(list, friends.Request{Row: e.B, CreatedAt: at})
		}
	}
	for e, at := range m.shown {
		if e.B == user {
			list = append(list, friends.Request{Row: e.A, Incoming: true, CreatedAt: at})
		}
	}
	slices.SortFunc(list, func(a, b friends.Request) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return int(b.Row - a.Row)
	})
	return described(list, 0)
}

// described returns a list of requests as text, with each row less the given one.
func described(list []friends.Request, base models.RowID) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%v %v %s; ", r.Row-base, r.Incoming, r.CreatedAt.UTC().Format(time.RFC3339Nano))
	}
	return b.String()
}

// listed returns the requests that a user is shown, with each row less the given one.
func (s numbered) listed(t *rapid.T, user, base models.RowID) string {
	list, err := s.Requests(t.Context(), user, models.Cursor{}, 50)
	if err != nil {
		t.Fatal(err)
	}
	return described(list, base)
}

// accepted returns the result of accepting a request as text.
func (s numbered) accepted(t *rapid.T, user, other models.RowID) string {
	if err := s.Accept(t.Context(), user, other); err != nil {
		return refusal(err)
	}
	return "ok"
}

// must fails the test on an error.
func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

var modelSteps = []string{
	"send", "send", "send", "decline", "decline", "accept", "remove", "import", "replace", "wait", "forget",
	"block", "unblock",
}

// Random calls of three users return what the model returns, and show each of them the
// requests that the model shows.
func TestRequestsAgreeWithAModel(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		limits := friends.Limits{Pending: 2, PerDay: 5}
		s := limited(env, servicetest.Sets(env), limits)
		choices := newPrivacy(env, s)
		base, delivered := models.RowID(0), 0
		rapid.Check(t, func(rt *rapid.T) {
			base += 100
			people := []models.RowID{base + 1, base + 2, base + 3}
			exist(t, env, people...)
			m := newRequestModel(limits)
			for range rapid.IntRange(1, 14).Draw(rt, "steps") {
				pair := rapid.Permutation(people).Draw(rt, "pair")
				a, b := pair[0], pair[1]
				now := env.Clock.Now()
				got, want := "", ""
				switch rapid.SampledFrom(modelSteps).Draw(rt, "step") {
				case "send":
					got, want = sent(s.SendRequest(t.Context(), a, b)), m.send(a, b, now)
				case "decline":
					must(rt, s.Decline(t.Context(), a, b))
					m.decline(a, b, now)
				case "accept":
					got, want = s.accepted(rt, a, b), m.accept(a, b)
				case "remove":
					must(rt, s.Remove(t.Context(), a, b))
					m.remove(a, b)
				case "import":
					_, _, err := s.Import(t.Context(), []models.Edge{{A: a, B: b}})
					must(rt, err)
					m.befriend(a, b)
				case "replace":
					must(rt, s.Replace(t.Context(), a, []models.RowID{b}))
					for _, user := range people {
						m.remove(a, user)
					}
					m.befriend(a, b)
				case "wait":
					env.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, 10 * time.Hour, day, 4 * day, week}).Draw(rt, "time"))
				case "block":
					must(rt, choices.Choose(t.Context(), testenv.ID(a), models.Blocked, testenv.ID(b)))
					m.block(a, b, now)
				case "unblock":
					must(rt, choices.Undo(t.Context(), testenv.ID(a), models.Blocked, testenv.ID(b)))
					delete(m.blocks, models.Edge{A: a, B: b})
				case "forget":
					_, err := s.ForgetDeclined(t.Context())
					must(rt, err)
				}
				if got != want {
					rt.Fatalf("%v and %v: %s, want %s", a-base, b-base, got, want)
				}
				for _, user := range people {
					if got, want := s.listed(rt, user, 0), m.listed(user); got != want {
						rt.Fatalf("user %v is shown %s, want %s", user-base, got, want)
					}
				}
			}
			delivered += m.delivered
		})
		if delivered == 0 {
			t.Error("no request was delivered")
		}
	})
}

// twins are two pairs of users who do the same, but that the recipient of the second pair
// sometimes declines or blocks. Beside each pair is a third user. Rows are counted from base.
type twins struct {
	numbered

	calm, declining models.RowID // the rows before those of a pair

	privacy *privacy.Service
	// blocking reports whether the recipient who declines has blocked the sender.
	blocking bool
}

const (
	sender, recipient, third models.RowID = 1, 2, 3
)

// both makes a call for both pairs and fails the test if the results differ.
func (w *twins) both(t *rapid.T, what string, call func(base models.RowID) string) {
	t.Helper()
	if calm, declining := call(w.calm), call(w.declining); calm != declining {
		t.Fatalf("%s: %q to one who neither declined nor blocked, %q to one who did", what, calm, declining)
	}
}

var twinSteps = []string{
	"send", "send", "send", "withdraw", "accept", "remove", "be asked", "be accepted", "wait",
}

// block makes the second recipient block the sender, or unblock. The first one ends the
// friendship and withdraws the own request, which a sender does see.
func (w *twins) block(t *rapid.T) {
	ctx, from, to := t.Context(), testenv.ID(w.declining+recipient), testenv.ID(w.declining+sender)
	if w.blocking {
		must(t, w.privacy.Undo(ctx, from, models.Blocked, to))
		w.blocking = false
		return
	}
	if strings.Contains(w.listed(t, w.calm+recipient, w.calm), "1 false") {
		must(t, w.Decline(ctx, w.calm+recipient, w.calm+sender))
	}
	must(t, w.Remove(ctx, w.calm+recipient, w.calm+sender))
	must(t, w.privacy.Choose(ctx, from, models.Blocked, to))
	w.blocking = true
}

// step makes the same random call for both pairs. The recipient who declines or blocks does
// so before it.
func (w *twins) step(t *rapid.T, env *testenv.Env) (declined bool) {
	ctx := t.Context()
	shown := func() bool { return strings.Contains(w.listed(t, w.declining+recipient, w.declining), "1 true") }
	if rapid.Bool().Draw(t, "decline") && shown() {
		must(t, w.Decline(ctx, w.declining+recipient, w.declining+sender))
		declined = true
	}
	if rapid.IntRange(0, 4).Draw(t, "block") == 0 {
		w.block(t)
	}
	to := rapid.SampledFrom([]models.RowID{recipient, recipient, third}).Draw(t, "to")
	send := func(from, to models.RowID) func(models.RowID) string {
		return func(base models.RowID) string { return sent(w.SendRequest(ctx, base+from, base+to)) }
	}
	switch what := rapid.SampledFrom(twinSteps).Draw(t, "step"); what {
	case "send":
		w.both(t, what, send(sender, to))
	case "be asked":
		if to == third || !w.blocking { // nobody can ask whom they have blocked
			w.both(t, what, send(to, sender))
		}
	case "withdraw":
		w.both(t, what, func(base models.RowID) string { return fmt.Sprint(w.Decline(ctx, base+sender, base+to)) })
	case "accept":
		w.both(t, what, func(base models.RowID) string { return w.accepted(t, base+sender, base+to) })
	case "remove":
		w.both(t, what, func(base models.RowID) string { return fmt.Sprint(w.Remove(ctx, base+sender, base+to)) })
	case "be accepted":
		if shown() { // nobody can accept what they are not shown
			w.both(t, what, func(base models.RowID) string { return w.accepted(t, base+recipient, base+sender) })
		}
	case "wait":
		env.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, 10 * time.Hour, 4 * day, week}).Draw(t, "time"))
	}
	return declined
}

// To the sender of a request it makes no difference whether the other has declined it or
// has blocked the sender: all answers, lists and limits are the same.
func TestTheSenderCannotTellDeclinedOrBlockedFromPending(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := limited(env, servicetest.Sets(env), friends.Limits{Pending: 2, PerDay: 5})
		base, declines := models.RowID(0), 0
		rapid.Check(t, func(rt *rapid.T) {
			base += 100
			w := &twins{numbered: s, calm: base, declining: base + 10, privacy: newPrivacy(env, s)}
			for _, who := range []models.RowID{sender, recipient, third} {
				exist(t, env, w.calm+who, w.declining+who)
			}
			for range rapid.IntRange(1, 14).Draw(rt, "steps") {
				if w.step(rt, env) {
					declines++
				}
				w.both(rt, "the sender's requests", func(base models.RowID) string { return w.listed(rt, base+sender, base) })
				w.both(rt, "the sender's friends", func(base models.RowID) string {
					list, err := s.List(rt.Context(), base+sender, 0, 50)
					must(rt, err)
					var text strings.Builder
					for _, f := range list {
						fmt.Fprintf(&text, "%v since %v; ", f.Row-base, f.CreatedAt.UTC())
					}
					return text.String()
				})
			}
		})
		if declines == 0 {
			t.Error("nobody declined")
		}
	})
}
