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

func TestLimitOfAnAddress(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testLimitOfAnAddress)
}

func testLimitOfAnAddress(t *testing.T, env *testenv.Env) {
	t.Helper()
	from := func(s *server, user models.UserID, forwarded ...string) answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/boards", nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			r.Header.Set("Authorization", "Bearer "+harness.Token(t, user, ""))
		}
		r.Header["X-Forwarded-For"] = forwarded
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return answer{status: res.StatusCode, header: res.Header}
	}
	limited := func(a answer) bool { return a.status == http.StatusTooManyRequests }

	// Behind a proxy, the address that the proxy adds is counted, whatever the
	// caller has sent in the same header or in another one.
	behind := newServer(t, env, func(c *config.Config) {
		c.Limits.AddressPerMinute, c.HTTP.TrustedProxies = 3, []string{"127.0.0.0/8", "::1"}
	})
	user := 0
	exhaust(t, 3, func() answer { user++; return from(behind, testenv.ID(user), "203.0.113.7") })
	if !limited(from(behind, "50", "198.51.100.1, 203.0.113.7")) || !limited(from(behind, "51", "198.51.100.2", "203.0.113.7")) {
		t.Error("an address that the caller has made up is trusted")
	}
	if limited(from(behind, "52", "203.0.113.8")) {
		t.Error("another address is refused")
	}
	// All addresses of an IPv6 network count together.
	host := 0
	exhaust(t, 3, func() answer { host++; return from(behind, "53", "2001:db8::"+strconv.Itoa(host)) })
	// Calls without a good token count, too, but not for those with one.
	if a := from(behind, "", "203.0.113.9"); a.status != http.StatusUnauthorized {
		t.Errorf("status %d without a token", a.status)
	}
	exhaust(t, 2, func() answer { return from(behind, "", "203.0.113.9") })
	user = 60
	exhaust(t, 3, func() answer { user++; return from(behind, testenv.ID(user), "203.0.113.9") })

	// Without a trusted proxy, X-Forwarded-For is not read.
	bare := newServer(t, env, func(c *config.Config) { c.Limits.AddressPerMinute = 3 })
	n := 0
	exhaust(t, 3, func() answer { n++; return from(bare, "54", "203.0.113."+strconv.Itoa(100+n)) })
	for range 10 {
		bare.want(bare.service("GET", "/v1/boards", nil), http.StatusOK, nil)
	}
}

// Calls that were not counted one by one count together: the limit is exact.
func TestLimitOfAFrequentCaller(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env, func(c *config.Config) { c.Limits.UserPerMinute, c.Limits.AddressPerMinute = 20, 40 })
	s.wantRateLimited(exhaust(t, 20, func() answer { return s.as("1", "GET", "/v1/boards", nil) }))
}

// With the default limits, a call of somebody who calls seldom does not ask Redis.
func TestDefaultLimitsAreFree(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env, func(c *config.Config) { c.Limits = config.Default().Limits })
	s.want(s.as("1", "GET", "/v1/boards", nil), http.StatusOK, nil)
	s.want(s.as("2", "GET", "/v1/boards", nil), http.StatusOK, nil)
	keys, err := env.Redis.Keys(t.Context(), env.Keys.Prefix+"calls*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("counted in Redis: %v, %v", keys, err)
	}
}

// Without limits, no key is written to Redis; with both, one key each.
func TestLimitsUseOneKeyEach(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1} { // a key of a low limit lives for a minute
		env := testenv.Real(t)
		s := newServer(t, env, func(c *config.Config) { c.Limits.UserPerMinute, c.Limits.AddressPerMinute = limit, limit })
		s.want(s.as("1", "GET", "/v1/boards", nil), http.StatusOK, nil) // loads the script
		keys, err := env.Redis.Keys(t.Context(), env.Keys.Prefix+"calls*").Result()
		if err != nil {
			t.Fatal(err)
		}
		if want := limit * 2; len(keys) != want {
			t.Errorf("limit %d: keys %v, want %d", limit, keys, want)
		}
	}
}
