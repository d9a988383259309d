package ranking

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"stepboard/internal/concurrent"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// Top ranks all users. Those who are not shown to the viewer are anonymous. One round
// trip to Redis; with a viewer three, and a fourth at the same time. None if the bucket's order
// is in memory.
func (s *Service) Top(ctx context.Context, q Query) (*models.Ranking, error) {
	r, err := s.resolve(ctx, q, "top")
	if err != nil {
		return nil, err
	}
	after := r.after()
	if after.Composite == 0 {
		after = board.Top
	}
	return s.global(ctx, &r, func(at place, store Reader) (page, error) {
		// Read two entries more than the page has: the cursor's own entry, which the
		// previous page has shown, and the first entry of the next page.
		window, err := store.Window(ctx, at.bucket, after, 0, q.Limit+2)
		if err != nil {
			return page{}, err
		}
		var mine userWindow
		if r.viewer != 0 {
			if mine, err = s.windowAround(ctx, at, store, r.viewer, 0, 1); err != nil {
				return page{}, err
			}
		}
		entries, firstRank := window.Behind, window.Before+1
		if len(entries) > 0 && entries[0] == after {
			entries, firstRank = entries[1:], firstRank+1
		}
		shown := entries[:min(len(entries), q.Limit)]
		p := pageOf(at.bucket, shown, firstRank, mine.entry, mine.rank, len(entries) > len(shown))
		p.Total = window.Total
		return p, nil
	})
}

// Around ranks a user's neighbours among all users: radius of them on each side,
// more on one side if the other has fewer. The ranking is empty if the user has
// no score. Those who are not shown to the user are anonymous. Two round trips to Redis,
// and a third at the same time. None if the bucket's order is in memory.
func (s *Service) Around(ctx context.Context, q Query, radius int) (*models.Ranking, error) {
	r, err := s.resolve(ctx, q, "around")
	if err != nil {
		return nil, err
	}
	return s.global(ctx, &r, func(at place, store Reader) (page, error) {
		w, err := s.windowAround(ctx, at, store, r.viewer, 2*radius, 2*radius+1)
		if err != nil {
			return page{}, err
		}
		// The number of entries to show before and after the user's own.
		ahead, behind := 0, 0
		var shown []models.Entry
		if w.rank != 0 {
			ahead = min(radius, len(w.Ahead))
			behind = min(2*radius-ahead, max(0, len(w.Behind)-1))
			ahead = min(2*radius-behind, len(w.Ahead))
			shown = append(w.Ahead[len(w.Ahead)-ahead:len(w.Ahead):len(w.Ahead)], w.Behind[:min(len(w.Behind), behind+1)]...)
		}
		p := pageOf(at.bucket, shown, w.rank-int64(ahead), w.entry, w.rank, false)
		p.Total = w.Total
		return p, nil
	})
}

// global reads a page of a list of all users and renders it. It calls read with the store that
// has the bucket: with memory first, and again if memory can't answer, if its answer is too old
// in the end, or if the bucket was archived meanwhile.
func (s *Service) global(ctx context.Context, r *request, read func(at place, store Reader) (page, error)) (*models.Ranking, error) {
	for near := s.o.NearCache; ; near = nil {
		p, memory := newPage(0), &memoryReader{cache: near}
		var notShown []models.RowID
		at, err := s.settled(ctx, r, func(at place) (err error) {
			if near != nil && at.hot(r.now) {
				if p, err = read(at, memory); err == nil {
					notShown, err = s.notShown(ctx, r, memory)
				}
				if !errors.Is(err, errNotInMemory) {
					return err
				}
				memory.asOf = time.Time{}
			}
			p, notShown, err = s.readBoth(ctx, r, at, read)
			return err
		})
		if err != nil {
			return nil, err
		}
		ranking, err := s.renderGlobal(ctx, r, at, p, notShown)
		if err != nil {
			return nil, err
		}
		if memory.fresh() {
			s.count(r, at, memory.asOf)
			return ranking, nil
		}
	}
}

// readBoth calls read with the store of a place, and reads at the same time who is not shown to
// the viewer: what costs no time may cost a round trip. If it can't, the ranking fails, because
// it would show them.
func (s *Service) readBoth(
	ctx context.Context, r *request, at place, read func(at place, store Reader) (page, error),
) (p page, notShown []models.RowID, err error) {
	var (
		reading sync.WaitGroup
		failed  error
	)
	concurrent.Go(ctx, &reading, func() { notShown, failed = s.notShown(ctx, r, &memoryReader{}) })
	p, err = read(at, s.store(at))
	reading.Wait()
	return p, notShown, cmp.Or(err, failed)
}

// notShown returns who is not shown to the viewer, and notes as of when if that is from memory.
func (s *Service) notShown(ctx context.Context, r *request, memory *memoryReader) ([]models.RowID, error) {
	if r.viewer == 0 {
		return nil, nil
	}
	ids, asOf, err := s.o.Privacy.NotShown(ctx, r.viewer)
	if !asOf.IsZero() {
		memory.note(asOf)
	}
	return ids, err
}

// errNotInMemory means that memory has no answer, or can't prove that it is recent enough.
var errNotInMemory = errors.New("not in memory")

// memoryReader reads hot buckets from the memory of the process.
type memoryReader struct {
	cache NearCache
	// asOf is the moment for which all that was read is complete; zero if nothing was read.
	asOf time.Time
}

// Composites returns errNotInMemory if Redis is to be asked.
func (m *memoryReader) Composites(_ context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	composites := make([]models.Composite, len(users))
	asOf, ok := m.cache.Composites(bucket, users, composites)
	if !ok {
		return nil, errNotInMemory
	}
	m.note(asOf)
	return composites, nil
}

// Window returns errNotInMemory if Redis is to be asked.
func (m *memoryReader) Window(_ context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error) {
	w, asOf, ok := m.cache.Window(bucket, at, back, forward)
	if !ok {
		return w, errNotInMemory
	}
	m.note(asOf)
	return w, nil
}

func (m *memoryReader) note(asOf time.Time) {
	if m.asOf.IsZero() || asOf.Before(m.asOf) {
		m.asOf = asOf
	}
}

// fresh reports whether what was read may be given as an answer now.
func (m *memoryReader) fresh() bool { return m.asOf.IsZero() || m.cache.Fresh(m.asOf) }

// userWindow is a user's entry, its rank, and the entries around it. Without a
// score the composite and the rank are 0.
type userWindow struct {
	entry models.Entry
	rank  int64
	board.Window
}

// windowAttempts bounds how often windowAround reads a user whose score keeps
// changing.
const windowAttempts = 4

// windowAround reads the entry of a user (0 for one that does not exist), up to back entries before it, and up to
// forward entries (1 or more) from it on. Two reads of the store. If the entry changes
// between them, it reads both again, so that rank and entry belong together.
func (s *Service) windowAround(ctx context.Context, at place, store Reader, user models.RowID, back, forward int) (userWindow, error) {
	var w userWindow
	for range windowAttempts {
		w = userWindow{entry: models.Entry{User: user}}
		if user != 0 {
			composites, err := s.composites(ctx, at, store, []models.RowID{user})
			if err != nil {
				return userWindow{}, err
			}
			w.entry.Composite = composites[0]
		}
		from := w.entry
		if from.Composite == 0 {
			from, back, forward = board.Top, 0, 0
		}
		window, err := store.Window(ctx, at.bucket, from, back, forward)
		if err != nil {
			return userWindow{}, err
		}
		w.Window = window
		if from == board.Top {
			break
		}
		w.rank = w.Before + 1
		if len(w.Behind) > 0 && w.Behind[0] == w.entry {
			break
		}
	}
	return w, nil
}
