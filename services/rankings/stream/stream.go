// Package stream sends rankings of friends and groups to subscribers whenever they change. It
// polls each ranking once for all its subscribers, and broadcasts changes.
package stream

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"stepboard/internal/reuse"
	"stepboard/models"
	"stepboard/services/platform/limit"
	"stepboard/services/rankings/ranking"
)

const (
	// pollTimeout bounds one poll.
	pollTimeout = 5 * time.Second
	// maxFailures is the number of failed polls in a row after which the
	// subscriptions end with an error.
	maxFailures = 3
)

// Rankings computes rankings of circles.
type Rankings interface {
	Friends(ctx context.Context, q ranking.Query) (*models.Ranking, error)
	Group(ctx context.Context, q ranking.Query, group models.GroupID) (*models.Ranking, error)
}

// Notices tells of notices of a user on a board, each as JSON on one line. The caller must call stop.
// Implemented by passed.Feed.
type Notices interface {
	Watch(ctx context.Context, user models.UserID, board string) (events <-chan []byte, stop func(), err error)
}

// Query selects a ranking: the first page of the board's current bucket.
type Query struct {
	Board  string
	Viewer models.UserID
	// Group is the group whose members are ranked; empty for the viewer's friends.
	Group models.GroupID
	// Offset is that of the viewer's clock, which boards need whose days are each
	// user's own.
	Offset models.UTCOffset
	// Limit is the size of the page.
	Limit int
	// Likes is whether entries have their likes.
	Likes bool
}

// Limits bounds polls and subscriptions. A field that is 0 has its default.
type Limits struct {
	// PollInterval is the time between two polls of a ranking: 1.5 s. A poll
	// costs two round trips to Redis.
	PollInterval time.Duration
	// LikesInterval is the longest time between two reads of a ranking's likes: 30 s. They
	// cost one query, and are also read whenever the ranking has changed.
	LikesInterval time.Duration
	// Heartbeat is the interval of heartbeats to a subscriber without updates:
	// 15 s, well within the timeouts of proxies.
	Heartbeat time.Duration
	// MaxDuration bounds a subscription: 5 minutes. The client then subscribes
	// again, and its token is checked again.
	MaxDuration time.Duration
	// PerUser and Total bound the subscribers in this process: 5 and 2,000.
	PerUser, Total int
	// PerAddress bounds the subscribers of a network (limit.Network) in this process;
	// 0: no limit.
	PerAddress int
}

func (l Limits) withDefaults() Limits {
	l.PollInterval = cmp.Or(l.PollInterval, 1500*time.Millisecond)
	l.LikesInterval = cmp.Or(l.LikesInterval, 30*time.Second)
	l.Heartbeat = cmp.Or(l.Heartbeat, 15*time.Second)
	l.MaxDuration = cmp.Or(l.MaxDuration, 5*time.Minute)
	l.PerUser, l.Total = cmp.Or(l.PerUser, 5), cmp.Or(l.Total, 2000)
	return l
}

// Service polls rankings for subscribers. Safe for concurrent use.
type Service struct {
	rankings Rankings
	notices  Notices // may be nil
	limits   Limits

	mu         sync.Mutex
	closed     bool
	total      int
	perUser    map[models.UserID]int
	perAddress map[string]int // by network
	pollers    map[Query]*poller
	running    sync.WaitGroup
}

// New returns a service. The caller must call Close.
func New(rankings Rankings, notices Notices, limits Limits) *Service {
	return &Service{
		rankings: rankings, notices: notices, limits: limits.withDefaults(),
		perUser: make(map[models.UserID]int), perAddress: make(map[string]int), pollers: make(map[Query]*poller),
	}
}

// Limits returns the limits with their defaults filled in. The caller of
// Subscribe enforces Heartbeat and MaxDuration; the service enforces the others.
func (s *Service) Limits() Limits { return s.limits }

// Close ends all subscriptions, that is, closes their Updates, and waits for the
// current polls. It may be called more than once.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	for _, p := range s.pollers {
		p.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Subscribers returns the number of subscribers in this process.
func (s *Service) Subscribers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// poller polls one ranking for all its subscribers.
type poller struct {
	query       Query
	cancel      context.CancelFunc
	subscribers map[*Subscriber]bool
	// readLikes is when likes must be read next, whether the ranking has changed or not. Guarded
	// by the service's mu.
	readLikes time.Time
	// withoutLikes is the ranking without likes, as it was polled last. Only run uses it.
	withoutLikes []byte
}

// Subscriber receives one ranking as it changes. Not safe for concurrent use.
type Subscriber struct {
	// First is the ranking at the time of Subscribe, as JSON.
	First []byte
	// Updates delivers each later state that differs from the one before, as
	// JSON. A slow subscriber misses some and gets the latest. It is closed when
	// the subscription ends; Err then returns the reason.
	Updates <-chan []byte
	// Passed delivers, as JSON, who has passed the user meanwhile. It is nil in rankings of groups.
	Passed <-chan []byte

	unwatch func() // nil in rankings of groups
	service *Service
	user    models.UserID
	network string // "" if it is not limited
	updates chan []byte
	stopped bool

	// Guarded by the service's mu, but for err once updates is closed.
	poller *poller // nil once the subscription has ended
	last   []byte  // the last state sent
	err    error
}

// Subscribe reads the ranking once and subscribes a client at an address, which is ""
// for one that is not limited, to its changes. The caller must call Stop. Errors:
// those of the ranking; CodeRateLimited if the user, the address or all users
// together have as many subscriptions as the limits allow; CodeUnavailable if the
// service is closed.
func (s *Service) Subscribe(ctx context.Context, q Query, address string) (*Subscriber, error) {
	sub := &Subscriber{service: s, user: q.Viewer, network: limit.Network(address), updates: make(chan []byte, 1)}
	if err := s.reserve(sub); err != nil {
		return nil, err
	}
	sub.Updates = sub.updates
	first, err := s.poll(ctx, q, nil)
	if err == nil && q.Group == "" && s.notices != nil {
		sub.Passed, sub.unwatch, err = s.notices.Watch(ctx, q.Viewer, q.Board)
	}
	if err != nil {
		s.release(sub)
		return nil, err
	}
	sub.First, sub.last = first, first
	s.add(q, sub) //nolint:contextcheck // the poller outlives the request
	return sub, nil
}

// reserve counts a subscription, within the limits.
func (s *Service) reserve(sub *Subscriber) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	user, network, most := sub.user, sub.network, s.limits.PerAddress
	switch {
	case s.closed:
		return models.Unavailable("subscribe", context.Canceled)
	case s.perUser[user] >= s.limits.PerUser:
		return models.Errorf(models.CodeRateLimited, "this user has %d streams already: close one of them first", s.perUser[user])
	case most > 0 && network != "" && s.perAddress[network] >= most:
		return models.Errorf(models.CodeRateLimited, "this address has %d streams already; poll the ranking instead", most)
	case s.total >= s.limits.Total:
		return models.Errorf(models.CodeRateLimited, "too many streams are open; poll the ranking instead")
	}
	s.total++
	s.perUser[user]++
	s.perAddress[network]++
	return nil
}

// release undoes reserve.
func (s *Service) release(sub *Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.perUser[sub.user]--; s.perUser[sub.user] == 0 {
		delete(s.perUser, sub.user)
	}
	if s.perAddress[sub.network]--; s.perAddress[sub.network] == 0 {
		delete(s.perAddress, sub.network)
	}
}

// poll appends the ranking as JSON to buf.
func (s *Service) poll(ctx context.Context, q Query, buf []byte) ([]byte, error) {
	var (
		r    *models.Ranking
		err  error
		page = ranking.Query{Board: q.Board, Viewer: q.Viewer, Offset: q.Offset, Limit: q.Limit, Likes: q.Likes}
	)
	if q.Group == "" {
		r, err = s.rankings.Friends(ctx, page)
	} else {
		r, err = s.rankings.Group(ctx, page, q.Group)
	}
	if err != nil {
		return nil, err
	}
	buf = r.AppendJSON(buf)
	r.Release()
	return buf, nil
}

// next is poll for a poller. Unless likes must be read, it reads them only if the ranking has
// changed; otherwise changed is false.
func (s *Service) next(ctx context.Context, p *poller, likes bool, buf []byte) (state []byte, changed bool, err error) {
	if q := p.query; q.Likes && !likes {
		q.Likes = false
		if state, err = s.poll(ctx, q, buf); err != nil || bytes.Equal(state, p.withoutLikes) {
			return state, false, err
		}
		p.withoutLikes, buf = append(p.withoutLikes[:0], state...), state[:0]
	}
	state, err = s.poll(ctx, p.query, buf)
	return state, true, err
}

// states is for rankings that are compared with those before; most have not changed.
var states reuse.Slices[byte]

// add adds a subscriber to the poller of its query, and starts the poller with
// the first one.
func (s *Service) add(q Query, sub *Subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		close(sub.updates)
		return
	}
	p := s.pollers[q]
	if p == nil {
		// The poller serves all subscribers, so it does not end with the request
		// of the first.
		ctx, cancel := context.WithCancel(context.Background())
		p = &poller{query: q, cancel: cancel, subscribers: make(map[*Subscriber]bool)}
		s.pollers[q] = p
		s.running.Go(func() { s.run(ctx, p) })
	}
	sub.poller = p
	p.subscribers[sub] = true
	p.readLikes = time.Time{} // what changed since the subscriber's First is sent by a whole poll
}

// Stop ends the subscription. It may be called more than once.
func (sub *Subscriber) Stop() {
	if sub.stopped {
		return
	}
	sub.stopped = true
	s := sub.service
	s.mu.Lock()
	if p := sub.poller; p != nil {
		sub.poller = nil
		delete(p.subscribers, sub)
		if len(p.subscribers) == 0 {
			p.cancel()
			// The next subscriber starts another poller.
			delete(s.pollers, p.query)
		}
	}
	s.mu.Unlock()
	if sub.unwatch != nil {
		sub.unwatch()
	}
	s.release(sub)
}

// Err returns why the subscription has ended: nil if the service was closed. It
// must not be called before Updates is closed.
func (sub *Subscriber) Err() error { return sub.err }

// run polls until the poller is cancelled or has failed maxFailures times in a
// row.
func (s *Service) run(ctx context.Context, p *poller) {
	defer p.cancel()
	ticker := time.NewTicker(s.limits.PollInterval)
	defer ticker.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			s.end(p, nil)
			return
		case <-ticker.C:
		}
		// A subscriber added during this poll has already read a newer state.
		subscribers, likes := s.subscribersOf(p)
		pollCtx, cancel := context.WithTimeout(ctx, pollTimeout)
		memory := states.Get(0)
		state, changed, err := s.next(pollCtx, p, likes, *memory)
		cancel()
		if err == nil {
			failures = 0
			if changed {
				s.broadcast(p, subscribers, state)
			}
			*memory = state
			states.Put(memory)
			continue
		}
		s.mu.Lock()
		p.readLikes = time.Time{} // what this poll has missed
		s.mu.Unlock()
		if failures++; failures >= maxFailures && ctx.Err() == nil {
			s.end(p, err)
			return
		}
	}
}

// subscribersOf returns the poller's current subscribers, and whether likes must be read for them.
func (s *Service) subscribersOf(p *poller) (subscribers []*Subscriber, likes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if likes = !now.Before(p.readLikes); likes {
		p.readLikes = now.Add(s.limits.LikesInterval)
	}
	return slices.Collect(maps.Keys(p.subscribers)), likes
}

// broadcast sends a copy of a state to those of the given subscribers whose last state
// differs, unless they have stopped.
func (s *Service) broadcast(p *poller, subscribers []*Subscriber, state []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sent []byte // the copy, which all of them share
	for _, sub := range subscribers {
		if !p.subscribers[sub] || bytes.Equal(sub.last, state) {
			continue
		}
		if sent == nil {
			sent = bytes.Clone(state)
		}
		sub.last = sent
		// The channel's buffer is empty or holds an older state, which is
		// replaced. Only broadcast sends to it, so the send does not block.
		select {
		case <-sub.updates:
		default:
		}
		sub.updates <- sent
	}
}

// end ends the subscriptions of a poller.
func (s *Service) end(p *poller, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pollers[p.query] == p {
		delete(s.pollers, p.query)
	}
	for sub := range p.subscribers {
		sub.poller, sub.err = nil, err
		close(sub.updates)
	}
	clear(p.subscribers)
}
