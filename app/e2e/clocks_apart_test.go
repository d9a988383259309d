package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// Two processes whose clocks are 3 or 70 seconds apart take uploads around midnight, around the
// moment when a day closes, and apply what the queue holds around the moment when it turns cold.
// Each day is archived with the largest totals that were accepted.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	for _, apart := range []time.Duration{3 * time.Second, 70 * time.Second} {
		for _, mode := range []string{"direct", "redis"} {
			t.Run(fmt.Sprintf("%v, %s", apart, mode), func(t *testing.T) {
				t.Parallel()
				testClocksApart(t, apart, mode)
			})
		}
	}
}

// clocksApart is two processes, of which the second has a clock that is ahead.
type clocksApart struct {
	t    *testing.T
	env  *testenv.Env
	both [2]*server
	// accepted holds the largest accepted total of each user, by day.
	accepted map[models.Date]map[models.UserID]int64
	refused  int
	total    int64
}

func testClocksApart(t *testing.T, apart time.Duration, mode string) {
	t.Helper()
	env := testenv.Real(t)
	first := testenv.Must(models.ParseDate("2026-11-20"))
	midnight := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC) // in Shanghai
	env.Clock.Set(midnight.Add(-2 * apart))
	c := &clocksApart{t: t, env: env, accepted: make(map[models.Date]map[models.UserID]int64)}
	var ahead atomic.Int64 // since a process with a wrong clock does not start
	for i := range c.both {
		offset := func() time.Duration { return time.Duration(int64(i) * ahead.Load()) }
		c.both[i] = newServerOf(t, env, func(o *app.Options) {
			o.Clock = func() time.Time { return env.Clock.Now().Add(offset()) }
			o.Machine = func() time.Time { return time.Now().Add(offset()) }
		}, func(cfg *config.Config) { cfg.Ingest.Mode = mode })
		c.both[i].waitForStartJobs()
	}
	ahead.Store(int64(apart))
	days := []models.Date{first, first + 1}
	for range 40 { // around midnight
		c.upload(days)
		env.Clock.Advance(apart / 10)
	}
	for day := range models.Date(2) {
		env.Clock.Set(midnight.AddDate(0, 0, 2+int(day)).Add(-2 * apart))
		for range 40 { // around the moment when a day closes
			c.upload(days)
			env.Clock.Advance(apart / 10)
		}
	}
	if len(c.accepted[first]) == 0 || len(c.accepted[first+1]) == 0 || c.refused == 0 {
		t.Fatalf("accepted %v, %d were refused", c.accepted, c.refused)
	}
	env.Clock.Set(midnight.AddDate(0, 0, 8))
	for day, want := range c.accepted {
		for user, total := range want {
			c.checkArchived(day, user, total)
		}
	}
}

// upload uploads a growing total of a user for each day to one of the processes.
func (c *clocksApart) upload(days []models.Date) {
	c.t.Helper()
	for _, day := range days {
		c.total++
		user := testenv.ID(1 + rand.IntN(5))
		s := c.both[rand.IntN(len(c.both))]
		a := s.as(user, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, day, c.total))
		switch {
		case a.status == http.StatusOK || a.status == http.StatusAccepted:
			if c.accepted[day] == nil {
				c.accepted[day] = make(map[models.UserID]int64)
			}
			c.accepted[day][user] = c.total
		case a.code() == models.CodeDateInFuture || a.code() == models.CodeDateClosed:
			c.refused++
		default:
			c.t.Fatalf("%d %s", a.status, a.body)
		}
	}
}

// checkArchived waits until a user's total is in the archive.
func (c *clocksApart) checkArchived(day models.Date, user models.UserID, total int64) {
	c.t.Helper()
	row := harness.Rows(c.t, c.env.Gorm, []models.UserID{user})[0]
	testenv.Eventually(c.t, fmt.Sprintf("the archive has %d of user %s on %v", total, user, day), func() bool {
		c.both[0].archiveDue()
		var scores []int64
		err := c.env.Gorm.Raw(`SELECT score FROM archived_scores WHERE board = 'steps' AND day = ? AND user_id = ?`,
			day, row).Scan(&scores).Error
		return err == nil && len(scores) == 1 && scores[0] == total
	})
}
