package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// competition is a competition in an answer.
type competition struct {
	ID       string  `json:"competition_id"`
	Board    string  `json:"board"`
	Name     string  `json:"name"`
	From     string  `json:"from"`
	To       string  `json:"to"`
	Cap      *int64  `json:"cap"`
	Goal     *int64  `json:"goal"`
	Measure  string  `json:"measure"`
	Team     string  `json:"team"`
	Code     *string `json:"join_code"`
	State    string  `json:"state"`
	AsOf     *string `json:"as_of"`
	Revision int     `json:"revision"`
	Changed  *string `json:"changed_at"`
	Me       *struct {
		Rank  int64  `json:"rank"`
		Score int64  `json:"score"`
		Days  int64  `json:"days"`
		Group string `json:"group_id"`
	} `json:"me"`
	MyTeam *team  `json:"my_team"`
	Made   string `json:"created_at"`
}

// team is a line of a standing.
type team struct {
	Rank    int64  `json:"rank"`
	Group   string `json:"group_id"`
	Name    string `json:"name"`
	Score   *int64 `json:"score"`
	Members int64  `json:"members"`
	// NotCounting is null for users.
	NotCounting *int64 `json:"not_counting"`
}

// group is a group in an answer.
type group struct {
	ID      string  `json:"group_id"`
	Name    string  `json:"name"`
	Owner   *string `json:"owner_id"`
	Code    *string `json:"invite_code"`
	Members int     `json:"members"`
	Days    *days   `json:"challenge"`
	Made    string  `json:"created_at"`
	List    []struct {
		User     string `json:"user_id"`
		Nickname string `json:"nickname"`
		Avatar   string `json:"avatar_url"`
		Joined   string `json:"joined_at"`
	} `json:"member_list"`
	Next *string `json:"next_cursor"`
}

// days are the days of a challenge in an answer.
type days struct{ From, To string }

// People make a group, join it, are ranked in it, and leave it.
func TestGroupsOverHTTP(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env)
	for i, name := range []string{"Ann", "Ben", "Cho"} {
		s.want(s.service("PUT", fmt.Sprintf("/v1/users/%d", i+1), map[string]string{"nickname": name}), 200, nil)
	}
	var made, seen group
	s.want(s.as("1", "POST", "/v1/groups", `{"name":"Family"}`), 201, &made)
	if made.Members != 1 || *made.Owner != "1" || len(*made.Code) != 16 || len(made.ID) != 16 {
		t.Errorf("made %+v", made)
	}
	one := "/v1/groups/" + made.ID
	code := fmt.Sprintf(`{"invite_code":%q}`, *made.Code)
	for _, user := range []models.UserID{"2", "3", "3"} {
		s.want(s.as(user, "POST", "/v1/groups/join", code), 200, nil)
	}
	s.want(s.as("3", "POST", "/v1/groups/join", fmt.Sprintf(`{"invite_code":" %s\n"}`, strings.ToLower(*made.Code))), 200, nil)
	s.want(s.as("2", "GET", one+"?limit=2", nil), 200, &seen)
	if seen.Members != 3 || len(seen.List) != 2 || seen.List[1].Nickname != "Ben" || seen.Next == nil {
		t.Fatalf("seen %+v", seen)
	}
	cursor := *seen.Next
	s.want(s.as("2", "GET", one+"?limit=2&cursor="+cursor, nil), 200, &seen)
	if len(seen.List) != 1 || seen.List[0].User != "3" || seen.Next != nil {
		t.Errorf("the second page: %+v", seen)
	}
	s.refuse(s.as("3", "GET", one+"?cursor="+cursor, nil), 400, models.CodeInvalidCursor)
	s.testGroupRankings(made.ID)
	s.refuse(s.as("2", "DELETE", one+"/members/3", nil), 403, models.CodeForbidden)
	s.want(s.as("1", "DELETE", one+"/members/3", nil), 204, nil)
	s.refuse(s.as("3", "GET", one, nil), 404, models.CodeNotFound)
	s.refuse(s.as("3", "POST", "/v1/groups/join", code), 404, models.CodeNotFound)
	s.want(s.as("1", "DELETE", one+"/members/1", nil), 204, nil)
	s.want(s.as("2", "GET", one, nil), 200, &seen)
	if *seen.Owner != "2" || seen.Members != 1 {
		t.Errorf("after the owner has left: %+v", seen)
	}
	challenge := `{"name":"Ben's","challenge":{"from":"2026-11-16","to":%q}}`
	s.want(s.as("2", "PUT", one, fmt.Sprintf(challenge, "2026-12-16")), 200, &seen)
	if seen.Days == nil || *seen.Days != (days{"2026-11-16", "2026-12-16"}) {
		t.Errorf("with a challenge: %+v", seen)
	}
	for _, last := range []string{"2026-11-15", "2026-12-17", "2026-11-31"} {
		s.refuse(s.as("2", "PUT", one, fmt.Sprintf(challenge, last)), 422, models.CodeValidationFailed)
	}
	s.want(s.as("2", "PUT", one, `{"name":"Ben's"}`), 200, &seen)
	if seen.Days != nil {
		t.Errorf("without the challenge: %+v", seen)
	}
	var list struct {
		Groups []group `json:"groups"`
	}
	s.want(s.as("2", "GET", "/v1/groups", nil), 200, &list)
	if len(list.Groups) != 1 || list.Groups[0].Name != "Ben's" {
		t.Errorf("the list: %+v", list)
	}
	s.want(s.as("2", "DELETE", one, nil), 204, nil)
	s.want(s.as("2", "GET", "/v1/groups", nil), 200, &list)
	if len(list.Groups) != 0 {
		t.Errorf("the list after the end: %+v", list)
	}
}

// testGroupRankings ranks the members 1, 2 and 3 of a group, who are no friends.
func (s *server) testGroupRankings(id string) {
	s.t.Helper()
	for user, score := range map[models.UserID]int{"1": 100, "2": 300, "3": 200, "4": 900} {
		s.want(s.as(user, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":"2026-11-20","score":%d}`, score)), 200, nil)
	}
	path := "/v1/boards/steps/groups/" + id
	var got, whole, part models.Ranking
	s.want(s.as("1", "GET", path, nil), 200, &whole)
	s.want(s.as("1", "GET", path+"?date=2026-11-20&limit=1", nil), 200, &got)
	if whole.Total != 3 || whole.Entries[0].Nickname != "Ben" || whole.Me.Rank != 3 || got.NextCursor == nil {
		s.t.Fatalf("ranking %+v, first page %+v", whole, got)
	}
	s.want(s.as("1", "GET", path+"?date=2026-11-20&cursor="+*got.NextCursor, nil), 200, &part)
	if len(part.Entries) != 2 || part.Entries[0].User != "3" {
		s.t.Errorf("the second page: %+v", part)
	}
	s.refuse(s.as("4", "GET", path, nil), 404, models.CodeNotFound)
	s.refuse(s.as("4", "GET", path+"/stream", nil), 404, models.CodeNotFound)
	s.want(s.service("GET", path+"?user_id=2", nil), 200, &got)
	if got.Me.Rank != 1 {
		s.t.Errorf("as a backend: %+v", got)
	}
}

// A user may try ten codes a minute, through a backend as well.
func TestTriesOfInviteCodesAreLimited(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env, func(c *config.Config) { c.Limits.JoinsPerMinute = config.Default().Limits.JoinsPerMinute })
	var made group
	s.want(s.as("1", "POST", "/v1/groups", `{"name":"Family"}`), 201, &made)
	const wrong = `{"invite_code":"AAAABBBBCCCCDDDD"}`
	tries := 0
	testenv.Eventually(t, "tries are refused", func() bool {
		tries++
		a := s.as("2", "POST", "/v1/groups/join", wrong)
		if a.status == 429 {
			return true
		}
		s.refuse(a, 404, models.CodeNotFound)
		return false
	})
	if tries <= 10 {
		t.Errorf("try %d is refused", tries)
	}
	right := fmt.Sprintf(`{"invite_code":%q}`, *made.Code)
	s.refuse(s.service("POST", "/v1/groups/join?user_id=2", right), 429, models.CodeRateLimited)
	s.want(s.as("3", "POST", "/v1/groups/join", right), 200, nil)
}
