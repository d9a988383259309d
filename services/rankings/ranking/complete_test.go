package ranking_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/rankings/ranking"
)

// recordedBoards records reads of Redis.
type recordedBoards struct {
	ranking.Entries
	reads *[]string
}

func (b recordedBoards) Composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	*b.reads = append(*b.reads, "scores")
	return b.Entries.Composites(ctx, bucket, users)
}

func (b recordedBoards) CompositesOf(ctx context.Context, buckets []*models.Bucket, users []models.RowID) ([][]models.Composite, error) {
	*b.reads = append(*b.reads, "scores")
	return b.Entries.CompositesOf(ctx, buckets, users)
}

func (b recordedBoards) Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error) {
	*b.reads = append(*b.reads, "window")
	return b.Entries.Window(ctx, bucket, at, back, forward)
}

// rememberedFriends are friends that the memory of the process has.
type rememberedFriends struct{ ranking.Friends }

func (f rememberedFriends) Circle(ctx context.Context, user models.RowID) ([]models.RowID, time.Time, error) {
	ids, err := f.IDs(ctx, user)
	return ids, testenv.Noon, err
}

// A ranking of a day that is over asks once whether Redis lacks updates of the day that will be
// applied again, before it reads the scores, from memory or from Redis. If Redis does, the
// ranking is not final, and one that is to have every write fails. If the scores are read again, it
// asks again.
func TestFinalRankingsAreComplete(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	f := newFixture(t, env, 1)
	f.befriend(1, 2)
	f.raise(today, 1, 300, testenv.Noon)
	bucket := testenv.Must(f.catalog.Buckets.Load(t.Context(), "steps", "20261120"))
	env.Clock.Set(bucket.ClosesAt)
	if bucket.Cold(bucket.ClosesAt) {
		t.Fatal("the day is cold when it is closed")
	}
	day := today
	q := query(1)
	q.Date = &day
	span := query(1)
	span.Span = &ranking.Span{From: day, To: &day}
	friends := func(s *ranking.Service) (*models.Ranking, error) { return s.Friends(t.Context(), q) }
	for _, tt := range []struct {
		name string
		near *nearCache
		rank func(*ranking.Service) (*models.Ranking, error)
		want []string
	}{
		{"without a near cache", nil, friends, []string{"whole", "scores"}},
		{"in memory", &nearCache{composite: 1 << 30, proven: true, fresh: true}, friends, []string{"whole"}},
		{"not proven", &nearCache{}, friends, []string{"whole", "scores"}},
		{"too old in the end", &nearCache{composite: 1 << 30, proven: true}, friends, []string{"whole", "whole", "scores"}},
		{"a span", nil, func(s *ranking.Service) (*models.Ranking, error) { return s.Friends(t.Context(), span) }, []string{"whole", "scores"}},
		{"top", nil, func(s *ranking.Service) (*models.Ranking, error) {
			return s.Top(t.Context(), ranking.Query{Board: "steps", Date: &day, Limit: 50})
		}, []string{"whole", "window"}},
	} {
		for _, lacks := range []error{nil, errors.New("it is being restored")} {
			for _, remembered := range []bool{false, true} {
				var reads []string
				o := f.options()
				o.Entries = recordedBoards{f.boards, &reads}
				o.Whole = func(context.Context, *models.Bucket) error {
					reads = append(reads, "whole")
					return lacks
				}
				if tt.near != nil {
					o.NearCache = tt.near
				}
				if remembered {
					o.Friends = rememberedFriends{f.friends}
				}
				s := ranking.New(o)
				r, err := tt.rank(s)
				if err != nil || !slices.Equal(reads, tt.want) || r.Final != (lacks == nil) {
					t.Errorf("%s, lacking %v, friends in memory %v: %+v, %v, after %v", tt.name, lacks, remembered, r, err, reads)
				}
				every := q
				every.Current = true
				want := models.Code("")
				if lacks != nil {
					want = models.CodeUnavailable
				}
				if _, err := s.Me(t.Context(), every); models.CodeOf(err) != want {
					t.Errorf("%s, lacking %v: with every write: %v", tt.name, lacks, err)
				}
			}
		}
	}
}
