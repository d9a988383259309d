package e2e_test

import (
	"fmt"
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
