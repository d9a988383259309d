// Package stream follows rankings among friends for those who watch them: it
// asks again and again, once for all who watch the same, and passes on what
// has changed.
package stream

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"stepboard/models"
	"stepboard/services/ranking"
)

const (
	// pollTimeout bounds one look.
	pollTimeout = 5 * time.Second
	// patience is how many looks in a row may fail before watchers are told.
	patience = 3
)

// Rankings answers a ranking among friends.
type Rankings interface {
	Friends(ctx context.Context, q ranking.Query) (*models.Ranking, error)
}

// Query says which ranking is watched: the one of the board's current bucket.
type Query struct {
	Board  string
	Viewer models.UserID
	// Limit is the size of the page, from the top.
	Limit int
}

// Limits says how often is looked and for how many. A field that is 0 has its
// default.
type Limits struct {
	// Every is how long to wait between two looks: 1.5 s. A look costs two round
	// trips to Redis.
	Every time.Duration
	// Heartbeat is how often a watcher hears something where nothing changes:
	// 15 s, well within the time-outs of proxies.
	Heartbeat time.Duration
	// Life is how long one may watch before asking again, with a token that is
	// checked again: 5 minutes.
	Life time.Duration
	// PerUser and Total bound the watchers in this process: 5 and 2,000.
	PerUser, Total int
}

func (l Limits) withDefaults() Limits {
	if l.Every == 0 {
		l.Every = 1500 * time.Millisecond
	}
	if l.Heartbeat == 0 {
		l.Heartbeat = 15 * time.Second
	}
	if l.Life == 0 {
		l.Life = 5 * time.Minute
	}
	if l.PerUser == 0 {
		l.PerUser = 5
	}
	if l.Total == 0 {
		l.Total = 2000
	}
	return l
}

// Service follows rankings. Safe for concurrent use. Close ends it.
type Service struct {
	rankings Rankings
	limits   Limits

	mu      sync.Mutex
	closed  bool
	total   int
	perUser map[models.UserID]int
	feeds   map[Query]*feed
	running sync.WaitGroup
}

// New makes a service; Close must follow.
func New(rankings Rankings, limits Limits) *Service {
	return &Service{
		rankings: rankings, limits: limits.withDefaults(),
		perUser: make(map[models.UserID]int), feeds: make(map[Query]*feed),
	}
}

// Limits are those in force.
func (s *Service) Limits() Limits { return s.limits }

// Close ends all watching and waits for the looks that are under way. Whoever
// watches sees Updates close. It may be called again.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	for _, f := range s.feeds {
		f.cancel()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Watchers is how many watch in this process.
func (s *Service) Watchers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// feed is one ranking that is looked at for all who watch it.
type feed struct {
	query    Query
	cancel   context.CancelFunc
	watchers map[*Watcher]bool
}

// Watcher receives one ranking as it changes. Not safe for concurrent use.
type Watcher struct {
	// First is the ranking as it was when watching began, as JSON.
	First []byte
	// Updates brings each later state that differs from the one before, as JSON;
	// who is slow misses some and gets the latest. It closes when watching ends;
	// Err says why then.
	Updates <-chan []byte

	service *Service
	user    models.UserID
	updates chan []byte
	stopped bool

	// Guarded by the service's mu, but for err once updates is closed.
	feed *feed  // nil once it has ended
	last []byte // what was sent last
	err  error
}

// Watch looks at a ranking of a board's current bucket and goes on looking.
// Stop must follow. Errors: those of the ranking; CodeRateLimited where the
// user or everybody together watches as much as is allowed; CodeUnavailable
// once the service is closed.
func (s *Service) Watch(ctx context.Context, q Query) (*Watcher, error) {
	if err := s.admit(q.Viewer); err != nil {
		return nil, err
	}
	w := &Watcher{service: s, user: q.Viewer, updates: make(chan []byte, 1)}
	w.Updates = w.updates
	first, err := s.look(ctx, q)
	if err != nil {
		s.leave(q.Viewer)
		return nil, err
	}
	w.First, w.last = first, first
	s.join(q, w) //nolint:contextcheck // what is begun there outlives the request
	return w, nil
}

func (s *Service) admit(user models.UserID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return models.Unavailable("watch", context.Canceled)
	case s.perUser[user] >= s.limits.PerUser:
		return models.Errorf(models.CodeRateLimited, "this user watches %d times already: end one of them first", s.perUser[user])
	case s.total >= s.limits.Total:
		return models.Errorf(models.CodeRateLimited, "too many are watching; ask for the ranking from time to time instead")
	}
	s.total++
	s.perUser[user]++
	return nil
}

func (s *Service) leave(user models.UserID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.perUser[user]--; s.perUser[user] == 0 {
		delete(s.perUser, user)
	}
}

// look reads the ranking, as it is sent.
func (s *Service) look(ctx context.Context, q Query) ([]byte, error) {
	r, err := s.rankings.Friends(ctx, ranking.Query{Board: q.Board, Viewer: q.Viewer, Limit: q.Limit})
	if err != nil {
		return nil, err
	}
	return r.AppendJSON(nil), nil
}

// join adds a watcher to the feed of its query, which begins with the first.
func (s *Service) join(q Query, w *Watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		close(w.updates)
		return
	}
	f := s.feeds[q]
	if f == nil {
		// The looks belong to all who watch, not to the request of the first.
		ctx, cancel := context.WithCancel(context.Background())
		f = &feed{query: q, cancel: cancel, watchers: make(map[*Watcher]bool)}
		s.feeds[q] = f
		s.running.Go(func() { s.follow(ctx, f) })
	}
	w.feed = f
	f.watchers[w] = true
}

// Stop ends watching. It may be called again.
func (w *Watcher) Stop() {
	if w.stopped {
		return
	}
	w.stopped = true
	s := w.service
	s.mu.Lock()
	if f := w.feed; f != nil {
		w.feed = nil
		delete(f.watchers, w)
		if len(f.watchers) == 0 {
			f.cancel()
			// Whoever comes next begins another feed.
			delete(s.feeds, f.query)
		}
	}
	s.mu.Unlock()
	s.leave(w.user)
}

// Err says why watching has ended: nil where the service is closing. To be
// asked once Updates is closed.
func (w *Watcher) Err() error { return w.err }

// follow looks until nobody watches any more.
func (s *Service) follow(ctx context.Context, f *feed) {
	defer f.cancel()
	ticker := time.NewTicker(s.limits.Every)
	defer ticker.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			s.end(f, nil)
			return
		case <-ticker.C:
		}
		// Who comes while this look is under way has seen something newer.
		present := s.present(f)
		looking, cancel := context.WithTimeout(ctx, pollTimeout)
		now, err := s.look(looking, f.query)
		cancel()
		if err == nil {
			failures = 0
			s.tell(f, present, now)
			continue
		}
		if failures++; failures >= patience && ctx.Err() == nil {
			s.end(f, err)
			return
		}
	}
}

// present is who watches now.
func (s *Service) present(f *feed) []*Watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(f.watchers))
}

// tell passes a state on to those who have not seen it.
func (s *Service) tell(f *feed, present []*Watcher, now []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range present {
		if !f.watchers[w] || bytes.Equal(w.last, now) {
			continue
		}
		w.last = now
		// The place is free, or holds an older state: nobody else fills it.
		select {
		case <-w.updates:
		default:
		}
		w.updates <- now
	}
}

// end ends a feed for all who watch it.
func (s *Service) end(f *feed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.feeds[f.query] == f {
		delete(s.feeds, f.query)
	}
	for w := range f.watchers {
		w.feed, w.err = nil, err
		close(w.updates)
	}
	clear(f.watchers)
}
