package clock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/clock"
)

// Between two comparisons a guard notices that the machine's clock was set, and
// while the database is away, too.
func TestAClockThatIsSetBetweenComparisons(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	var ahead atomic.Int64
	guard := clock.NewGuard(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, time.Now, env.SQL)
	if err := guard.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := env.SQL.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		ahead time.Duration
		right bool
	}{
		{0, true}, {2 * time.Hour, false}, {-2 * time.Hour, false}, {0, true},
	} {
		ahead.Store(int64(test.ahead))
		if err := guard.Check(); test.right != (err == nil) || (err != nil && models.CodeOf(err) != models.CodeUnavailable) {
			t.Errorf("%v ahead: %v", test.ahead, err)
		}
		if drift := guard.Drift(); (drift - test.ahead).Abs() > clock.Limit {
			t.Errorf("%v ahead: the drift is %v", test.ahead, drift)
		}
	}
	if err := guard.Compare(t.Context()); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("comparing with a database that is away: %v", err)
	}
}

// Local stores have the machine's clock.
func TestLocalStores(t *testing.T) {
	t.Parallel()
	guard := clock.NewGuard(time.Now, time.Now, nil)
	if err := guard.Compare(t.Context()); err != nil || guard.Drift() != 0 {
		t.Errorf("%v, drift %v", err, guard.Drift())
	}
}
