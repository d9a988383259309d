package passed

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"

	"stepboard/models"
)

// Feed tells the open streams of this process who has passed their users. A notice may be of another
// process. Streams are told at most once; what is lost is not told again. Safe for concurrent use.
type Feed struct {
	users  models.Finder
	render Render
	log    *slog.Logger
	// publish passes notices to the feeds of all processes. One round trip, or none without Redis.
	publish func(ctx context.Context, notices []*notice) error

	mu       sync.Mutex
	watchers map[models.RowID]map[*watcher]bool
}

// watcher is an open stream.
type watcher struct {
	board  string
	events chan []byte
}

// NewLocalFeed returns the feed of the only process.
func NewLocalFeed(users models.Finder, render Render, log *slog.Logger) *Feed {
	f := newFeed(users, render, log)
	f.publish = func(ctx context.Context, notices []*notice) error {
		f.deliver(ctx, notices)
		return nil
	}
	return f
}

func newFeed(users models.Finder, render Render, log *slog.Logger) *Feed {
	return &Feed{users: users, render: render, log: log, watchers: make(map[models.RowID]map[*watcher]bool)}
}

// Watch returns the notices of a user on a board from now on, each as JSON on one line. The caller
// must call stop. A user who does not exist gets none. CodeUnavailable if a store is away.
func (f *Feed) Watch(ctx context.Context, user models.UserID, board string) (events <-chan []byte, stop func(), err error) {
	row, err := f.users.FindOne(ctx, user)
	if err != nil || row == 0 {
		return nil, func() {}, err
	}
	w := &watcher{board, make(chan []byte, 1)} // notices are an hour apart
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers[row] == nil {
		f.watchers[row] = make(map[*watcher]bool)
	}
	f.watchers[row][w] = true
	return w.events, func() { f.stop(row, w) }, nil
}

func (f *Feed) stop(row models.RowID, w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if delete(f.watchers[row], w); len(f.watchers[row]) == 0 {
		delete(f.watchers, row)
	}
}

// deliver renders notices of users who have a stream, and sends them to it. Two queries for each.
func (f *Feed) deliver(ctx context.Context, notices []*notice) {
	for _, n := range notices {
		to := f.of(n)
		if len(to) == 0 {
			continue
		}
		told, err := f.render(ctx, n)
		if err != nil { // nobody is left in it, or SQL is away
			f.log.DebugContext(ctx, "a stream is not told who has passed its user", "error", err)
			continue
		}
		text, err := json.Marshal(told)
		if err != nil { // it has numbers and texts only
			panic(err)
		}
		for _, w := range to {
			select {
			case w.events <- text:
			default: // it is slow
			}
		}
	}
}

// of returns the streams that a notice is for.
func (f *Feed) of(n *notice) (to []*watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.watchers[n.User] {
		if w.board == n.Board {
			to = append(to, w)
		}
	}
	return to
}
