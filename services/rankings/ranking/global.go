package ranking

import (
	"cmp"
	"context"
	"sync"

	"stepboard/internal/concurrent"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// Top ranks all users. Those who are not shown to the viewer are anonymous. One round
// trip to Redis; with a viewer three, and a fourth at the same time.
func (s *Service) Top(ctx context.Context, q Query) (*models.Ranking, error) {
	r, err := s.resolve(ctx, q, "top")
	if err != nil {
		return nil, err
	}
	after := r.after()
	if after.Composite == 0 {
		after = board.Top
	}
	// Read two entries more than the page has: the cursor's own entry, which the
	// previous page has shown, and the first entry of the next page.
	var (
		window board.Window
		mine   userWindow
	)
	at, notShown, err := s.readGlobal(ctx, &r, func(at place) (err error) {
		if window, err = s.store(at).Window(ctx, at.bucket, after, 0, q.Limit+2); err != nil || r.viewer == 0 {
			return err
		}
		mine, err = s.windowAround(ctx, at, r.viewer, 0, 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	entries, firstRank := window.Behind, window.Before+1
	if len(entries) > 0 && entries[0] == after {
		entries, firstRank = entries[1:], firstRank+1
	}
	shown := entries[:min(len(entries), q.Limit)]
	p := pageOf(at.bucket, shown, firstRank, mine.entry, mine.rank, len(entries) > len(shown))
	p.Total = window.Total
	return s.renderGlobal(ctx, &r, at, p, notShown)
}

// Around ranks a user's neighbours among all users: radius of them on each side,
// more on one side if the other has fewer. The ranking is empty if the user has
// no score. Those who are not shown to the user are anonymous. Two round trips to Redis,
// and a third at the same time.
func (s *Service) Around(ctx context.Context, q Query, radius int) (*models.Ranking, error) {
	r, err := s.resolve(ctx, q, "around")
	if err != nil {
		return nil, err
	}
	var w userWindow
	at, notShown, err := s.readGlobal(ctx, &r, func(at place) (err error) {
		w, err = s.windowAround(ctx, at, r.viewer, 2*radius, 2*radius+1)
		return err
	})
	if err != nil {
		return nil, err
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
	return s.renderGlobal(ctx, &r, at, p, notShown)
}

// readGlobal calls read as settled does, and reads at the same time who is not shown to the
// viewer: what costs no time may cost a round trip. If it can't, the ranking fails, because
// it would show them.
func (s *Service) readGlobal(
	ctx context.Context, r *request, read func(at place) error,
) (at place, notShown []models.RowID, err error) {
	at, err = s.settled(ctx, r, func(at place) error {
		var (
			reading sync.WaitGroup
			failed  error
		)
		if r.viewer != 0 {
			concurrent.Go(ctx, &reading, func() { notShown, failed = s.o.Privacy.NotShown(ctx, r.viewer) })
		}
		err := read(at)
		reading.Wait()
		return cmp.Or(err, failed)
	})
	return at, notShown, err
}

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
// forward entries (1 or more) from it on. Two round trips. If the entry changes
// between them, it reads both again, so that rank and entry belong together.
func (s *Service) windowAround(ctx context.Context, at place, user models.RowID, back, forward int) (userWindow, error) {
	var w userWindow
	for range windowAttempts {
		w = userWindow{entry: models.Entry{User: user}}
		if user != 0 {
			composites, err := s.composites(ctx, at, []models.RowID{user})
			if err != nil {
				return userWindow{}, err
			}
			w.entry.Composite = composites[0]
		}
		from := w.entry
		if from.Composite == 0 {
			from, back, forward = board.Top, 0, 0
		}
		window, err := s.store(at).Window(ctx, at.bucket, from, back, forward)
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
