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
	return s.global(ctx, &r, func(a *attempt) (page, error) {
		// Read two entries more than the page has: the cursor's own entry, which the
		// previous page has shown, and the first entry of the next page.
		window, err := s.window(ctx, a, after, 0, q.Limit+2)
		if err != nil {
			return page{}, err
		}
		var mine userWindow
		if r.viewer != 0 {
			if mine, err = s.windowAround(ctx, a, r.viewer, 0, 1); err != nil {
				return page{}, err
			}
		}
		entries, firstRank := window.Behind, window.Before+1
		if len(entries) > 0 && entries[0] == after {
			entries, firstRank = entries[1:], firstRank+1
		}
		shown := entries[:min(len(entries), q.Limit)]
		return pageOf(a.bucket, Page{
			Total: window.Total, FirstRank: firstRank, Entries: shown, More: len(entries) > len(shown), MyRank: mine.rank, Mine: mine.entry,
		}), nil
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
	return s.global(ctx, &r, func(a *attempt) (page, error) {
		w, err := s.windowAround(ctx, a, r.viewer, 2*radius, 2*radius+1)
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
		return pageOf(a.bucket, Page{Total: w.Total, FirstRank: w.rank - int64(ahead), Entries: shown, MyRank: w.rank, Mine: w.entry}), nil
	})
}

// global renders a page of a list of all users, which is read by a function.
func (s *Service) global(
	ctx context.Context, r *request, read func(*attempt) (page, error),
) (ranking *models.Ranking, err error) {
	err = s.answer(ctx, r, func(a *attempt) error {
		p, notShown, err := s.readBoth(ctx, r, a, read)
		if err == nil {
			ranking, err = s.renderGlobal(ctx, r, a.place, p, notShown)
		}
		return err
	})
	return ranking, err
}

// readBoth calls read, and reads who is not shown to the viewer: at the same time if both may cost
// a round trip. If it can't, the ranking fails, because it would show them.
func (s *Service) readBoth(
	ctx context.Context, r *request, a *attempt, read func(*attempt) (page, error),
) (p page, notShown []models.RowID, err error) {
	switch {
	case a.bucket == nil:
		return newPage(0), nil, nil
	case a.near != nil:
		if p, err = read(a); err == nil {
			notShown, err = s.notShown(ctx, r, a)
		}
		return p, notShown, err
	}
	var (
		reading sync.WaitGroup
		failed  error
	)
	concurrent.Go(ctx, &reading, func() { notShown, failed = s.notShown(ctx, r, a) })
	p, err = read(a)
	reading.Wait()
	return p, notShown, cmp.Or(err, failed)
}

// notShown returns who is not shown to the viewer.
func (s *Service) notShown(ctx context.Context, r *request, a *attempt) ([]models.RowID, error) {
	if r.viewer == 0 {
		return nil, nil
	}
	ids, asOf, err := s.o.Privacy.NotShown(ctx, r.viewer)
	a.note(asOf)
	return ids, err
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
// forward entries (1 or more) from it on. Two reads of the store. If the entry changes
// between them, it reads both again, so that rank and entry belong together.
func (s *Service) windowAround(ctx context.Context, a *attempt, user models.RowID, back, forward int) (userWindow, error) {
	var w userWindow
	for range windowAttempts {
		w = userWindow{entry: models.Entry{User: user}}
		if user != 0 {
			composites, err := s.composites(ctx, a, []models.RowID{user})
			if err != nil {
				return userWindow{}, err
			}
			w.entry.Composite = composites[0]
		}
		from := w.entry
		if from.Composite == 0 {
			from, back, forward = board.Top, 0, 0
		}
		window, err := s.window(ctx, a, from, back, forward)
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
