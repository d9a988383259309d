// Package limit limits how often users and addresses call. All processes count the
// calls of frequent callers together, in Redis. The only process on its stores counts them in
// its memory.
package limit

import (
	"context"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
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
	// User is about calls of a user, and about those of each upload address, counted separately.
	User int
	// Address is about calls with a good token, and about those without one, each counted
	// separately.
	Address int
	// Join is about tries of invite codes by a user.
	Join int
	// Login is about logins from an address.
	Login int
}

// Kind says which calls of a caller are counted together.
type Kind string

// The kinds of calls. The caller is a user, for CallsBy the id of an upload address, or for CallsFrom, Failures and Logins
// an address.
const (
	CallsOf   Kind = "calls of a user"
	CallsBy   Kind = "calls of an upload address"
	CallsFrom Kind = "calls with a good token"
	Failures  Kind = "calls without a good token"
	Joins     Kind = "tries to join a group"
	Logins    Kind = "logins"
)

// Counter counts calls.
type Counter interface {
	// Count counts n calls of a caller if they are within the limit. Otherwise it counts none
	// and returns how long to wait until they are.
	Count(ctx context.Context, kind Kind, caller string, perMinute, n int) (wait time.Duration, err error)
}

// Stats counts the work of this process.
type Stats struct {
	// Users, Keys, Addresses, Failures, Joins and Logins are the calls that were refused, by the limit that
	// they exceeded.
	Users, Keys, Addresses, Failures, Joins, Logins atomic.Int64
	// Reports are the calls that were refused because others of the same user were running.
	Reports atomic.Int64
	// Uncounted are the calls that were let through because Redis did not answer, or because
	// memory has no room for more callers.
	Uncounted atomic.Int64
}

// Service limits how often users and addresses call. Safe for concurrent use.
type Service struct {
	counter Counter
	log     *slog.Logger
	stats   Stats

	users, keys, addresses, failures, joins, logins *rule

	mu      sync.Mutex // guards running
	running map[models.UserID]*places
}

// New returns a service that counts in the counter.
func New(limits Limits, counter Counter, log *slog.Logger) *Service {
	s := &Service{counter: counter, log: log, running: make(map[models.UserID]*places)}
	of := func(kind Kind, perMinute int, refused *atomic.Int64, refusal, often string) *rule {
		return &rule{kind: kind, perMinute: perMinute, window: newWindow(perMinute), refusal: refusal, refused: refused, often: often}
	}
	s.users = of(CallsOf, limits.User, &s.stats.Users, "this user calls too often", "")
	s.keys = of(CallsBy, limits.User, &s.stats.Keys, "this upload address is used too often", "")
	s.joins = of(Joins, limits.Join, &s.stats.Joins, s.users.refusal, "")
	s.joins.window = newWindow(0)
	s.addresses = of(CallsFrom, limits.Address, &s.stats.Addresses, "this address calls too often",
		"calls from one address are often refused; many people may share it, or it is a proxy that http.trusted_proxies lacks")
	s.failures = of(Failures, limits.Address, &s.stats.Failures, "this address calls too often without a good token",
		"calls without a good token from one address are often refused")
	s.logins = of(Logins, limits.Login, &s.stats.Logins, "people log in too often from this address",
		"logins from one address are often refused; many people may share it, or it is a proxy that http.trusted_proxies lacks")
	return s
}

// rule is a limit of callers.
type rule struct {
	kind      Kind
	perMinute int // 0 for no limit
	window    *window
	refusal   string        // what a refused caller is told
	refused   *atomic.Int64 // counts refusals
	often     string        // what is logged if a caller is often refused; empty for nothing
}

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// Take counts a call of a user ("" for a call without a good token) from an address ("" for
// one that is not limited). It returns CodeRateLimited if the call exceeds a limit. Calls
// without a good token are counted separately, so they use up nothing of the limit of users who
// share the address. Redis is asked only about callers who have used a tenth of their limit in
// this process within the last minute. User and address are counted concurrently, in the time
// of one round trip. If Redis does not answer, the call is let through, and so are earlier ones
// that would have been counted with it: limits protect the service and must not take it down. Counting every call would
// cost each a round trip, and an outage of Redis would stop calls that need none.
func (s *Service) Take(ctx context.Context, user models.UserID, address string) error {
	return s.takeOf(ctx, s.users, string(user), address)
}

// TakeKey is Take of a call by an upload address, by its id (0 for a key that is none).
func (s *Service) TakeKey(ctx context.Context, id int64, address string) error {
	caller := ""
	if id > 0 {
		caller = strconv.FormatInt(id, 10)
	}
	return s.takeOf(ctx, s.keys, caller, address)
}

// takeOf counts a call of a caller, "" for none, by a rule, and of its address.
func (s *Service) takeOf(ctx context.Context, r *rule, caller, address string) error {
	var counts []<-chan count
	now := time.Now()
	of := s.failures
	if caller != "" {
		of = s.addresses
		counts = s.take(ctx, r, caller, now, counts)
	}
	if network := Network(address); network != "" {
		counts = s.take(ctx, of, network, now, counts)
	}
	return s.await(ctx, counts)
}

// Failing returns CodeRateLimited while another call of an address without a good token or key would be refused, as far as
// this process knows. It counts nothing, and asks nobody.
func (s *Service) Failing(address string) error {
	wait := s.failures.window.waits(Network(address), time.Now())
	if wait <= 0 {
		return nil
	}
	s.failures.refused.Add(1)
	return s.failures.refusalOf(wait)
}

// refusalOf returns the error of a refused call.
func (r *rule) refusalOf(wait time.Duration) *models.Error {
	refusal := models.Errorf(models.CodeRateLimited, "%s; wait as long as Retry-After says", r.refusal)
	refusal.Wait = wait
	return refusal
}

// take counts a call by a rule, and adds the count if Redis is asked.
func (s *Service) take(ctx context.Context, r *rule, caller string, now time.Time, counts []<-chan count) []<-chan count {
	if r.perMinute == 0 {
		return counts
	}
	n := r.window.add(caller, now)
	if n == 0 {
		return counts
	}
	return append(counts, s.count(ctx, r, caller, n))
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

// TakeJoin counts a try of an invite code, of a group or a friend, by a user. It returns
// CodeRateLimited if the user has tried too often. One round trip, in which Redis is asked
// about every try: each may be a guess. If Redis does not answer, the try is let through.
func (s *Service) TakeJoin(ctx context.Context, user models.UserID) error {
	return s.await(ctx, s.take(ctx, s.joins, string(user), time.Now(), nil))
}

// TakeLogin counts a login from an address ("" for one that is not limited), and returns CodeRateLimited if there are too
// many. It costs what Take costs. If Redis does not answer, the login is let through, as a call by Take.
func (s *Service) TakeLogin(ctx context.Context, address string) error {
	network := Network(address)
	if network == "" {
		return nil
	}
	return s.await(ctx, s.take(ctx, s.logins, network, time.Now(), nil))
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
				c.of.refused.Add(1)
				if refusal == nil || c.wait > refusal.Wait {
					refusal = c.of.refusalOf(c.wait)
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

// count is the result of counting calls by a rule.
type count struct {
	of   *rule
	wait time.Duration
	err  error
}

// count counts calls in the background, because a connection that hangs does
// not notice the end of a context. They count even if the client disconnects.
func (s *Service) count(ctx context.Context, r *rule, caller string, n int) <-chan count {
	counted := make(chan count, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
		defer cancel()
		wait, err := s.counter.Count(ctx, r.kind, caller, r.perMinute, n)
		if wait > 0 && r.window.refused(caller, n, time.Now().Add(wait)) && r.often != "" {
			s.log.WarnContext(ctx, r.often, "address", named(caller))
			s.log.DebugContext(ctx, r.often, "network", caller)
		}
		counted <- count{r, wait, err}
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
