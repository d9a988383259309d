package ranking_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/orderlist"
	"stepboard/services/rankings/ranking"
)

// nearCache is a near cache in which everybody has the same composite, or which can't
// prove anything. If it is ordered, it knows that users 1 and 2 are all.
type nearCache struct {
	composite models.Composite
	proven    bool
	ordered   bool
	fresh     bool
	asked     int
}

func (c *nearCache) Composites(_ *models.Bucket, users []models.RowID, composites []models.Composite) (time.Time, bool) {
	c.asked++
	for i := range users {
		composites[i] = c.composite
	}
	return testenv.Noon, c.proven
}

func (c *nearCache) Window(_ *models.Bucket, at models.Entry, back, forward int) (board.Window, time.Time, bool) {
	c.asked++
	var list orderlist.List
	for user := range models.RowID(2) {
		list.Insert(models.Entry{User: user + 1, Composite: c.composite})
	}
	before := list.Before(at)
	w := board.Window{Total: 2, Before: int64(before), Ahead: list.Range(before-back, before), Behind: list.Range(before, before+forward)}
	return w, testenv.Noon, c.proven && c.ordered
}

func (c *nearCache) Fresh(time.Time) bool { return c.fresh }

// A ranking is from the near cache if that can prove that its copy is fresh, still when the answer
// is complete; otherwise it is from Redis, and all numbers of a summary are from one of them. Days
// that are cold never ask the near cache.
func TestRankingsFromTheNearCache(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	f := newFixture(t, env, 1)
	f.befriend(1, 2)
	f.raise(today, 1, 300, testenv.Noon)
	f.raise(today, 2, 200, testenv.Noon)
	bucket := testenv.Must(f.catalog.Buckets.Load(t.Context(), "steps", "20261120"))
	near := &nearCache{composite: f.raiseOf(bucket, 1, 700, 0).Composite}
	o := f.options()
	o.NearCache = near
	s := ranking.New(o)
	f.group("two", 1, 2)
	memory, redis := []string{"1. 2 700", "2. 1 700"}, []string{"1. 1 300", "2. 2 200"}
	for _, tt := range []struct {
		name          string
		proven, fresh bool
		want          []string
	}{
		{"proven and fresh", true, true, memory},
		{"not proven", false, false, redis},
		{"too old when the answer is complete", true, false, redis},
	} {
		near.proven, near.fresh, near.asked = tt.proven, tt.fresh, 0
		r, err := s.Friends(t.Context(), query(1))
		if err != nil || !slices.Equal(lines(r), tt.want) || near.asked != 1 {
			t.Errorf("%s: %v, %v, asked %d times", tt.name, r, err, near.asked)
		}
		r, err = s.Group(t.Context(), query(1), "two")
		if err != nil || !slices.Equal(lines(r), tt.want) || near.asked != 2 {
			t.Errorf("%s: a group: %v, %v, asked %d times", tt.name, r, err, near.asked)
		}
	}
	for _, tt := range []struct {
		name                   string
		proven, ordered, fresh bool
		want                   []string
		rank                   int64
	}{
		{"in memory", true, true, true, memory, 2},
		{"no order list", true, false, true, redis, 1},
		{"too old when the answer is complete", true, true, false, redis, 1},
	} {
		near.proven, near.ordered, near.fresh = tt.proven, tt.ordered, tt.fresh
		top, err := s.Top(t.Context(), query(1))
		around, aroundErr := s.Around(t.Context(), query(1), 1)
		me, meErr := s.Me(t.Context(), query(1))
		if err := errors.Join(err, aroundErr, meErr); err != nil || !slices.Equal(lines(top), tt.want) ||
			!slices.Equal(lines(around), tt.want) || *me.GlobalRank != tt.rank || *me.FriendsRank != tt.rank {
			t.Errorf("%s: %v, %v, %+v, %v", tt.name, lines(top), lines(around), me, err)
		}
	}
	near.proven, near.ordered, near.fresh, near.asked = true, true, true, 0
	q := query(1)
	q.Current = true
	if me, err := s.Me(t.Context(), q); err != nil || *me.GlobalRank != 1 || *me.Score != 300 || near.asked != 0 {
		t.Errorf("with every write: %+v, %v, asked %d times", me, err, near.asked)
	}
	env.Clock.Set(bucket.ColdAt)
	q = query(1)
	q.Date = &today
	r, err := s.Friends(t.Context(), q)
	top, topErr := s.Top(t.Context(), q)
	me, meErr := s.Me(t.Context(), q)
	if err := errors.Join(err, topErr, meErr); err != nil || !slices.Equal(lines(r), redis) || !slices.Equal(lines(top), redis) ||
		*me.GlobalRank != 1 || near.asked != 0 {
		t.Errorf("a cold day: %v, %v, %v, %v, asked %d times", r, top, me, err, near.asked)
	}
}
