// Package repeats keeps warnings and errors that are repeated from filling the log.
package repeats

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// quiet is the time without a repetition after which a warning has ended. It is longer
	// than the pauses of background work.
	quiet = 2 * time.Minute
	// countEvery is the time between two lines with a count.
	countEvery = 10 * time.Minute
	// maxOpen bounds the warnings that are counted separately at a time. Above it, those with
	// the same text are counted together.
	maxOpen = 1000
)

// The attributes that a line about repetitions has besides those of the warning.
const (
	repeatedKey = "repeated" // how often the warning was repeated after its first line
	beganKey    = "began"    // when the first line was written
	endedKey    = "ended"    // when it was repeated last
)

// distinguishing holds the attributes whose values make two warnings with the same text different.
// Each has few values. Others, such as ids and the texts of errors, differ each time.
var distinguishing = []string{
	"action", "address", "board", "broker", "bucket", "job", "kid", "kind", "panic", "store", "target", "to", "warning", "work",
}

// Handler is a slog.Handler that writes the first of several warnings or errors that say
// the same, and counts the others. Every countEvery it writes the last of them with
// "repeated" and "began". When none has followed for quiet, it writes it once more, with
// "ended". A warning that is not repeated is one line. Lines below level warn are passed on.
// Safe for concurrent use.
type Handler struct {
	next  slog.Handler
	state *state // shared by all handlers that WithAttrs and WithGroup return
}

// state holds the warnings that have not ended.
type state struct {
	mu     sync.Mutex
	open   map[string]*warning
	closed bool
}

// warning is one that has not ended.
type warning struct {
	next     slog.Handler
	timer    *time.Timer
	began    time.Time
	repeated int
	// last is the last repetition.
	last slog.Record
	// lastAt is when the warning was last written or repeated, and countAt when the next
	// line with a count is due.
	lastAt, countAt time.Time
}

// NewHandler returns a handler that writes to another one. Close must follow.
func NewHandler(next slog.Handler) *Handler {
	return &Handler{next: next, state: &state{open: make(map[string]*warning)}}
}

// Unbounded returns a logger that writes each line. It is for lines that say different things
// in the same words, such as the line of a request.
func Unbounded(log *slog.Logger) *slog.Logger {
	if h, ok := log.Handler().(*Handler); ok {
		return slog.New(h.next)
	}
	return log
}

// Enabled is part of slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle is part of slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && h.state.repeats(h.next, r) { //nolint:contextcheck // its last line is written when the call is long over
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs is part of slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{next: h.next.WithAttrs(attrs), state: h.state}
}

// WithGroup is part of slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), state: h.state}
}

// Close writes the counts that are not written yet. From then on every line is passed on.
func (h *Handler) Close() {
	s := h.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, w := range s.open {
		w.timer.Stop()
		w.write(false)
	}
	clear(s.open)
}

// repeats reports whether a record repeats a warning, and counts it.
func (s *state) repeats(next slog.Handler, r slog.Record) bool {
	key := keyOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	now := time.Now()
	w := s.open[key]
	if w == nil && len(s.open) >= maxOpen {
		key = r.Message
		w = s.open[key]
	}
	if w != nil {
		w.repeated++
		w.last, w.lastAt = r.Clone(), now
		return true
	}
	w = &warning{next: next, began: now, lastAt: now, countAt: now.Add(countEvery)}
	w.timer = time.AfterFunc(quiet, func() { s.look(key, w) })
	s.open[key] = w
	return false
}

// look ends a warning that is not repeated any more, and writes the count of another one if
// it is due.
func (s *state) look(key string, w *warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	now := time.Now()
	if now.Sub(w.lastAt) >= quiet {
		w.write(true)
		delete(s.open, key)
		return
	}
	if !now.Before(w.countAt) {
		w.write(false)
		w.countAt = now.Add(countEvery)
	}
	w.timer.Reset(min(w.lastAt.Add(quiet).Sub(now), w.countAt.Sub(now)))
}

// write writes the last repetition with its count, if there is one.
func (w *warning) write(ended bool) {
	if w.repeated == 0 {
		return
	}
	r := w.last.Clone()
	r.Time = time.Now()
	r.AddAttrs(slog.Int(repeatedKey, w.repeated), slog.Time(beganKey, w.began))
	if ended {
		r.AddAttrs(slog.Time(endedKey, w.lastAt))
	}
	_ = w.next.Handle(context.Background(), r) // there is nowhere to report it
}

// keyOf returns a text that two records have in common if they say the same.
func keyOf(r slog.Record) string {
	var key strings.Builder
	key.WriteString(r.Level.String() + " " + r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if slices.Contains(distinguishing, a.Key) {
			key.WriteString("\n" + a.Key + "=" + a.Value.String())
		}
		return true
	})
	return key.String()
}
