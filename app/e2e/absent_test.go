package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// absentPage is an answer of the lists of absent people.
type absentPage struct {
	Board   string  `json:"board"`
	Date    *string `json:"date"`
	Total   int     `json:"total"`
	Entries []struct {
		UserID    models.UserID `json:"user_id"`
		Nickname  string        `json:"nickname"`
		AvatarURL string        `json:"avatar_url"`
	} `json:"entries"`
	Next *string `json:"next_cursor"`
}

// absentNow returns who is absent for user 1, such as "2 3", from pages of one person.
func (s *server) absentNow(path string) string {
	s.t.Helper()
	var users []string
	for cursor := ""; ; {
		var page absentPage
		s.want(s.as("1", "GET", path+"?limit=1"+cursor, nil), 200, &page)
		for _, e := range page.Entries {
			users = append(users, string(e.UserID))
		}
		if page.Next == nil {
			if len(users) != page.Total {
				s.t.Errorf("%s lists %v, and in all %d", path, users, page.Total)
			}
			return strings.Join(users, " ")
		}
		cursor = "&cursor=" + *page.Next
	}
}

// Somebody who hides, hides from the viewer, blocks the viewer, was excluded or whose total is held looks like
// somebody who has not walked: the answers have the same bytes, of a day in memory or Redis and of the same
// day in the archive.
func TestAbsentPeopleLookAlike(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testAbsentPeopleLookAlike)
}

func testAbsentPeopleLookAlike(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newServer(t, env, withHolds)
	for i, name := range []string{"Ann", "Ben", "Cho"} { // they are listed in the order of their rows
		s.want(s.service("PUT", fmt.Sprintf("/v1/users/%d", i+1), map[string]string{"nickname": name, "avatar_url": "https://example.com/x"}), 200, nil)
	}
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3"]}`), 200, nil)
	s.want(s.service("PUT", "/v1/groups/team/members", `{"member_ids":["1","2","3"]}`), 200, nil)
	const away, walked = models.Date(20777), models.Date(20778) // Ben walks on the second day only
	lists := []string{"friends", "groups/team"}
	// read returns both lists of Ann for a day, and whether Ben is in the first one.
	read := func(day models.Date) (texts [2]string, ben bool) {
		t.Helper()
		for i, list := range lists {
			a := s.as("1", "GET", "/v1/boards/steps/"+list+"/absent?date="+day.String(), nil)
			s.want(a, 200, nil)
			texts[i] = strings.ReplaceAll(string(a.body), day.String(), "DAY")
		}
		return texts, strings.Contains(texts[0], `"user_id":"2"`)
	}
	s.uploadDay(away, map[models.UserID]int{"1": 100, "3": 0})
	s.uploadDay(walked, map[models.UserID]int{"1": 100, "2": 500, "3": 0})
	want := [2]string{}
	for i := range want {
		want[i] = `{"board":"steps","date":"DAY","total":1,"entries":[{"user_id":"2","nickname":"Ben","avatar_url":"https://example.com/x"}],"next_cursor":null}`
	}
	compare := func(when string, absent bool) {
		t.Helper()
		if never, _ := read(away); never != want {
			t.Errorf("%s: somebody who has not walked: %s", when, never)
		}
		if got, ben := read(walked); absent && got != want || ben != absent {
			t.Errorf("%s: %s, want Ben to be absent: %v", when, got, absent)
		}
	}
	choices := func(when string) {
		t.Helper()
		compare(when, false)
		s.want(s.as("2", "PUT", "/v1/me/privacy", `{"hidden":true}`), 200, nil)
		compare(when+", hidden", true)
		s.want(s.as("2", "PUT", "/v1/me/privacy", `{"hidden":false}`), 200, nil)
		s.want(s.as("2", "PUT", "/v1/hidden-from/1", nil), 204, nil)
		compare(when+", hidden from Ann", true)
		s.want(s.as("2", "DELETE", "/v1/hidden-from/1", nil), 204, nil)
		compare(when+", shown again", false)
		s.want(s.as("1", "PUT", "/v1/muted/2", nil), 204, nil)
		for _, list := range lists {
			if got := s.absentNow("/v1/boards/steps/" + list + "/absent"); strings.Contains(got, "2") {
				t.Errorf("%s: %s has the muted: %s", when, list, got)
			}
		}
		s.want(s.as("1", "DELETE", "/v1/muted/2", nil), 204, nil)
	}
	choices("hot")
	s.want(s.as("2", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":98800}`, away)), 200, nil)
	compare("hot, and one is held who has not walked", false)
	excluded := s.correct(`{"board":"steps","date":%q,"user_id":"2","kind":"exclude","reason":"a bicycle"}`, walked)
	compare("hot, excluded", true)
	s.lift(excluded)
	env.Clock.Set(walked.UTC().AddDate(0, 0, 5))
	s.archiveDue()
	choices("archived")
	s.correct(`{"board":"steps","date":%q,"user_id":"2","kind":"exclude","reason":"a bicycle"}`, walked)
	testenv.Eventually(t, "the archive has excluded Ben", func() bool {
		s.archiveDue()
		_, ben := read(walked)
		return ben
	})
	compare("archived, excluded", true)
	// A block ends the friendship, and leaves the group as it is.
	s.want(s.as("2", "PUT", "/v1/blocked/1", nil), 204, nil)
	if got, _ := read(away); got[1] != want[1] || strings.Contains(got[0], "Ben") {
		t.Errorf("blocked by Ben: %s", got)
	}
	s.want(s.as("1", "PUT", "/v1/blocked/2", nil), 204, nil)
	if got, _ := read(away); got[0] != got[1] || strings.Contains(got[1], "Ben") {
		t.Errorf("blocked by both: %s", got)
	}
	s.refuse(s.as("4", "GET", "/v1/boards/steps/groups/team/absent", nil), 404, models.CodeNotFound)
	s.want(s.as("3", "DELETE", "/v1/me", `{"confirm":"erase"}`), 202, nil)
	if got := s.absentNow("/v1/boards/steps/friends/absent") + s.absentNow("/v1/boards/steps/groups/team/absent"); got != "" {
		t.Errorf("an erased friend is absent: %q", got)
	}
}

// An event and a rolling board have absent people, too.
func TestAbsentOnBoardsWithoutDays(t *testing.T) {
	t.Parallel()
	s := newServer(t, testenv.Local(t), withEvents)
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3"]}`), 200, nil)
	for _, board := range []string{"gifts", "active"} {
		path := "/v1/boards/" + board + "/friends/absent"
		s.check(board+" before", s.absentNow(path), "2 3")
		s.want(s.service("POST", "/v1/boards/"+board+"/increments", fmt.Sprintf(`{"user_id":"3","delta":5,"event_id":"a-%s"}`, board)), 200, nil)
		s.check(board, s.absentNow(path), "2")
		var page absentPage
		s.want(s.as("1", "GET", path, nil), 200, &page)
		if page.Board != board || page.Date != nil {
			t.Errorf("%s: %+v", board, page)
		}
	}
}
