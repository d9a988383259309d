// Package limit limits how often users and addresses call. All processes count the
// calls of frequent callers together, in Redis.
package limit

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"stepboard/models"
)

// countTimeout bounds how long a call waits to be counted. If Redis takes
// longer, the call is let through.
const countTimeout = 250 * time.Millisecond

// subscriberBits is the length of the network that one subscriber gets in IPv6. The
// subscriber may use every address of it, so they are counted together.
const subscriberBits = 64

// Limits are the largest numbers of calls in a minute; 0 means no limit.
type Limits struct {
	User int
	// Address is about calls with a good token, and about those without one, each counted
	// apart.
	Address int
	// Join is about tries of a user to join a group by an invite code.
	Join int
}

// Counter counts calls. Its methods return 0 if n more calls, or one more, are within the
// limit. Otherwise they count none and return how long to wait until they are.
type Counter interface {
	User(ctx context.Context, user models.UserID, perMinute, n int) (time.Duration, error)
	// Address counts calls with a good token, and Failures those without one.
	Address(ctx context.Context, address string, perMinute, n int) (time.Duration, error)
	Failures(ctx context.Context, address string, perMinute, n int) (time.Duration, error)
	Join(ctx context.Context, user models.UserID, perMinute int) (time.Duration, error)
}

// Stats counts the work of this process.
type Stats struct {
	// Users, Addresses, Failures and Joins are the calls that were refused, by the limit that
	// they exceeded.
	Users, Addresses, Failures, Joins atomic.Int64
	// Reports are the calls that were refused because others of the same user were running.
	Reports atomic.Int64
	// Uncounted are the calls that were let through because Redis did not answer.
	Uncounted atomic.Int64
}

// Service limits how often users and addresses call. Safe for concurrent use.
type Service struct {
	limits    Limits
	counter   Counter
	log       *slog.Logger
	users     *rule[models.UserID]
	addresses *rule[string]
	failures  *rule[string]
	// reports are the running calls about many days, and exports those of them that are exports.
	reports, exports *running
	stats            Stats
}

// New returns a service that counts in the counter.
func New(limits Limits, counter Counter, log *slog.Logger) *Service {
	s := &Service{
		limits: limits, counter: counter, log: log, reports: newRunning(maxReports), exports: newRunning(maxExports),
	}
	s.users = &rule[models.UserID]{
		perMinute: limits.User, window: newWindow[models.UserID](limits.User), count: counter.User,
		refusal: "this user calls too often", refused: &s.stats.Users,
	}
	s.addresses = &rule[string]{
		perMinute: limits.Address, window: newWindow[string](limits.Address), count: counter.Address,
		refusal: "this address calls too often", refused: &s.stats.Addresses,
		often: "calls from one address are often refused; many people may share it, or it is a proxy that http.trusted_proxies lacks",
	}
	s.failures = &rule[string]{
		perMinute: limits.Address, window: newWindow[string](limits.Address), count: counter.Failures,
		refusal: "this address calls too often without a good token", refused: &s.stats.Failures,
		often: "calls without a good token from one address are often refused",
	}
	return s
}

// rule is a limit of callers.
type rule[Caller comparable] struct {
	perMinute int // 0 for no limit
	window    *window[Caller]
	count     func(ctx context.Context, caller Caller, perMinute, n int) (time.Duration, error)
	refusal   string        // what a refused caller is told
	refused   *atomic.Int64 // counts refusals
	often     string        // what is logged if a caller is often refused; empty for nothing
}

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// Take counts a call of a user ("" for a call without a good token) from an address ("" for
// one that is not limited). It returns CodeRateLimited if the call exceeds a limit. Calls
// without a good token are counted apart, so they use up nothing of the limit of users who
// share the address. Redis is asked only about callers who have used a tenth of their limit in
// this process within the last minute. User and address are counted concurrently, in the time
// of one round trip. If Redis does not answer, the call is let through, and so are earlier ones
// that would have been counted with it: limits protect the service and must not take it down.
func (s *Service) Take(ctx context.Context, user models.UserID, address string) error {
	var counts []<-chan count
	now := time.Now()
	of := s.failures
	if user != "" {
		of = s.addresses
		counts = take(ctx, s, s.users, user, now, counts)
	}
	if network := Network(address); network != "" {
		counts = take(ctx, s, of, network, now, counts)
	}
	return s.await(ctx, counts)
}

// take counts a call by a rule, and adds the count if Redis is asked.
func take[Caller ~string](ctx context.Context, s *Service, r *rule[Caller], caller Caller, now time.Time, counts []<-chan count) []<-chan count {
	if r.perMinute == 0 {
		return counts
	}
	n := r.window.add(caller, now)
	if n == 0 {
		return counts
	}
	return append(counts, s.count(ctx, r.refusal, r.refused, func(ctx context.Context) (time.Duration, error) {
		wait, err := r.count(ctx, caller, r.perMinute, n)
		if wait > 0 && r.window.refused(caller, n) && r.often != "" {
			s.log.WarnContext(ctx, r.often, "address", named(string(caller)))
			s.log.DebugContext(ctx, r.often, "network", string(caller))
		}
		return wait, err
	}))
}

// named returns what the log says above debug level about a network that Network has returned:
// a private one, which may be that of a proxy, and of the others only that they are public,
// because they are people's.
func named(network string) string {
	address, _, _ := strings.Cut(network, "/")
	addr, err := netip.ParseAddr(address)
	if err == nil && (addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast()) {
		return network
	}
	return "public"
}

// TakeJoin counts a try of a user to join a group by an invite code. It returns
// CodeRateLimited if the user has tried too often. One round trip, in which Redis is asked
// about every try: each may be a guess. If Redis does not answer, the try is let through.
func (s *Service) TakeJoin(ctx context.Context, user models.UserID) error {
	if s.limits.Join == 0 {
		return nil
	}
	return s.await(ctx, []<-chan count{s.count(ctx, s.users.refusal, &s.stats.Joins, func(ctx context.Context) (time.Duration, error) {
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
	text    string        // what a refused caller is told
	refused *atomic.Int64 // counts refusals by this limit
	wait    time.Duration
	err     error
}

func (c count) refusal() *models.Error {
	return &models.Error{
		Code: models.CodeRateLimited, Wait: c.wait,
		Message: c.text + "; wait as long as Retry-After says",
	}
}

// count counts a call in the background, because a connection that hangs does
// not notice the end of a context. The call counts even if its client disconnects.
func (s *Service) count(ctx context.Context, text string, refused *atomic.Int64, take func(context.Context) (time.Duration, error)) <-chan count {
	counted := make(chan count, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
		defer cancel()
		wait, err := take(ctx)
		counted <- count{text: text, refused: refused, wait: wait, err: err}
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
