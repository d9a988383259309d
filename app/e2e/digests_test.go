package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// told returns what digests have told each user so far, in the order of users.
func (b *backend) told(t testing.TB, atLeast int) []string {
	t.Helper()
	var lines []string
	testenv.Eventually(t, "everybody has got a digest", func() bool {
		lines = nil
		for _, data := range b.received(t, models.OutcomeDigestReady, 1) {
			var d struct {
				Board, Date string
				Users       []json.RawMessage
			}
			if err := json.Unmarshal([]byte(data), &d); err != nil {
				t.Fatal(err)
			}
			for _, user := range d.Users {
				lines = append(lines, d.Board+" "+d.Date+" "+string(user))
			}
		}
		return len(lines) >= atLeast
	})
	slices.Sort(lines)
	return lines
}

// In the evening, each user with a score is told how the day goes. People who are not shown to
// a user are not in the user's digest.
func TestDigest(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	backend := newBackend(t)
	s := newServer(t, env, backend.use, func(c *config.Config) { c.Jobs.DigestCron = "0 22 * * *" })
	for _, name := range []string{"ann", "ben", "cho", "dee", "eve"} {
		s.want(s.service("PUT", "/v1/users/"+name, fmt.Sprintf(`{"nickname":%q}`, strings.ToUpper(name))), 200, nil)
	}
	s.want(s.service("PUT", "/v1/users/ann/friends", `{"friend_ids":["ben","cho","dee","eve"]}`), 200, nil)
	s.uploadDay(models.DateOf(testenv.Noon), map[models.UserID]int{"ann": 10, "ben": 20, "cho": 30, "dee": 40})
	s.want(s.as("ben", "PUT", "/v1/boards/steps/likes/ann", nil), 204, nil)
	s.want(s.as("dee", "PUT", "/v1/boards/steps/likes/ann", nil), 204, nil)
	s.want(s.as("dee", "PUT", "/v1/me/privacy", `{"hidden":true}`), 200, nil)
	s.want(s.as("ben", "PUT", "/v1/muted/ann", nil), 204, nil)
	env.Clock.Set(testenv.Noon.Add(61 * time.Minute)) // 22:01 in Shanghai
	want := []string{
		`steps 2026-11-20 {"user_id":"ann","rank":3,"total":3,"score":10,"leader":{"user_id":"cho","nickname":"CHO"},"likes":1}`,
		`steps 2026-11-20 {"user_id":"ben","rank":1,"total":1,"score":20,"leader":{"user_id":"ben","nickname":"BEN"},"likes":0}`,
		`steps 2026-11-20 {"user_id":"cho","rank":1,"total":2,"score":30,"leader":{"user_id":"cho","nickname":"CHO"},"likes":0}`,
		`steps 2026-11-20 {"user_id":"dee","rank":1,"total":2,"score":40,"leader":{"user_id":"dee","nickname":"DEE"},"likes":0}`,
	}
	if got := backend.told(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("told %s", strings.Join(got, "\n"))
	}
	testenv.Eventually(t, "the digest is finished", func() bool {
		var open int64
		err := env.Gorm.Raw(`SELECT count(*) FROM digests WHERE finished_at IS NULL`).Row().Scan(&open)
		return err == nil && open == 0
	})
}
