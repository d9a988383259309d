package e2e_test

import (
	"net/http"
	"strconv"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// exhaust calls until a call is refused, which must not happen before the given
// number of calls. How many more succeed depends on the speed of the machine.
func exhaust(t *testing.T, least int, call func() answer) answer {
	t.Helper()
	for n := range 100 {
		a := call()
		if a.status != http.StatusTooManyRequests {
			continue
		}
		if n < least {
			t.Fatalf("call %d is refused", n+1)
		}
		return a
	}
	t.Fatal("nothing is refused")
	return answer{}
}

// wantRateLimited expects a refusal that says when to try again.
func (s *server) wantRateLimited(a answer) {
	s.t.Helper()
	s.refuse(a, http.StatusTooManyRequests, models.CodeRateLimited)
	if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
		s.t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
}

// Codes can't be guessed while Redis is away, which counts logins: wrong ones are counted in Postgres.
func TestWrongCodesWithoutRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := &authorization{server: newServer(t, env, func(c *config.Config) { c.Limits.LoginsPerMinute = 10 })}
	if err := env.Redis.Close(); err != nil {
		t.Fatal(err)
	}
	try := func() answer {
		w := s.ask("POST", "/v1/session/code", `{"code":"AAAAA-AAAAA"}`, signedIn{})
		return answer{status: w.Code, header: w.Header(), body: w.Body.Bytes()}
	}
	for range 100 {
		s.refuse(try(), http.StatusNotFound, models.CodeNotFound)
	}
	s.refuse(try(), http.StatusTooManyRequests, models.CodeRateLimited)
}

func TestLimitOfAUser(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testLimitOfAUser)
}

func testLimitOfAUser(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, func(c *config.Config) { c.Limits.UserPerMinute = 3 })
	mine := func() answer { return s.as("1", "GET", "/v1/boards/steps/me", nil) }
	s.wantRateLimited(exhaust(t, 3, mine))
	// Calls to this replica count on others.
	other, n := newServer(t, env, func(c *config.Config) { c.Limits.UserPerMinute = 3 }), 0
	exhaust(t, 0, func() answer { n++; return other.as("1", "GET", "/v1/boards", nil) })
	if n > 3 && env.Redis != nil {
		t.Errorf("another replica refuses call %d", n)
	}
	// Other users are not affected, and neither are backends that act for this
	// user.
	s.want(s.as("2", "GET", "/v1/boards/steps/me", nil), http.StatusOK, nil)
	for range 10 {
		s.want(s.service("GET", "/v1/boards/steps/me?user_id=1", nil), http.StatusOK, nil)
		s.want(s.call(harness.Token(t, "1", auth.ScopeAdmin), "GET", "/v1/boards", nil), http.StatusOK, nil)
		s.want(s.call("", "GET", "/healthz", nil), http.StatusOK, nil)
	}
	// Forbidden calls count, too.
	forbidden := func() answer { return s.as("3", "GET", "/v1/admin/archives", nil) }
	s.wantRateLimited(exhaust(t, 3, forbidden))

	if env.Redis == nil {
		return
	}
	// Without Redis, no call is refused.
	if err := env.Redis.Close(); err != nil {
		t.Fatal(err)
	}
	s.want(s.as("1", "GET", "/v1/boards", nil), http.StatusOK, nil)
}
