package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/stream"
)

// withLocalDays makes the days of the board of steps each user's own.
func withLocalDays(c *config.Config) { c.Boards[0].TimeZone = models.LocalZone }

// At one moment it is the 21st in the farthest east and still the 19th in the farthest
// west. Everybody uploads and reads their own day.
func TestLocalDaysAtBothEndsOfTheEarth(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	env.Clock.Set(time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC))
	s := newServer(t, env, withLocalDays)
	s.want(s.service("PUT", "/v1/users/east/friends", `{"friend_ids":["west"]}`), 200, nil)
	const scores = "/v1/boards/steps/scores"
	for _, tt := range []struct {
		user models.UserID
		date string
		code models.Code
	}{
		{"east", "2026-11-22", models.CodeDateInFuture},
		{"east", "2026-11-21", ""},
		{"east", "2026-11-20", ""},
		{"west", "2026-11-19", ""},
		{"west", "2026-11-17", ""},
		{"west", "2026-11-16", models.CodeDateClosed},
	} {
		body := fmt.Sprintf(`{"date":%q,"score":%s}`, tt.date, tt.date[8:])
		if a := s.as(tt.user, "POST", scores, body); a.code() != tt.code {
			t.Errorf("%s on %s: %s", tt.user, tt.date, a.body)
		}
	}
	// The plus of an offset may arrive as a space.
	for _, at := range []struct {
		user          models.UserID
		offset, today string
		score         int64
	}{{"east", "%2B14:00", "2026-11-21", 21}, {"east", "+14:00", "2026-11-21", 21}, {"west", "-12:00", "2026-11-19", 19}} {
		for _, call := range []string{"friends", "top", "around"} {
			var r models.Ranking
			s.want(s.as(at.user, "GET", "/v1/boards/steps/"+call+"?utc_offset="+at.offset, nil), 200, &r)
			if r.Date == nil || *r.Date != at.today || r.Total != 1 || r.Me == nil || r.Me.Score != at.score || r.Final {
				t.Errorf("%s at %s: %+v", call, at.offset, r)
			}
		}
		var me struct{ Score *int64 }
		if a := s.as(at.user, "GET", "/v1/boards/steps/me?utc_offset="+at.offset, nil); !decodes(a, &me) || me.Score == nil || *me.Score != at.score {
			t.Errorf("me at %s: %s", at.offset, a.body)
		}
		var h history
		s.want(s.as(at.user, "GET", "/v1/boards/steps/history?utc_offset="+at.offset, nil), 200, &h)
		if len(h.Entries) != 2 || h.Entries[0].Date != at.today {
			t.Errorf("history at %s: %+v", at.offset, h)
		}
	}
	for _, call := range []string{"friends", "top", "around", "me", "history", "summary", "friends/stream", "friends/absent"} {
		s.refuse(s.as("east", "GET", "/v1/boards/steps/"+call, nil), 422, models.CodeOffsetRequired)
		s.refuse(s.as("east", "GET", "/v1/boards/steps/"+call+"?utc_offset=15", nil), 422, models.CodeValidationFailed)
	}
	for _, call := range []string{"friends?date=2026-11-21", "me?date=2026-11-19", "history?to=2026-11-21"} {
		s.want(s.as("east", "GET", "/v1/boards/steps/"+call, nil), 200, nil)
	}
	s.refuse(s.as("east", "GET", "/v1/boards/steps/top?date=2026-11-22", nil), 422, models.CodeDateInFuture)
}

// decodes reports whether an answer is a success, and decodes its body.
func decodes(a answer, into any) bool {
	return a.status == 200 && json.Unmarshal(a.body, into) == nil
}

// A page of today stays a page of that day when it is continued.
func TestPagesOfALocalDay(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env, withLocalDays)
	for user := 1; user <= 3; user++ {
		s.want(s.as(testenv.ID(user), "POST", "/v1/boards/steps/scores", totalOf(models.DateOf(testenv.Noon), int64(user))), 200, nil)
	}
	const path = "/v1/boards/steps/top?limit=2&utc_offset=%2B08:00"
	var first, second models.Ranking
	s.want(s.as("1", "GET", path, nil), 200, &first)
	if first.NextCursor == nil {
		t.Fatalf("the first page is %+v", first)
	}
	s.want(s.as("1", "GET", path+"&cursor="+*first.NextCursor, nil), 200, &second)
	if len(second.Entries) != 1 || second.Entries[0].User != "1" || second.NextCursor != nil {
		t.Errorf("the second page is %+v", second)
	}
}

// A stream goes on to the next day at the watcher's own midnight.
func TestStreamAtTheMidnightOfALocalBoard(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	withLocalDays(&env.Config)
	midnight := time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC) // at UTC+9
	env.Clock.Set(midnight.Add(-time.Second))
	s := newStreamServer(t, env, stream.Limits{})
	s.upload("1", 100)
	east, _, _ := s.open("1", "?utc_offset=%2B09:00")
	west, _, _ := s.open("2", "?utc_offset=-03:00")
	for name, e := range map[string]*events{"east": east, "west": west} {
		if r := e.ranking(); *r.Date != "2026-11-20" || scores(r) != "1:100" {
			t.Errorf("%s begins with %+v", name, r)
		}
	}
	env.Clock.Set(midnight)
	if r := east.ranking(); *r.Date != "2026-11-21" || r.Total != 0 {
		t.Errorf("after midnight: %+v", r)
	}
	s.upload("1", 200) // for the 20th, which is over in the east
	if r := west.ranking(); *r.Date != "2026-11-20" || scores(r) != "1:200" {
		t.Errorf("the west goes on with %+v", r)
	}
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", totalOf(models.DateOf(testenv.Noon)+1, 7)), 200, nil)
	if r := east.ranking(); *r.Date != "2026-11-21" || scores(r) != "1:7" {
		t.Errorf("the east goes on with %+v", r)
	}
}

// totalOf returns the body of an upload for a day.
func totalOf(d models.Date, score int64) string {
	return fmt.Sprintf(`{"date":"%v","score":%d}`, d, score)
}
