package stream

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// rankings has one ranking, and counts how often its likes are read.
type rankings struct {
	total, likes, fail atomic.Int64
	read               atomic.Int64
}

func (r *rankings) Friends(_ context.Context, q ranking.Query) (*models.Ranking, error) {
	entry := models.RankedEntry{Rank: 1, Score: r.total.Load()}
	if q.Likes {
		if r.read.Add(1); r.fail.Add(-1) >= 0 {
			return nil, models.Errorf(models.CodeUnavailable, "away")
		}
		likes, liked := r.likes.Load(), false
		entry.Likes, entry.Liked = &likes, &liked
	}
	return &models.Ranking{Board: q.Board, Total: r.total.Load(), Entries: []models.RankedEntry{entry}}, nil
}

func (r *rankings) Group(ctx context.Context, q ranking.Query, _ models.GroupID) (*models.Ranking, error) {
	return r.Friends(ctx, q)
}

// Likes cost a query. They are read when the ranking has changed, and otherwise each half a
// minute: not at each poll.
func TestLikes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &rankings{}
		s := New(source, nil, Limits{})
		defer s.Close()
		subscribe := func() *Subscriber {
			sub, err := s.Subscribe(t.Context(), Query{Board: "steps", Viewer: "1", Limit: 10, Likes: true}, "")
			if err != nil {
				t.Fatal(err)
			}
			return sub
		}
		next := func(sub *Subscriber, want ...string) {
			t.Helper()
			state := string(<-sub.Updates)
			for _, part := range want {
				if !strings.Contains(state, part) {
					t.Errorf("the update has no %s: %s", part, state)
				}
			}
		}
		first := subscribe()
		defer first.Stop()

		source.likes.Store(3)
		next(first, `"likes":3`)
		began, read := time.Now(), source.read.Load()
		<-time.After(10 * time.Minute)
		if n := source.read.Load() - read; n < 18 || n > 22 {
			t.Errorf("likes of a ranking without changes are read %d times in ten minutes", n)
		}
		if len(first.Updates) > 0 {
			t.Errorf("there is an update without a change since %v", began)
		}

		source.total.Store(7)
		source.likes.Store(4)
		began = time.Now()
		next(first, `"score":7`, `"likes":4`)
		if waited := time.Since(began); waited > s.limits.PollInterval {
			t.Errorf("a change is sent after %v", waited)
		}

		// A change that a poll has met which failed then is sent by the next one.
		<-time.After(5 * s.limits.PollInterval)
		source.total.Store(8)
		source.fail.Store(1)
		began = time.Now()
		next(first, `"score":8`, `"likes":4`)
		if waited := time.Since(began); waited > 2*s.limits.PollInterval {
			t.Errorf("a change is sent after %v, although one poll has failed", waited)
		}

		// So is a change between a subscriber's first state and the poll that knows it.
		<-time.After(5 * s.limits.PollInterval)
		second := subscribe()
		defer second.Stop()
		s.mu.Lock()
		second.last = []byte("older")
		s.mu.Unlock()
		began = time.Now()
		next(second, `"score":8`)
		if waited := time.Since(began); waited > s.limits.PollInterval {
			t.Errorf("what a new subscriber lacks is sent after %v", waited)
		}
	})
}
