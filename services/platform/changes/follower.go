package changes

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/internal/concurrent"
	"stepboard/models"
)

const (
	// PageSize is how many entries of a stream are read at once, unless Follower.Count says
	// otherwise.
	PageSize = 200
	// PollsInBound is how often a stream is read within the staleness of its copies.
	PollsInBound = 4
	// readTimeout bounds the reads of a server's streams up to their ends.
	readTimeout = 5 * time.Second
	// keepEvery is how often a follower keeps a stream and removes old entries, and
	// keepBack how far back entries stay: those that any follower may still need that
	// reads the stream more often than that.
	keepEvery = 10 * time.Second
	keepBack  = time.Minute
)

// Source reads streams that are named by a K and have entries of type E. Implemented by Reader.
type Source[K comparable, E any] interface {
	// Server identifies the server that has a stream, as far as is known.
	Server(ctx context.Context, stream K) any
	// Read reads streams of one server: a page for each read, in their order.
	Read(ctx context.Context, reads []Read[K]) []Page[E]
}

// Copy is what a process keeps of that which a stream is about. Its methods are called while
// the stream is locked.
type Copy[E any] interface {
	// Begin is called when the stream is followed from an entry on, its newest one at that
	// moment. Earlier changes are not applied.
	Begin(from Place) error
	// Apply applies the entries of a page, which was read by a call sent at a moment. After
	// an error the copy is dropped.
	Apply(page Page[E], sent time.Time) error
	// Drop drops what changes may be missing of.
	Drop(cause error)
}

// Follower follows streams. Its fields are set before it is used.
type Follower[K comparable, E any] struct {
	Source Source[K, E]
	// Elapsed is the clock that ages are measured by, such as time.Now, whose differences are
	// those of the monotonic clock.
	Elapsed models.Clock
	// Wait returns how long not to follow a stream after its copy was dropped; nil: it is
	// followed again at once.
	Wait func() time.Duration
	// Failed is called if streams of a server can't be read, for the first one of them.
	Failed func(ctx context.Context, stream K, err error)
	// Count is how many entries of a stream are read at once.
	Count int
}

// Stream is a stream that is followed, and the lock of what is kept of it.
type Stream[K comparable, E any] struct {
	sync.Mutex

	Key      K
	follower *Follower[K, E]
	copy     Copy[E]
	// proven is when the latest read was sent that has found the end of the stream: the copy
	// has all that was written before. Nil if entries may have been missed.
	proven atomic.Pointer[time.Time]

	// The rest is guarded by the lock.

	busy     bool      // being read
	last     Place     // the entry that was read last; zero if the stream is not followed
	server   string    // the server that it was read on
	resumeAt time.Time // when to follow the stream again
	passed   []passed  // places that were read, every keepEvery, the oldest first
}

// passed is an entry that was the last of its stream at some time.
type passed struct {
	at    time.Time
	place Place
}

// Stream returns a stream that is not followed yet.
func (f *Follower[K, E]) Stream(key K, copied Copy[E]) *Stream[K, E] {
	return &Stream[K, E]{Key: key, follower: f, copy: copied}
}

// Proven returns the moment before which all that was written is in the copy. It returns
// false if entries may have been missed.
func (s *Stream[K, E]) Proven() (at time.Time, ok bool) {
	if proven := s.proven.Load(); proven != nil {
		return *proven, true
	}
	return time.Time{}, false
}

// Following reports whether the copy is being kept current. The stream is locked.
func (s *Stream[K, E]) Following() bool { return s.last != Place{} }

// StartOver drops the copy, and follows the stream anew. The stream is locked and followed.
func (s *Stream[K, E]) StartOver(cause error) {
	s.proven.Store(nil)
	s.last, s.passed = Place{}, nil
	if s.follower.Wait != nil {
		s.resumeAt = s.follower.Elapsed().Add(s.follower.Wait())
	}
	s.copy.Drop(cause)
}

// Poll begins to read streams up to their ends, except those that are being read still. The
// streams of one server are read together, and those of others independently, so that a server
// that does not respond delays no others.
func (f *Follower[K, E]) Poll(ctx context.Context, streams []*Stream[K, E], reads *sync.WaitGroup) {
	var servers []any // in the order of their streams
	groups := make(map[any][]*Stream[K, E])
	for _, s := range streams {
		if !s.begin() {
			continue
		}
		server := f.Source.Server(ctx, s.Key)
		if groups[server] == nil {
			servers = append(servers, server)
		}
		groups[server] = append(groups[server], s)
	}
	for _, server := range servers {
		concurrent.Go(ctx, reads, func() { f.follow(ctx, groups[server]) })
	}
}

// begin reports whether the stream is to be read now, which end ends.
func (s *Stream[K, E]) begin() bool {
	s.Lock()
	defer s.Unlock()
	if s.busy || !s.Following() && s.follower.Elapsed().Before(s.resumeAt) {
		return false
	}
	s.busy = true
	return true
}

func (s *Stream[K, E]) end() {
	s.Lock()
	defer s.Unlock()
	s.busy = false
}

// follow reads streams of one server up to their ends, all in one round trip for each page of
// the longest.
func (f *Follower[K, E]) follow(ctx context.Context, streams []*Stream[K, E]) {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var failed *Stream[K, E]
	var failure error
	for left := streams; len(left) > 0 && bounded.Err() == nil; {
		sent := f.Elapsed()
		reads := make([]Read[K], len(left))
		for i, s := range left {
			reads[i] = s.next(sent)
		}
		var unfinished []*Stream[K, E]
		for i, page := range f.Source.Read(bounded, reads) {
			finished, err := left[i].take(reads[i], page, sent)
			switch {
			case err != nil && failure == nil:
				failed, failure = left[i], err
			case err == nil && !finished:
				unfinished = append(unfinished, left[i])
			}
		}
		left = unfinished
	}
	for _, s := range streams {
		s.end()
	}
	if failure != nil && ctx.Err() == nil {
		f.Failed(ctx, failed.Key, failure)
	}
}

// next returns the next read of the stream.
func (s *Stream[K, E]) next(now time.Time) Read[K] {
	s.Lock()
	defer s.Unlock()
	read := Read[K]{Stream: s.Key, After: s.last, Count: s.follower.Count}
	if len(s.passed) > 0 && now.Sub(s.passed[0].at) >= keepBack {
		read.Keep = s.passed[0].place
	}
	return read
}

// take passes on a page that was read by a call sent at a moment. It reports whether nothing
// is to be read any more.
func (s *Stream[K, E]) take(read Read[K], page Page[E], sent time.Time) (finished bool, err error) {
	s.Lock()
	defer s.Unlock()
	if s.last != read.After { // the copy was dropped meanwhile
		return true, nil
	}
	if read.Keep != (Place{}) && !page.Untrimmed {
		s.passed = s.passed[1:] // if that has failed, the next one is due soon
	}
	switch {
	case page.Err != nil:
		return true, page.Err
	case !s.Following():
		if err := s.copy.Begin(page.Last); err != nil {
			return true, err
		}
		s.server = page.Server
	default:
		if err := s.apply(page, sent); err != nil {
			s.StartOver(err)
			return s.follower.Wait != nil, nil
		}
	}
	s.last = page.Last
	if page.Complete {
		s.proven.Store(&sent)
		now := s.follower.Elapsed() // whoever reads the stream from now on passes the place
		if n := len(s.passed); n == 0 || now.Sub(s.passed[n-1].at) >= keepEvery {
			s.passed = append(s.passed, passed{now, s.last})
		}
	}
	return page.Complete && !page.Untrimmed, nil
}

// apply applies a page, unless entries may be missing.
func (s *Stream[K, E]) apply(page Page[E], sent time.Time) error {
	switch {
	case page.Lost != nil:
		return page.Lost
	case page.Server != s.server: // it may lack entries that were not read yet
		return ErrLost
	default:
		return s.copy.Apply(page, sent)
	}
}
