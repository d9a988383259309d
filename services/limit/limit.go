// Package limit says whether somebody calls too often. All processes count
// together, in Redis.
package limit

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"stepboard/models"
)

// patience bounds how long a call waits to be counted. A Redis that takes
// longer is one that does not answer.
const patience = 250 * time.Millisecond

// v6Network is how much of an IPv6 address tells one subscriber from another:
// who has one address has all of its /64.
const v6Network = 64

// Limits are most calls in a minute; 0 is any number.
type Limits struct {
	User, Address int
}

// Counter counts calls. It answers how long to wait until the next call is
// within the limit: 0 where this one is.
type Counter interface {
	User(ctx context.Context, user models.UserID, perMinute int) (time.Duration, error)
	Address(ctx context.Context, address string, perMinute int) (time.Duration, error)
}

// Stats is what this process has done.
type Stats struct {
	// Users and Addresses are calls that were refused, by whose limit it was.
	Users, Addresses atomic.Int64
	// Uncounted are calls that were let through because Redis did not answer.
	Uncounted atomic.Int64
}

// Service limits how often somebody calls. Safe for concurrent use.
type Service struct {
	limits  Limits
	counter Counter
	stats   Stats
}

// New makes a service.
func New(limits Limits, counter Counter) *Service {
	return &Service{limits: limits, counter: counter}
}

// Stats is what this process has done.
func (s *Service) Stats() *Stats { return &s.stats }

// Addresses tells whether the address of a call matters.
func (s *Service) Addresses() bool { return s.limits.Address > 0 }

// Take counts a call of a user (0 for nobody) from an address (empty for one
// that does not matter): CodeRateLimited where it is one too many. Both are
// counted at the same time, in one round trip's time to Redis, and with neither
// limit set Redis is not asked. Where Redis does not answer the call is let
// through: a limit is there to keep the service up, not to take it down.
func (s *Service) Take(ctx context.Context, user models.UserID, address string) error {
	var counts []<-chan count
	if s.limits.User > 0 && user != 0 {
		counts = append(counts, s.begin(ctx, &s.stats.Users, "this user", func(ctx context.Context) (time.Duration, error) {
			return s.counter.User(ctx, user, s.limits.User)
		}))
	}
	if network := networkOf(address); s.limits.Address > 0 && network != "" {
		counts = append(counts, s.begin(ctx, &s.stats.Addresses, "this address", func(ctx context.Context) (time.Duration, error) {
			return s.counter.Address(ctx, network, s.limits.Address)
		}))
	}
	if len(counts) == 0 {
		return nil
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	var refusal *models.Error
	for _, counted := range counts {
		select {
		case c := <-counted:
			if c.err != nil {
				s.stats.Uncounted.Add(1)
			} else if c.wait > 0 {
				c.refused.Add(1)
				if refusal == nil || c.wait > refusal.Wait {
					refusal = &models.Error{
						Code: models.CodeRateLimited, Wait: c.wait,
						Message: fmt.Sprintf("%s calls too often; wait as long as Retry-After says", c.who),
					}
				}
			}
		case <-late.C:
			s.stats.Uncounted.Add(1)
			late.Reset(0) // the other one does not get more time
		case <-ctx.Done():
			return nil // nobody waits for the answer
		}
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// count is what counting has come to.
type count struct {
	who     string
	refused *atomic.Int64
	wait    time.Duration
	err     error
}

// begin counts in the background: a connection that hangs does not listen to a
// context.
func (s *Service) begin(ctx context.Context, refused *atomic.Int64, who string, take func(context.Context) (time.Duration, error)) <-chan count {
	counted := make(chan count, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		wait, err := take(ctx)
		counted <- count{who: who, refused: refused, wait: wait, err: err}
	}()
	return counted
}

// networkOf is what of an address is counted together; empty for what is none.
func networkOf(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, err := addr.Prefix(v6Network)
	if err != nil {
		return ""
	}
	return network.String()
}
