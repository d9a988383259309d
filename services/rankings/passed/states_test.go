package passed_test

import (
	"slices"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/passed"
)

// eachStates runs a test with states in Redis, and with some in memory. expire lets them expire.
func eachStates(t *testing.T, test func(t *testing.T, s passed.States, expire func())) {
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		env := testenv.Real(t)
		test(t, passed.NewRedisStates(env.Redis, env.Keys), func() {
			key := env.Keys.Passed(1)
			if left := env.Redis.TTL(t.Context(), key).Val(); left <= 0 || left > passed.Keep {
				t.Errorf("the text lives for %v", left)
			}
			env.Redis.Del(t.Context(), key)
		})
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		clock := testenv.NewClock(testenv.Noon)
		test(t, passed.NewLocalStates(clock.Now), func() { clock.Advance(passed.Keep) })
	})
}

// A text is replaced by who has read the last one, and by nobody else.
func TestStates(t *testing.T) {
	t.Parallel()
	eachStates(t, func(t *testing.T, s passed.States, expire func()) {
		want := func(want ...string) {
			t.Helper()
			if got, err := s.Load(t.Context(), []models.RowID{1, 2}); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		}
		swap := func(want []bool, swaps ...passed.Swap) {
			t.Helper()
			if got, err := s.Swap(t.Context(), swaps); err != nil || !slices.Equal(got, want) {
				t.Errorf("swapped %v, %v, want %v", got, err, want)
			}
		}
		want("", "")
		swap([]bool{true, false}, passed.Swap{User: 1, New: "a"}, passed.Swap{User: 2, Old: "lost", New: "b"})
		want("a", "")
		swap([]bool{false, true}, passed.Swap{User: 1, New: "c"}, passed.Swap{User: 1, Old: "a", New: "d"})
		want("d", "")
		expire()
		want("", "")
		swap([]bool{true}, passed.Swap{User: 1, New: "e"})
		for i, removed := range []int64{1, 0} {
			if n, err := s.Erase(t.Context(), 1); err != nil || n != removed {
				t.Errorf("erasure %d removes %d, %v", i, n, err)
			}
		}
		want("", "")
	})
}
