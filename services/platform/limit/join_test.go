package limit_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/limit"
)

// Each try to join is counted. Without a limit, and without Redis, all pass.
func TestTakeJoin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		limit   int
		counter *counter
		calls   []string
		code    models.Code
	}{
		{"within the limit", 10, &counter{}, []string{"join 1 of 10"}, ""},
		{"no limit", 0, &counter{userWait: 1}, nil, ""},
		{"too many", 10, &counter{userWait: time.Second}, []string{"join 1 of 10"}, models.CodeRateLimited},
		{"Redis is away", 10, &counter{userErr: errors.New("away")}, []string{"join 1 of 10"}, ""},
	} {
		s := limit.New(limit.Limits{Join: tt.limit}, tt.counter, testenv.Log())
		err := s.TakeJoin(t.Context(), "1")
		if models.CodeOf(err) != tt.code || !slices.Equal(tt.counter.calls, tt.calls) {
			t.Errorf("%s: %v, counted %v", tt.name, err, tt.counter.calls)
		}
		if refused := s.Stats().Joins.Load(); (refused == 1) != (tt.code != "") {
			t.Errorf("%s: %d refused", tt.name, refused)
		}
	}
}

// All processes count the tries of a user together, and each user's apart.
func TestJoinsAreCounted(t *testing.T) {
	t.Parallel()
	eachCounter(t, func(t *testing.T, counter limit.Counter) {
		const most = 10
		process := func() *limit.Service {
			return limit.New(limit.Limits{Join: most}, counter, testenv.Log())
		}
		passed := 0
		for range 3 * most {
			if process().TakeJoin(t.Context(), "1") == nil {
				passed++
			}
		}
		if passed < most || passed >= 3*most {
			t.Errorf("%d of %d tries passed", passed, 3*most)
		}
		if err := process().TakeJoin(t.Context(), "2"); err != nil {
			t.Errorf("another user: %v", err)
		}
	})
}
