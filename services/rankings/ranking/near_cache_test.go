package ranking_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// nearCache is a near cache in which everybody has the same composite, or which can't
// prove anything.
type nearCache struct {
	composite models.Composite
	proven    bool
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

func (c *nearCache) Fresh(time.Time) bool { return c.fresh }

// A ranking of friends or of a group is from the near cache if that can prove that its copy is fresh, still
// when the answer is complete; otherwise it is from Redis. Days that are cold and all
// other lists never ask the near cache.
func TestFriendRankingFromTheNearCache(t *testing.T) {
	t.Parallel()
	env := testenv.Embedded(t)
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
	near.proven, near.fresh, near.asked = true, true, 0
	top, err := s.Top(t.Context(), query(1))
	me, meErr := s.Me(t.Context(), query(1))
	if err := errors.Join(err, meErr); err != nil || !slices.Equal(lines(top), redis) || *me.Score != 300 || near.asked != 0 {
		t.Errorf("global lists: %v, %v, %v, asked %d times", top, me, err, near.asked)
	}
	env.Clock.Set(bucket.ColdAt)
	q := query(1)
	q.Date = &today
	if r, err := s.Friends(t.Context(), q); err != nil || !slices.Equal(lines(r), redis) || near.asked != 0 {
		t.Errorf("a cold day: %v, %v, asked %d times", r, err, near.asked)
	}
}
