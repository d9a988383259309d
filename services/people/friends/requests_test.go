package friends_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/servicetest"
)

const (
	// day is the period of Limits.PerDay.
	day = 24 * time.Hour
	// week is the time for which a decline holds.
	week = 7 * day
)

// wantSent sends a request and checks its result.
func (s numbered) wantSent(t *testing.T, from, to models.RowID, want string) {
	t.Helper()
	if got := sent(s.SendRequest(t.Context(), from, to)); got != want {
		t.Errorf("%v asks %v: %s, want %s", from, to, got, want)
	}
}

// mustDecline declines or withdraws a request.
func (s numbered) mustDecline(t *testing.T, user, other models.RowID) {
	t.Helper()
	if err := s.Decline(t.Context(), user, other); err != nil {
		t.Error(err)
	}
}

// sent returns the result of a request as text.
func sent(status friends.Status, created bool, err error) string {
	switch {
	case err != nil:
		return refusal(err)
	case created:
		return "new " + string(status)
	default:
		return string(status)
	}
}

// refusal returns what the caller can see of an error, but for its text.
func refusal(err error) string {
	known := &models.Error{}
	if !errors.As(err, &known) {
		return fmt.Sprintf("unexpected: %v", err)
	}
	return fmt.Sprintf("%s, wait %v", known.Code, known.Wait)
}

func TestPendingRequestsAreLimited(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := limited(env, servicetest.Sets(env), friends.Limits{Pending: 3, PerDay: 100})
		exist(t, env, 1, 2, 3, 4, 5, 6, 7)
		const tooMany = "request_limit, wait 1h0m0s"
		for to := models.RowID(2); to <= 4; to++ {
			s.wantSent(t, 1, to, "new pending")
		}
		s.wantSent(t, 1, 5, tooMany)
		s.wantSent(t, 1, 4, "pending")
		// A request that meets the other's is no new one.
		s.wantSent(t, 6, 1, "new pending")
		s.wantSent(t, 1, 6, "new friends")
		// A declined request is still pending for its sender; an accepted one is not.
		s.mustDecline(t, 2, 1)
		s.wantSent(t, 1, 5, tooMany)
		if err := s.Accept(t.Context(), 3, 1); err != nil {
			t.Error(err)
		}
		s.wantSent(t, 1, 5, "new pending")
		s.wantSent(t, 1, 7, tooMany)
		s.mustDecline(t, 1, 2) // withdraws it
		s.wantSent(t, 1, 7, "new pending")
		if n := s.Stats().TooManyPending.Load(); n != 3 {
			t.Errorf("%d requests were refused, want 3", n)
		}
	})
}

func TestRequestsOfADayAreLimited(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := limited(env, servicetest.Sets(env), friends.Limits{Pending: 100, PerDay: 3})
		exist(t, env, 1, 2, 3, 4, 5, 6)
		s.wantSent(t, 1, 2, "new pending")
		env.Clock.Advance(20 * time.Hour)
		s.mustDecline(t, 1, 2)
		s.wantSent(t, 1, 2, "new pending") // the withdrawn one counts
		s.wantSent(t, 1, 2, "pending")     // the repeated one does not
		s.wantSent(t, 1, 3, "new pending")
		s.wantSent(t, 1, 4, "request_limit, wait 4h0m0s")
		s.wantSent(t, 4, 1, "new pending") // everybody has a limit of their own
		s.wantSent(t, 1, 4, "new friends")
		env.Clock.Advance(4*time.Hour - time.Millisecond)
		s.wantSent(t, 1, 5, "request_limit, wait 1ms")
		env.Clock.Advance(time.Millisecond)
		s.wantSent(t, 1, 5, "new pending")
		s.wantSent(t, 1, 6, "new pending")
		if n := s.Stats().TooManyToday.Load(); n != 2 {
			t.Errorf("%d requests were refused, want 2", n)
		}
	})
}

// Concurrent calls on two replicas get no more requests through than the limit.
func TestLimitsUnderConcurrentCalls(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		exist(t, env, 1, 2)
		others := make([]models.RowID, 12)
		for i := range others {
			others[i] = models.RowID(100 + i)
		}
		exist(t, env, others...)
		sets := servicetest.Sets(env)
		for from, limits := range map[models.RowID]friends.Limits{
			1: {Pending: 5, PerDay: 100},
			2: {Pending: 100, PerDay: 5},
		} {
			replicas := []numbered{limited(env, sets, limits), limited(env, sets, limits)}
			var (
				calls   sync.WaitGroup
				created atomic.Int64
			)
			for i, to := range others {
				calls.Go(func() {
					_, isNew, err := replicas[i%2].SendRequest(t.Context(), from, to)
					if isNew {
						created.Add(1)
					} else if models.CodeOf(err) != models.CodeRequestLimit {
						t.Errorf("%v asks %v: %v", from, to, err)
					}
				})
			}
			testenv.Wait(t, "the calls end", &calls)
			list := testenv.Must(replicas[0].Requests(t.Context(), from, models.Cursor{}, 50))
			if created.Load() != 5 || len(list) != 5 {
				t.Errorf("limits %+v: %d requests were created, %d are listed, want 5", limits, created.Load(), len(list))
			}
		}
	})
}

// directions returns who a user's listed requests are from and to, such as "<2" and ">3".
func (s numbered) directions(t *testing.T, user models.RowID) []string {
	t.Helper()
	var list []string
	for _, r := range testenv.Must(s.Requests(t.Context(), user, models.Cursor{}, 50)) {
		if r.Incoming {
			list = append(list, "<"+r.Row.String())
		} else {
			list = append(list, ">"+r.Row.String())
		}
	}
	slices.Sort(list)
	return list
}

// wantListed checks which requests user 1 and another user are shown.
func (s numbered) wantListed(t *testing.T, when, ofFirst string, other models.RowID, ofOther string) {
	t.Helper()
	want := fmt.Sprintf("[%s] [%s]", ofFirst, ofOther)
	if got := fmt.Sprint(s.directions(t, 1), s.directions(t, other)); got != want {
		t.Errorf("%s: the requests are %s, want %s", when, got, want)
	}
}

// For seven days after a decline, requests of the same user do not reach the other.
func TestRequestsAfterADecline(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newService(t, env)
		exist(t, env, 1, 2)
		s.wantSent(t, 1, 2, "new pending")
		s.wantListed(t, "at first", ">2", 2, "<1")
		s.mustDecline(t, 2, 1)
		s.mustDecline(t, 2, 1)
		s.wantListed(t, "declined", ">2", 2, "")
		s.wantSent(t, 1, 2, "pending")
		s.wantListed(t, "repeated", ">2", 2, "")
		if err := s.Accept(t.Context(), 2, 1); models.CodeOf(err) != models.CodeNotFound {
			t.Errorf("accepting a declined request: %v", err)
		}
		env.Clock.Advance(3 * day)
		s.mustDecline(t, 1, 2)
		s.wantListed(t, "withdrawn", "", 2, "")
		s.wantSent(t, 1, 2, "new pending")
		s.wantListed(t, "sent again", ">2", 2, "")
		s.mustDecline(t, 2, 1) // there is nothing to decline: the seven days go on
		env.Clock.Advance(4*day - time.Millisecond)
		s.wantSent(t, 1, 2, "pending")
		s.wantListed(t, "before seven days are over", ">2", 2, "")
		env.Clock.Advance(time.Millisecond)
		s.wantListed(t, "after seven days", ">2", 2, "")
		s.wantSent(t, 1, 2, "pending")
		s.wantListed(t, "sent again after seven days", ">2", 2, "<1")
		s.mustDecline(t, 2, 1)
		s.wantSent(t, 2, 1, "new friends")
		s.wantListed(t, "the one who declined has asked", "", 2, "")
	})
}

// A request by the one who declined lifts the decline.
func TestARequestLiftsTheOwnDecline(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newService(t, env)
		exist(t, env, 1, 2)
		s.wantSent(t, 1, 2, "new pending")
		s.mustDecline(t, 2, 1)
		s.mustDecline(t, 1, 2)
		s.wantSent(t, 2, 1, "new pending")
		s.wantListed(t, "the other way", "<2", 2, ">1")
		s.mustDecline(t, 2, 1)
		s.wantListed(t, "withdrawn", "", 2, "")
		s.wantSent(t, 1, 2, "new pending")
		s.wantListed(t, "sent again", ">2", 2, "<1")
	})
}

// Declines are deleted when they no longer have an effect.
func TestForgetDeclined(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newService(t, env)
		exist(t, env, 1, 2, 3, 4)
		for _, from := range []models.RowID{2, 3, 4} {
			s.wantSent(t, from, 1, "new pending")
			if from != 4 {
				s.mustDecline(t, 1, from)
			}
			env.Clock.Advance(day)
		}
		s.mustDecline(t, 2, 1)
		env.Clock.Advance(week - 3*day - time.Millisecond)
		for i, want := range []int64{1, 0} {
			env.Clock.Advance(time.Millisecond)
			if n, err := s.ForgetDeclined(t.Context()); n != want || err != nil {
				t.Errorf("run %d: %d declines are deleted, %v, want %d", i+1, n, err, want)
			}
		}
		var left []models.FriendRequest
		if err := env.Gorm.Order("user_id, other_id").Find(&left).Error; err != nil {
			t.Fatal(err)
		}
		if len(left) != 4 { // both sides of 4's, and of 3's, which was declined later
			t.Errorf("%d rows are left: %+v", len(left), left)
		}
		s.wantListed(t, "afterwards", "<4", 3, ">1")
	})
}

// Only incoming requests show a name.
func TestOutgoingRequestsShowNoProfile(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newService(t, env)
		exist(t, env, 1, 2)
		if err := env.Gorm.Table("users").Where("user_id IN ?", []int{1, 2}).Update("avatar_url", "https://example.com/a").Error; err != nil {
			t.Fatal(err)
		}
		s.wantSent(t, 1, 2, "new pending")
		for user, want := range map[models.RowID]friends.Request{
			1: {Row: 2, User: testenv.ID(2), CreatedAt: env.Clock.Now()},
			2: {Row: 1, User: testenv.ID(1), Nickname: "user 1", AvatarURL: "https://example.com/a", Incoming: true, CreatedAt: env.Clock.Now()},
		} {
			list := testenv.Must(s.Requests(t.Context(), user, models.Cursor{}, 10))
			if len(list) == 1 {
				list[0].CreatedAt = list[0].CreatedAt.UTC()
				want.CreatedAt = want.CreatedAt.UTC()
			}
			if len(list) != 1 || list[0] != want {
				t.Errorf("requests of %v: %+v, want %+v", user, list, want)
			}
		}
	})
}
