package e2e_test

import (
	"testing"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A corrected day looks the same in a process that reads rankings from memory and in one that
// asks Redis: while it is current, past and archived, after a merge of what came late, and
// after the corrections were lifted. Of what came late, only scores without a correction count
// until then.
func TestLateMergeIntoACorrectedDay(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	streams := func(c *config.Config) { c.Boards[0].ChangeStream, c.Boards[0].Shards = true, 2 }
	near := newServer(t, env, func(c *config.Config) { streams(c); c.Rankings.MaxStaleness = time.Second })
	near.waitForStartJobs()
	// Only one of them archives: without Postgres, each has leases of its own.
	plain := newServerOf(t, env, func(o *app.Options) { o.Roles.Jobs = false }, streams)
	plain.want(plain.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3","4"]}`), 200, nil)
	plain.uploadDay(harness.NoonDay, map[models.UserID]int{"1": 3000, "2": 98_800, "3": 5000, "4": 100})
	const date = "?date=2026-11-20"
	check := func(when, source, want, lowered, excluded string) {
		t.Helper()
		for name, s := range map[string]*server{"from memory": near, "from Redis": plain} {
			testenv.Eventually(t, when+", "+name+": "+want, func() bool {
				return s.ranked("/v1/boards/steps/friends"+date) == want && s.ranked("/v1/boards/steps/top"+date) == want &&
					s.standing("2", date) == lowered && s.standing("3", date) == excluded && s.sourceOf(date) == source
			})
		}
	}
	check("before", "hot", "2:98800 3:5000 1:3000 4:100", "98800 1 1 -", "5000 2 1 -")
	set := plain.correct(`{"board":"steps","date":"2026-11-20","user_id":"2","kind":"set","score":4000,"reason":"r"}`)
	out := plain.correct(`{"board":"steps","user_id":"3","kind":"exclude","reason":"r"}`)
	const corrected = "2:4000 1:3000 4:100"
	check("corrected", "hot", corrected, "4000 1 1 set", "- - - excluded")
	env.Clock.Advance(24 * time.Hour)
	check("a day later", "hot", corrected, "4000 1 1 set", "- - - excluded")
	env.Clock.Advance(5 * 24 * time.Hour)
	near.archiveDue()
	check("archived", "archive", corrected, "4000 1 1 set", "- - - excluded")

	rows := harness.Rows(t, env.Gorm, []models.UserID{"2", "3", "4"})
	plain.raiseLate(map[models.RowID]int64{rows[0]: 99_000, rows[1]: 7000, rows[2]: 3500})
	near.archiveDue()
	check("merged late", "archive", "2:4000 4:3500 1:3000", "4000 1 1 set", "- - - excluded")
	near.lift(set)
	near.lift(out)
	near.archiveDue()
	check("lifted", "archive", "2:99000 3:7000 4:3500 1:3000", "99000 1 1 -", "7000 2 1 -")
}

// sourceOf returns the source of a ranking of friends on board steps.
func (s *server) sourceOf(query string) string {
	s.t.Helper()
	var r struct{ Source string }
	s.read(s.as("1", "GET", "/v1/boards/steps/friends"+query, nil), 200, &r)
	return r.Source
}
