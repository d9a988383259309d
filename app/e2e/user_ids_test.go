package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// oddIDs are user ids that paths, queries, JSON, SQL, patterns of Redis keys, or
// numbers could be mistaken for, and pairs that are equal to careless readers.
var oddIDs = []models.UserID{
	"6F9619FF-8B86-D011-B42D-00CF4FC964FF", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "auth0|5f7c",
	"a/b", "a%2Fb", "a%2fb", "{1}", "*", `"`, `\`, "'", "';--", "#", "?x=1", "&user_id=1", "a+b", "%", "%00", "...", "-", "-1", "+1",
	"01", "1", "1.0", "1e3", "0", "null", "me", "[1]", "a:b", "<b>", models.UserID(strings.Repeat("x", models.MaxUserID)),
	models.UserID(strings.Repeat("x", models.MaxUserID-1)), "9007199254740992", "18446744073709551616",
}

// oddUsers uploads, and becomes friends, as users with odd ids. The first of them is
// the hub: everybody becomes its friend. The user at position i has the score 100+i.
type oddUsers struct {
	*server
	hub     models.UserID
	friends []models.UserID
}

// Users with ids of any shape go through every call.
func TestAnyUserID(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	u := oddUsers{newServer(t, env, withEvents), oddIDs[0], oddIDs[1:]}
	u.upload()
	u.setProfiles()
	u.befriend()
	u.readRankings()
	u.readHistories()
	u.addIncrements()
}

// jsonOf returns the JSON of a value.
func jsonOf(value any) string { return string(testenv.Must(json.Marshal(value))) }

// param returns a user id as the value of a parameter.
func param(id models.UserID) string { return url.QueryEscape(string(id)) }

// segment returns a user id as a segment of a path.
func segment(id models.UserID) string { return escape(string(id)) }

// upload uploads today's scores, of one half of the users as themselves and of the
// other half by a backend, and yesterday's scores in one batch.
func (u oddUsers) upload() {
	u.t.Helper()
	items := make([]string, len(oddIDs))
	for i, id := range oddIDs {
		body := fmt.Sprintf(`{"date":"2026-11-20","score":%d}`, 100+i)
		if i%2 == 0 {
			u.want(u.as(id, "POST", "/v1/boards/steps/scores", body), http.StatusOK, nil)
		} else {
			u.want(u.service("POST", "/v1/boards/steps/scores?user_id="+param(id), body), http.StatusOK, nil)
		}
		items[i] = fmt.Sprintf(`{"user_id":%s,"date":"2026-11-19","score":%d}`, jsonOf(id), 1000+i)
	}
	var got struct {
		Accepted int   `json:"accepted"`
		Rejected []any `json:"rejected"`
		Held     []int `json:"held"`
	}
	u.want(u.service("POST", "/v1/boards/steps/scores/batch", `{"scores":[`+strings.Join(items, ",")+`]}`), http.StatusOK, &got)
	if got.Accepted != len(oddIDs) || len(got.Rejected) != 0 {
		u.t.Errorf("the batch: %+v", got)
	}
}

// nickname returns the name that setProfiles gives to the user at a position.
func nickname(i int) string { return fmt.Sprintf("N%d", i) }

// setProfiles sets the profiles, of one half as themselves and of the other half by a
// backend.
func (u oddUsers) setProfiles() {
	u.t.Helper()
	for i, id := range oddIDs {
		var got struct {
			UserID    models.UserID `json:"user_id"`
			Nickname  string        `json:"nickname"`
			AvatarURL string        `json:"avatar_url"`
			CoverURL  string        `json:"cover_url"`
		}
		body := map[string]string{"nickname": nickname(i)}
		if i%2 == 0 {
			u.want(u.as(id, "PUT", "/v1/me", body), http.StatusOK, &got)
		} else {
			u.want(u.service("PUT", "/v1/users/"+segment(id), body), http.StatusOK, &got)
		}
		if got.UserID != id || got.Nickname != nickname(i) {
			u.t.Errorf("the profile of %q: %+v", id, got)
		}
		u.want(u.as(id, "GET", "/v1/me", nil), http.StatusOK, &got)
		if got.UserID != id || got.Nickname != nickname(i) {
			u.t.Errorf("%q reads %+v", id, got)
		}
	}
}

// listed reads all pages of a list of users, and returns them sorted.
func (u oddUsers) listed(as models.UserID, call, field string) []models.UserID {
	u.t.Helper()
	var list []models.UserID
	for cursor := ""; ; {
		var page map[string]json.RawMessage
		u.want(u.as(as, "GET", call+"?limit=7&cursor="+cursor, nil), http.StatusOK, &page)
		var users []struct {
			UserID models.UserID `json:"user_id"`
		}
		var next *string
		if err := json.Unmarshal(page[field], &users); err != nil {
			u.t.Fatal(err)
		}
		if err := json.Unmarshal(page["next_cursor"], &next); err != nil {
			u.t.Fatal(err)
		}
		for _, user := range users {
			list = append(list, user.UserID)
		}
		if next == nil {
			slices.Sort(list)
			return list
		}
		cursor = *next
	}
}

// wantListed compares a list with the expected users.
func (u oddUsers) wantListed(as models.UserID, call, field string, want []models.UserID) {
	u.t.Helper()
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), u.listed(as, call, field)); diff != "" {
		u.t.Errorf("%s of %q (-want +got):\n%s", call, as, diff)
	}
}

// befriend makes everybody a friend of the hub, by requests, and once more by a
// backend's list.
func (u oddUsers) befriend() {
	u.t.Helper()
	for _, id := range u.friends {
		u.want(u.as(id, "POST", "/v1/friends/requests", `{"user_id":`+jsonOf(u.hub)+`}`), http.StatusCreated, nil)
	}
	u.wantListed(u.hub, "/v1/friends/requests", "requests", u.friends)
	for i, id := range u.friends {
		if i == 0 { // asks once more
			u.want(u.as(u.hub, "DELETE", "/v1/friends/requests/"+segment(id), nil), http.StatusNoContent, nil)
			u.want(u.as(u.hub, "POST", "/v1/friends/requests", `{"user_id":`+jsonOf(id)+`}`), http.StatusCreated, nil)
			u.want(u.as(id, "POST", "/v1/friends/requests/"+segment(u.hub)+"/accept", nil), http.StatusOK, nil)
			continue
		}
		u.want(u.as(u.hub, "POST", "/v1/friends/requests/"+segment(id)+"/accept", nil), http.StatusOK, nil)
	}
	u.wantListed(u.hub, "/v1/friends", "friends", u.friends)
	for i, id := range u.friends {
		u.want(u.as(u.hub, "DELETE", "/v1/friends/"+segment(id), nil), http.StatusNoContent, nil)
		u.wantListed(u.hub, "/v1/friends", "friends", u.friends[i+1:])
		u.wantListed(id, "/v1/friends", "friends", nil)
	}
	var got struct {
		UserID  models.UserID `json:"user_id"`
		Friends int           `json:"friends"`
	}
	u.want(u.service("PUT", "/v1/users/"+segment(u.hub)+"/friends", map[string]any{"friend_ids": u.friends}), http.StatusOK, &got)
	if got.UserID != u.hub || got.Friends != len(u.friends) {
		u.t.Errorf("replaced %+v", got)
	}
	for _, id := range u.friends {
		u.want(u.service("PUT", "/v1/users/"+segment(id)+"/friends", map[string]any{"friend_ids": []models.UserID{u.hub}}), http.StatusOK, nil)
	}
	u.wantListed(u.hub, "/v1/friends", "friends", u.friends)
}

// pages reads all pages of a ranking as lines.
func (u oddUsers) pages(call func(query string) answer) (lines []string) {
	u.t.Helper()
	for cursor := ""; ; {
		var r models.Ranking
		u.want(call("?limit=5&cursor="+cursor), http.StatusOK, &r)
		for _, e := range r.Entries {
			lines = append(lines, fmt.Sprintf("%d. %s %s %d", e.Rank, e.User, e.Nickname, e.Score))
		}
		if r.NextCursor == nil {
			return lines
		}
		cursor = *r.NextCursor
	}
}

// readRankings reads today's rankings of everybody.
func (u oddUsers) readRankings() {
	u.t.Helper()
	all := make([]string, len(oddIDs))
	for i, id := range oddIDs {
		rank := len(oddIDs) - i
		all[rank-1] = fmt.Sprintf("%d. %s %s %d", rank, id, nickname(i), 100+i)
	}
	const steps = "/v1/boards/steps/"
	for name, call := range map[string]func(query string) answer{
		"friends":                 func(q string) answer { return u.as(u.hub, "GET", steps+"friends"+q, nil) },
		"friends by a backend":    func(q string) answer { return u.service("GET", steps+"friends"+q+"&user_id="+param(u.hub), nil) },
		"top":                     func(q string) answer { return u.as(u.friends[3], "GET", steps+"top"+q, nil) },
		"top by a backend":        func(q string) answer { return u.service("GET", steps+"top"+q+"&user_id="+param(u.friends[4]), nil) },
		"top without a user":      func(q string) answer { return u.service("GET", steps+"top"+q, nil) },
		"friends, by own user_id": func(q string) answer { return u.as(u.hub, "GET", steps+"friends"+q+"&user_id="+param(u.hub), nil) },
	} {
		if diff := cmp.Diff(all, u.pages(call)); diff != "" {
			u.t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for i, id := range oddIDs {
		var standing struct {
			Score        int64            `json:"score"`
			ReachedAt    models.Timestamp `json:"reached_at"`
			GlobalRank   int              `json:"global_rank"`
			GlobalTotal  int              `json:"global_total"`
			FriendsRank  int              `json:"friends_rank"`
			FriendsTotal int              `json:"friends_total"`
			Percentile   float64          `json:"percentile"`
			Correction   *string          `json:"correction"`
			Held         *heldTotal       `json:"held"`
		}
		for _, a := range []answer{u.as(id, "GET", steps+"me", nil), u.service("GET", steps+"me?user_id="+param(id), nil)} {
			u.want(a, http.StatusOK, &standing)
			friends := 2
			if id == u.hub {
				friends = len(oddIDs)
			}
			if standing.Score != int64(100+i) || standing.GlobalRank != len(oddIDs)-i || standing.FriendsTotal != friends {
				u.t.Errorf("the standing of %q: %+v", id, standing)
			}
		}
		var around models.Ranking
		u.want(u.as(id, "GET", steps+"around?radius=1", nil), http.StatusOK, &around)
		if around.Me == nil || around.Me.User != id || around.Me.Rank != int64(len(oddIDs)-i) || len(around.Entries) != 3 {
			u.t.Errorf("around %q: %+v", id, around)
		}
	}
}

// readHistories reads everybody's history, as the user and as the hub.
func (u oddUsers) readHistories() {
	u.t.Helper()
	for i, id := range oddIDs {
		for name, a := range map[string]answer{
			"own":          u.as(id, "GET", "/v1/boards/steps/history", nil),
			"a friend's":   u.as(u.hub, "GET", "/v1/boards/steps/history?for="+param(id), nil),
			"by a backend": u.service("GET", "/v1/boards/steps/history?user_id="+param(u.hub)+"&for="+param(id), nil),
		} {
			var h history
			u.want(a, http.StatusOK, &h)
			if len(h.Entries) != 2 || h.Entries[0].Score != 100+i || h.Entries[1].Score != 1000+i {
				u.t.Errorf("%s, %q: %s", name, id, a.body)
			}
		}
	}
}

// addIncrements adds increments for everybody, one by one and in a list.
func (u oddUsers) addIncrements() {
	u.t.Helper()
	const increments = "/v1/boards/gifts/increments"
	items := make([]string, len(oddIDs))
	want := make([]string, len(oddIDs))
	for i, id := range oddIDs {
		body := func(delta int, event string) string {
			return fmt.Sprintf(`{"user_id":%s,"delta":%d,"event_id":"%s-%d"}`, jsonOf(id), delta, event, i)
		}
		u.want(u.service("POST", increments, body(1+i, "one")), http.StatusOK, nil)
		items[i] = body(1000, "list")
		want[len(oddIDs)-1-i] = fmt.Sprintf("%d. %s %s %d", len(oddIDs)-i, id, nickname(i), 1001+i)
	}
	var got harness.IncrementResults
	u.want(u.service("POST", increments, harness.IncrementsJSON(items...)), http.StatusOK, &got)
	for i, r := range got.Results {
		if r.Status != "applied" || *r.Score != int64(1001+i) {
			u.t.Errorf("the increment of %q: %+v", oddIDs[i], r)
		}
	}
	lines := u.pages(func(q string) answer { return u.as(u.hub, "GET", "/v1/boards/gifts/friends"+q, nil) })
	if diff := cmp.Diff(want, lines); diff != "" {
		u.t.Errorf("the event (-want +got):\n%s", diff)
	}
}
