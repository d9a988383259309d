package limit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/models"
	"stepboard/services/limit"
)

// counter is a fake limit.Counter. It returns the waits and errors of users and
// addresses, or hangs until the test ends.
type counter struct {
	userWait, addressWait time.Duration
	userErr, addressErr   error
	hang                  chan struct{} // nil if it does not hang

	mu    sync.Mutex
	calls []string
}

func (c *counter) record(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

func (c *counter) User(_ context.Context, user models.RowID, _ int) (time.Duration, error) {
	c.record("user " + user.String())
	if c.hang != nil {
		<-c.hang
	}
	return c.userWait, c.userErr
}

func (c *counter) Address(_ context.Context, address string, _ int) (time.Duration, error) {
	c.record("address " + address)
	if c.hang != nil {
		<-c.hang
	}
	return c.addressWait, c.addressErr
}

func TestTake(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	both := limit.Limits{User: 60, Address: 60}
	type stats struct{ Users, Addresses, Uncounted int64 }
	for _, tt := range []struct {
		name    string
		limits  limit.Limits
		counter *counter
		user    models.RowID
		address string
		calls   []string
		wait    time.Duration // 0 if the call is let through
		stats   stats
	}{
		{"within both limits", both, &counter{}, 1, "192.0.2.1", []string{"address 192.0.2.1", "user 1"}, 0, stats{}},
		{"no limits", limit.Limits{}, &counter{userWait: 1, addressWait: 1}, 1, "192.0.2.1", nil, 0, stats{}},
		{"users only", limit.Limits{User: 60}, &counter{addressWait: 1}, 1, "192.0.2.1", []string{"user 1"}, 0, stats{}},
		{"addresses only", limit.Limits{Address: 60}, &counter{userWait: 1}, 1, "192.0.2.1", []string{"address 192.0.2.1"}, 0, stats{}},
		{"no user", both, &counter{userWait: 1}, 0, "192.0.2.1", []string{"address 192.0.2.1"}, 0, stats{}},
		{"no address", both, &counter{addressWait: 1}, 1, "", []string{"user 1"}, 0, stats{}},
		{"text for an address", both, &counter{addressWait: 1}, 1, "localhost", []string{"user 1"}, 0, stats{}},
		{"too many of a user", both, &counter{userWait: time.Second}, 1, "", []string{"user 1"}, time.Second, stats{Users: 1}},
		{"too many from an address", both, &counter{addressWait: time.Second}, 0, "192.0.2.1", []string{"address 192.0.2.1"}, time.Second, stats{Addresses: 1}},
		{"too many of both: the longer wait", both, &counter{userWait: time.Second, addressWait: 2 * time.Second}, 1, "192.0.2.1",
			[]string{"address 192.0.2.1", "user 1"}, 2 * time.Second, stats{Users: 1, Addresses: 1}},
		{"Redis is away", both, &counter{userErr: away, addressErr: away}, 1, "192.0.2.1", []string{"address 192.0.2.1", "user 1"}, 0, stats{Uncounted: 2}},
		{"one count fails", both, &counter{userErr: away, addressWait: time.Second}, 1, "192.0.2.1",
			[]string{"address 192.0.2.1", "user 1"}, time.Second, stats{Addresses: 1, Uncounted: 1}},
		{"an IPv6 address", both, &counter{}, 0, "2001:db8:1:2:3:4:5:6", []string{"address 2001:db8:1:2::/64"}, 0, stats{}},
		{"an IPv6 address with a zone", both, &counter{}, 0, "fe80::1%eth0", []string{"address fe80::/64"}, 0, stats{}},
		{"an IPv4 address in IPv6", both, &counter{}, 0, "::ffff:192.0.2.1", []string{"address 192.0.2.1"}, 0, stats{}},
	} {
		s := limit.New(tt.limits, tt.counter)
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
		got := stats{s.Stats().Users.Load(), s.Stats().Addresses.Load(), s.Stats().Uncounted.Load()}
		if got != tt.stats {
			t.Errorf("%s: stats %+v, want %+v", tt.name, got, tt.stats)
		}
	}
}

// A Redis that hangs delays a call by the timeout of counting, once for both
// limits, and does not refuse it.
func TestTakeWhileRedisHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	s := limit.New(limit.Limits{User: 60, Address: 60}, &counter{hang: hang})
	if err := s.Take(t.Context(), 1, "192.0.2.1"); err != nil {
		t.Errorf("the call is refused: %v", err)
	}
	if n := s.Stats().Uncounted.Load(); n != 2 {
		t.Errorf("%d counts are missing, want 2", n)
	}
}

// A client that is gone does not wait for Redis.
func TestTakeOfAClientThatIsGone(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	defer close(hang)
	s := limit.New(limit.Limits{User: 60}, &counter{hang: hang})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Take(ctx, 1, ""); err != nil || s.Stats().Uncounted.Load() != 0 {
		t.Errorf("%v, %d counts are missing", err, s.Stats().Uncounted.Load())
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for perMinute, want := range map[int]bool{0: false, 1: true} {
		if got := limit.New(limit.Limits{User: 1, Address: perMinute}, nil).Addresses(); got != want {
			t.Errorf("with %d calls a minute: %v", perMinute, got)
		}
	}
}
