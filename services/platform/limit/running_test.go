package limit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/limit"
)

// A user has two reports at a time, of which one is an export. A further one waits for a second.
func TestEnterReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := limit.New(limit.Limits{}, &counter{}, testenv.Log())
		enter := func(user models.UserID, export bool, want models.Code, after time.Duration) (leave func()) {
			t.Helper()
			began := time.Now()
			leave, err := s.EnterReport(t.Context(), user, export)
			if models.CodeOf(err) != want || time.Since(began) != after {
				t.Errorf("%v, an export: %t: %v after %s, want %q after %s", user, export, err, time.Since(began), want, after)
			}
			return leave
		}
		first := enter("1", true, "", 0)
		enter("1", true, models.CodeBusy, time.Second)
		second := enter("1", false, "", 0)
		enter("1", false, models.CodeBusy, time.Second)
		enter("2", true, "", 0)()
		time.AfterFunc(300*time.Millisecond, second)
		third := enter("1", false, "", 300*time.Millisecond)
		first()
		enter("1", true, "", 0)()
		third()
		if n := s.Stats().Reports.Load(); n != 2 {
			t.Errorf("%d were refused", n)
		}

		// Who has given up takes no place.
		first, second = enter("1", false, "", 0), enter("1", false, "", 0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := s.EnterReport(ctx, "1", false); models.CodeOf(err) != models.CodeUnavailable {
			t.Error(err)
		}
		first()
		second()
		if n := s.Users(); n != 0 {
			t.Errorf("%d users without a running call are remembered", n)
		}
	})
}
