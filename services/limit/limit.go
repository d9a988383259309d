// Package limit limits how often users and addresses call. All processes count the
// calls of frequent callers together, in Redis.
package limit

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"stepboard/models"
)

// countTimeout bounds how long a call waits to be counted. If Redis takes
// longer, the call is let through.
const countTimeout = 250 * time.Millisecond

// subscriberBits is the length of the network that one subscriber gets in IPv6.
// Who has one address of a /64 has all of them, so they are counted together.
const subscriberBits = 64

// Limits are the largest numbers of calls in a minute; 0 means no limit.
type Limits struct {
	User, Address int
	// Join is about tries of a user to join a group by an invite code.
	Join int
}

// Counter counts calls. Its methods return 0 if n more calls, or one more, are within the
// limit. Otherwise they count none and return how long to wait until they are.
type Counter interface {
	User(ctx context.Context, user models.UserID, perMinute, n int) (time.Duration, error)
	Address(ctx context.Context, address string, perMinute, n int) (time.Duration, error)
	Join(ctx context.Context, user models.UserID, perMinute int) (time.Duration, error)
}

// Stats counts the work of this process.
type Stats struct {
	// Users and Addresses are the calls that were refused, by the limit that they
	// exceeded.
	Users, Addresses, Joins atomic.Int64
	// Uncounted are the calls that were let through because Redis did not answer.
	Uncounted atomic.Int64
}

// Service limits how often users and addresses call. Safe for concurrent use.
type Service struct {
	limits    Limits
	counter   Counter
	users     *window[models.UserID]
	addresses *window[string]
	stats     Stats
}

// New returns a service that counts in the counter.
func New(limits Limits, counter Counter) *Service {
	return &Service{
		limits: limits, counter: counter,
		users: newWindow[models.UserID](limits.User), addresses: newWindow[string](limits.Address),
	}
}

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// Take counts a call of a user ("" for none) from an address ("" for one that is
// not limited). It returns CodeRateLimited if the call exceeds a limit. Redis is
// asked only about callers who have used a tenth of their limit in this process
// within the last minute. Both are counted concurrently, in the time of one round
// trip. If Redis does not answer, the call is let through, and so are earlier ones
// that would have been counted with it: limits protect the service and must not take
// it down.
func (s *Service) Take(ctx context.Context, user models.UserID, address string) error {
	var counts []<-chan count
	now := time.Now()
	if s.limits.User > 0 && user != "" {
		if n := s.users.add(user, now); n > 0 {
			counts = append(counts, s.count(ctx, "this user", &s.stats.Users, func(ctx context.Context) (time.Duration, error) {
				wait, err := s.counter.User(ctx, user, s.limits.User, n)
				if wait > 0 {
					s.users.refused(user, n)
				}
				return wait, err
			}))
		}
	}
	if network := Network(address); s.limits.Address > 0 && network != "" {
		if n := s.addresses.add(network, now); n > 0 {
			counts = append(counts, s.count(ctx, "this address", &s.stats.Addresses, func(ctx context.Context) (time.Duration, error) {
				wait, err := s.counter.Address(ctx, network, s.limits.Address, n)
				if wait > 0 {
					s.addresses.refused(network, n)
				}
				return wait, err
			}))
		}
	}
	return s.await(ctx, counts)
}

// TakeJoin counts a try of a user to join a group by an invite code. It returns
// CodeRateLimited if the user has tried too often. One round trip, in which Redis is asked
// about every try: each may be a guess. If Redis does not answer, the try is let through.
func (s *Service) TakeJoin(ctx context.Context, user models.UserID) error {
	if s.limits.Join == 0 {
		return nil
	}
	return s.await(ctx, []<-chan count{s.count(ctx, "this user", &s.stats.Joins, func(ctx context.Context) (time.Duration, error) {
		return s.counter.Join(ctx, user, s.limits.Join)
	})})
}

// await waits for the counts of a call, for at most countTimeout, and returns
// CodeRateLimited if one of them is above its limit.
func (s *Service) await(ctx context.Context, counts []<-chan count) error {
	if len(counts) == 0 {
		return nil
	}
	timeout := time.NewTimer(countTimeout)
	defer timeout.Stop()
	var refusal *models.Error
	for _, counted := range counts {
		select {
		case c := <-counted:
			if c.err != nil {
				s.stats.Uncounted.Add(1)
			} else if c.wait > 0 {
				c.refused.Add(1)
				if refusal == nil || c.wait > refusal.Wait {
					refusal = c.refusal()
				}
			}
		case <-timeout.C:
			s.stats.Uncounted.Add(1)
			timeout.Reset(0) // the other count gets no more time
		case <-ctx.Done():
			return nil // the client is gone
		}
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

// count is the result of counting one call against one limit.
type count struct {
	who     string        // "this user" or "this address"
	refused *atomic.Int64 // counts refusals by this limit
	wait    time.Duration
	err     error
}

func (c count) refusal() *models.Error {
	return &models.Error{
		Code: models.CodeRateLimited, Wait: c.wait,
		Message: fmt.Sprintf("%s calls too often; wait as long as Retry-After says", c.who),
	}
}

// count counts a call in the background, because a connection that hangs does
// not notice the end of a context. The call counts even if its client disconnects.
func (s *Service) count(ctx context.Context, who string, refused *atomic.Int64, take func(context.Context) (time.Duration, error)) <-chan count {
	counted := make(chan count, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
		defer cancel()
		wait, err := take(ctx)
		counted <- count{who: who, refused: refused, wait: wait, err: err}
	}()
	return counted
}

// Network returns the network that a client address is counted under: the address
// itself for IPv4, its /64 for IPv6, "" if it is not an address.
func Network(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, err := addr.Prefix(subscriberBits)
	if err != nil {
		return ""
	}
	return network.String()
}
