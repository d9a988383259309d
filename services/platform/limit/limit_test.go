package limit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/limit"
)

// counter is a fake limit.Counter. It returns the waits and errors of users and
// addresses, or hangs until the test ends.
type counter struct {
	userWait, addressWait, failureWait time.Duration
	userErr, addressErr, failureErr    error
	hang                               chan struct{} // nil if it does not hang

	mu    sync.Mutex
	calls []string
}

func (c *counter) record(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

func (c *counter) Count(ctx context.Context, kind limit.Kind, caller string, perMinute, n int) (time.Duration, error) {
	switch kind {
	case limit.CallsOf:
		if c.hang != nil {
			<-c.hang
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		c.record("user " + caller + times(n))
		return c.userWait, c.userErr
	case limit.CallsBy:
		c.record("key " + caller + times(n))
		return c.userWait, c.userErr
	case limit.CallsFrom:
		c.record("address " + caller + times(n))
		if c.hang != nil {
			<-c.hang
		}
		return c.addressWait, c.addressErr
	case limit.Failures:
		c.record("failures " + caller + times(n))
		return c.failureWait, c.failureErr
	case limit.Joins:
		c.record(fmt.Sprintf("join %s of %d%s", caller, perMinute, times(n)))
		return c.userWait, c.userErr
	default:
		return 0, errors.New("an unknown kind: " + string(kind))
	}
}

// times writes the number of calls if it is not 1.
func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" × %d", n)
}

func TestTake(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	// Below 10 a minute, all calls are counted in Redis.
	both := limit.Limits{User: 9, Address: 9}
	type stats struct{ Users, Addresses, Failures, Uncounted int64 }
	for _, tt := range []struct {
		name    string
		limits  limit.Limits
		counter *counter
		user    models.UserID
		address string
		calls   []string
		wait    time.Duration // 0 if the call is let through
		stats   stats
	}{
		{"within both limits", both, &counter{}, "1", "192.0.2.1", []string{"address 192.0.2.1", "user 1"}, 0, stats{}},
		{"no limits", limit.Limits{}, &counter{userWait: 1, addressWait: 1}, "1", "192.0.2.1", nil, 0, stats{}},
		{"users only", limit.Limits{User: 9}, &counter{addressWait: 1}, "1", "192.0.2.1", []string{"user 1"}, 0, stats{}},
		{"addresses only", limit.Limits{Address: 9}, &counter{userWait: 1}, "1", "192.0.2.1", []string{"address 192.0.2.1"}, 0, stats{}},
		{"no good token", both, &counter{userWait: 1, addressWait: 1}, "", "192.0.2.1", []string{"failures 192.0.2.1"}, 0, stats{}},
		{"a good token after too many without one", both, &counter{failureWait: 1}, "1", "192.0.2.1", []string{"address 192.0.2.1", "user 1"}, 0, stats{}},
		{"no address", both, &counter{addressWait: 1}, "1", "", []string{"user 1"}, 0, stats{}},
		{"text for an address", both, &counter{addressWait: 1}, "1", "localhost", []string{"user 1"}, 0, stats{}},
		{"too many of a user", both, &counter{userWait: time.Second}, "1", "", []string{"user 1"}, time.Second, stats{Users: 1}},
		{"too many from an address", both, &counter{addressWait: time.Second}, "1", "192.0.2.1",
			[]string{"address 192.0.2.1", "user 1"}, time.Second, stats{Addresses: 1}},
		{"too many without a good token", both, &counter{failureWait: time.Second}, "", "192.0.2.1", []string{"failures 192.0.2.1"}, time.Second, stats{Failures: 1}},
		{"too many of both: the longer wait", both, &counter{userWait: time.Second, addressWait: 2 * time.Second}, "1", "192.0.2.1",
			[]string{"address 192.0.2.1", "user 1"}, 2 * time.Second, stats{Users: 1, Addresses: 1}},
		{"Redis is away", both, &counter{userErr: away, addressErr: away}, "1", "192.0.2.1", []string{"address 192.0.2.1", "user 1"}, 0, stats{Uncounted: 2}},
		{"one count fails", both, &counter{userErr: away, addressWait: time.Second}, "1", "192.0.2.1",
			[]string{"address 192.0.2.1", "user 1"}, time.Second, stats{Addresses: 1, Uncounted: 1}},
		{"an IPv6 address", both, &counter{}, "", "2001:db8:1:2:3:4:5:6", []string{"failures 2001:db8:1:2::/64"}, 0, stats{}},
		{"an IPv6 address with a zone", both, &counter{}, "", "fe80::1%eth0", []string{"failures fe80::/64"}, 0, stats{}},
		{"an IPv4 address in IPv6", both, &counter{}, "", "::ffff:192.0.2.1", []string{"failures 192.0.2.1"}, 0, stats{}},
	} {
		s := limit.New(tt.limits, tt.counter, testenv.Log())
		err := s.Take(t.Context(), tt.user, tt.address)
		var refusal *models.Error
		switch {
		case tt.wait == 0 && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.wait > 0 && (!errors.As(err, &refusal) || refusal.Code != models.CodeRateLimited || refusal.Wait != tt.wait):
			t.Errorf("%s: %+v, want a wait of %v", tt.name, err, tt.wait)
		}
		slices.Sort(tt.counter.calls)
		if diff := cmp.Diff(tt.calls, tt.counter.calls); diff != "" {
			t.Errorf("%s: counted (-want +got):\n%s", tt.name, diff)
		}
		got := stats{s.Stats().Users.Load(), s.Stats().Addresses.Load(), s.Stats().Failures.Load(), s.Stats().Uncounted.Load()}
		if got != tt.stats {
			t.Errorf("%s: stats %+v, want %+v", tt.name, got, tt.stats)
		}
	}
}

// Calls by an upload address count for it and its network, and not for its user. Those with a key that is none count as calls
// without a token do. While they are refused, Failing says so, and counts nothing.
func TestTakeKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id      int64
		counter *counter
		calls   []string
		refused string
		failing bool
	}{
		{7, &counter{}, []string{"address 192.0.2.1", "key 7"}, "", false},
		{7, &counter{userWait: time.Minute}, []string{"address 192.0.2.1", "key 7"}, "this upload address is used too often", false},
		{7, &counter{failureWait: time.Minute}, []string{"address 192.0.2.1", "key 7"}, "", false},
		{0, &counter{failureWait: time.Minute}, []string{"failures 192.0.2.1"}, "without a good token", true},
		{0, &counter{}, []string{"failures 192.0.2.1"}, "", false},
	} {
		for _, perMinute := range []int{9, 10} { // below 10, each call is counted at once
			tt.counter.calls = nil
			s := limit.New(limit.Limits{User: perMinute, Address: perMinute}, tt.counter, testenv.Log())
			var err error
			for range 1 + perMinute/10 {
				err = s.TakeKey(t.Context(), tt.id, "192.0.2.1")
			}
			slices.Sort(tt.counter.calls)
			for i, call := range tt.counter.calls {
				tt.counter.calls[i], _, _ = strings.Cut(call, " ×")
			}
			if message := fmt.Sprint(err); !slices.Equal(tt.counter.calls, tt.calls) || (err != nil) != (tt.refused != "") || !strings.Contains(message, tt.refused) {
				t.Errorf("%+v: %v", tt, err)
			}
			err = s.Failing("192.0.2.1")
			if refusal := new(models.Error); (err != nil) != tt.failing || tt.failing && (!errors.As(err, &refusal) || refusal.Code != models.CodeRateLimited || refusal.Wait <= 0) {
				t.Errorf("%+v: failing: %v", tt, err)
			}
			if err := s.Failing("192.0.2.2"); err != nil {
				t.Errorf("another network: %v", err)
			}
		}
	}
}

// A Redis that hangs delays a call by the timeout of counting, once for both
// limits, and does not refuse it.
func TestTakeWhileRedisHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	s := limit.New(limit.Limits{User: 9, Address: 9}, &counter{hang: hang}, testenv.Log())
	if err := s.Take(t.Context(), "1", "192.0.2.1"); err != nil {
		t.Errorf("the call is refused: %v", err)
	}
	if n := s.Stats().Uncounted.Load(); n != 2 {
		t.Errorf("%d counts are missing, want 2", n)
	}
}

// A client that is gone does not wait for Redis, but its call counts.
func TestTakeOfAClientThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{hang: make(chan struct{})}
		s := limit.New(limit.Limits{User: 9}, c, testenv.Log())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Take(ctx, "1", ""); err != nil || s.Stats().Uncounted.Load() != 0 {
			t.Errorf("%v, %d counts are missing", err, s.Stats().Uncounted.Load())
		}
		close(c.hang)
		synctest.Wait()
		if diff := cmp.Diff([]string{"user 1"}, c.calls); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

// Redis is asked only about callers who have used a tenth of their limit in this
// process, and then all of their calls are counted.
func TestTakeAsksAboutFrequentCallersOnly(t *testing.T) {
	t.Parallel()
	c := &counter{}
	s := limit.New(limit.Limits{User: 40, Address: 80}, c, testenv.Log())
	take := func(n int, user models.UserID, address string) {
		t.Helper()
		for range n {
			if err := s.Take(t.Context(), user, address); err != nil {
				t.Fatal(err)
			}
		}
	}
	take(4, "1", "")
	take(4, "2", "")
	take(8, "", "192.0.2.1")
	take(8, "", "2001:db8::1")
	if len(c.calls) > 0 {
		t.Errorf("asked about callers within a tenth: %v", c.calls)
	}
	take(3, "1", "")
	take(2, "", "2001:db8::2") // the same network
	if diff := cmp.Diff([]string{"user 1 × 5", "user 1", "user 1", "failures 2001:db8::/64 × 9", "failures 2001:db8::/64"}, c.calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Calls that passed without Redis are counted with the next call, and with a later
// one if Redis refuses that. If Redis does not answer, it may have counted them.
func TestTakeCountsEarlierCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		counter *counter
		refused []bool
		counted []string
	}{
		{"counted", &counter{}, []bool{false, false, false, false}, []string{"user 1 × 3", "user 1"}},
		{"refused", &counter{userWait: time.Second}, []bool{false, false, true, true}, []string{"user 1 × 3", "user 1 × 3"}},
		{
			"no answer", &counter{userErr: errors.New("connection refused")},
			[]bool{false, false, false, false},
			[]string{"user 1 × 3", "user 1"},
		},
	} {
		s := limit.New(limit.Limits{User: 20}, tt.counter, testenv.Log())
		var refused []bool
		for range 4 {
			refused = append(refused, s.Take(t.Context(), "1", "") != nil)
		}
		if diff := cmp.Diff(tt.refused, refused); diff != "" {
			t.Errorf("%s: refused (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.counted, tt.counter.calls); diff != "" {
			t.Errorf("%s: counted (-want +got):\n%s", tt.name, diff)
		}
	}
}

// budget is a limit.Counter with a number of calls left, for all users together.
type budget struct {
	mu   sync.Mutex
	left int
}

func (b *budget) Count(_ context.Context, _ limit.Kind, _ string, _, n int) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return time.Second, nil
	}
	b.left -= n
	return 0, nil
}

// Calls at the same time exceed the limit by a tenth at most.
func TestTakeConcurrently(t *testing.T) {
	t.Parallel()
	s := limit.New(limit.Limits{User: 100}, &budget{left: 100}, testenv.Log())
	var passed atomic.Int64
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			for range 50 {
				if s.Take(t.Context(), "1", "") == nil {
					passed.Add(1)
				}
			}
		})
	}
	testenv.Wait(t, "the callers end", &callers)
	if n := passed.Load(); n < 100 || n > 110 {
		t.Errorf("%d calls have passed, want 100 to 110", n)
	}
}

// A minute later, a caller's first calls pass without Redis again.
func TestTakeAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counter{}
		s := limit.New(limit.Limits{User: 20}, c, testenv.Log())
		for range 2 {
			for range 3 {
				if err := s.Take(t.Context(), "1", ""); err != nil {
					t.Fatal(err)
				}
			}
			<-time.After(time.Minute) // on the clock of the bubble
		}
		if diff := cmp.Diff([]string{"user 1 × 3", "user 1 × 3"}, c.calls); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// The log says that an address is refused for more than a tenth of the limit within a minute.
// Above debug level it names only private addresses.
func TestTakeWarnsOfAnAddressThatIsOftenRefused(t *testing.T) {
	t.Parallel()
	shared := `level=WARN msg="calls from one address are often refused; many people may share it, or it is a proxy that http.trusted_proxies lacks" address=`
	failing := `level=WARN msg="calls without a good token from one address are often refused" address=`
	for _, tt := range []struct {
		name, address string
		limit         int
		user          models.UserID
		refused       int
		want          string
	}{
		{"seldom", "192.0.2.1", 20, "1", 2, ""},
		{"often", "192.0.2.1", 20, "1", 3, shared + "public\n"},
		{"a low limit", "192.0.2.1", 9, "1", 1, shared + "public\n"},
		{"without a good token", "192.0.2.1", 20, "", 3, failing + "public\n"},
		{"a private address", "10.0.0.7", 20, "1", 3, shared + "10.0.0.7\n"},
		{"a private address of IPv6", "fd00::7", 20, "1", 3, shared + "fd00::/64\n"},
		{"a public address of IPv6", "2001:db8::7", 20, "", 3, failing + "public\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log testenv.Buffer
			s := limit.New(limit.Limits{Address: tt.limit}, &counter{addressWait: time.Second, failureWait: time.Second}, slog.New(slog.NewTextHandler(&log,
				&slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				}})))
			for range 2 { // what was refused a minute ago does not count
				for refused := 0; refused < tt.refused; {
					if s.Take(t.Context(), tt.user, tt.address) != nil {
						refused++
					}
				}
				<-time.After(time.Minute)
			}
			if diff := cmp.Diff(strings.Repeat(tt.want, 2), log.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.name, diff)
			}
		})
	}
}
