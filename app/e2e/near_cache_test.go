package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// All rankings from memory have the same bytes as those from Redis, on a board with shards,
// equal scores, people who are not shown, corrected, excluded and erased ones, page by page, and
// on the day when it is archived.
func TestRanksFromMemory(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	streams := func(c *config.Config) { c.Boards[0].ChangeStream, c.Boards[0].Shards = true, 2 }
	near := newServer(t, env, func(c *config.Config) { streams(c); c.Rankings.MaxStaleness = time.Second })
	near.waitForStartJobs()
	plain := newServer(t, env, streams)
	plain.waitForStartJobs()
	day := testenv.Must(models.ParseDate("2026-11-20"))
	plain.want(plain.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3","4","5"]}`), 200, nil)
	scores := make(map[models.UserID]int)
	for user := 1; user <= 24; user++ {
		scores[models.UserID(fmt.Sprint(user))] = 1000 + 100*(user/3) // three have the same score, at the same time
	}
	plain.uploadDay(day, scores)
	equal := func(when string, memory bool) {
		t.Helper()
		for _, viewer := range []models.UserID{"1", "3", "8", "24", "nobody"} {
			for _, path := range []string{"friends?limit=2", "me?", "around?radius=3", "around?radius=1", "top?limit=100", "top?limit=5"} {
				for next := ""; path != ""; {
					url := fmt.Sprintf("/v1/boards/steps/%s&date=%s%s", path, day, next)
					var want answer
					testenv.Eventually(t, fmt.Sprintf("%s: %s of %s", when, url, viewer), func() bool {
						answers := near.fromMemory()
						want = plain.as(viewer, "GET", url, nil)
						got := near.as(viewer, "GET", url, nil)
						return want.status == 200 && got.status == 200 && string(got.body) == string(want.body) &&
							(!memory || viewer == "nobody" || near.fromMemory() != answers)
					})
					_, cursor, more := strings.Cut(string(want.body), `"next_cursor":"`)
					if !more {
						break
					}
					cursor, _, _ = strings.Cut(cursor, `"`)
					next = "&cursor=" + cursor
				}
			}
		}
	}
	equal("uploaded", true)
	plain.want(plain.as("8", "PUT", "/v1/blocked/9", nil), 204, nil)
	plain.want(plain.as("12", "PUT", "/v1/me/privacy", `{"hidden":true}`), 200, nil)
	equal("blocked and hidden", true)
	copies := near.metric("stepboard_near_cache_copies_total")
	plain.correct(`{"board":"steps","user_id":"23","kind":"exclude","date":"2026-11-20","reason":"a test"}`)
	lifted := plain.correct(`{"board":"steps","user_id":"4","kind":"set","score":600,"date":"2026-11-20","reason":"a test"}`)
	plain.correct(`{"board":"steps","user_id":"3","kind":"set","score":700,"date":"2026-11-20","reason":"a test"}`)
	equal("corrected", true)
	plain.want(plain.service("DELETE", "/v1/users/21", nil), 202, nil)
	plain.finishErasures()
	equal("erased", true)
	if n := near.metric("stepboard_near_cache_copies_total"); n != copies {
		t.Errorf("%s copies before corrections and erasures, and %s afterwards", copies, n)
	}
	plain.uploadDay(day, map[models.UserID]int{"2": 9000, "8": 5000})
	near.uploadDay(day, map[models.UserID]int{"5": 9500})
	near.check("its own upload, at once", near.ranked("/v1/boards/steps/friends?limit=1"), "5:9500")
	equal("raised", true)
	plain.lift(lifted)
	equal("lifted", true)
	env.Clock.Set((day + 1).UTC().Add(4 * time.Hour))
	equal("the day after", false)
	env.Clock.Set((day + 5).UTC().Add(4 * time.Hour))
	equal("cold", false)
	near.archiveDue()
	equal("archived", false)
	near.check("answers from memory without rankings.max_staleness", plain.fromMemory(), "0")
}

// fromMemory returns how many rankings the process has answered from memory.
func (s *server) fromMemory() string {
	s.t.Helper()
	return s.metric("stepboard_near_cache_answer_age_seconds_count")
}

// metric returns the value of a metric of the process.
func (s *server) metric(name string) string {
	s.t.Helper()
	_, rest, _ := strings.Cut(string(s.call("", "GET", "/metrics", nil).body), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}
