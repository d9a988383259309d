package handlers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/handlers"
	"stepboard/models"
)

// oddIDs are valid user ids that a path, a query or JSON writes in another form.
var oddIDs = []string{
	"a/b", "auth0|x", "{1}", ":id", "a+b", "a%2Fb", "%", "?a=b&c", "#", "...", ".a", `"`, `\`, "<b>", "~", "007", "-1", strings.Repeat("x", 128),
}

// badIDs are no user ids.
var badIDs = []string{".", "..", "../me", "a/./b", "a b", " a", "a\t", "a\x00", "a\x7f", "é", "a\xff", strings.Repeat("x", 129)}

// quotedID returns an id as a JSON string.
func quotedID(t *testing.T, id string) string {
	t.Helper()
	text, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// userCalls returns an API whose services record their calls.
func userCalls(t *testing.T, r *recorder) handlers.Config {
	t.Helper()
	return handlers.Config{
		Profiles: profiles{r}, Friends: friendships{r}, FriendRequests: friendRequests{recorder: r}, History: history{r},
		Privacy: hiding{r}, Likes: likeRecords{r}, Rankings: rankings{recorder: r}, Scores: scores{recorder: r}, Boards: stepsBoards(t), Increments: increments{recorder: r}, Competitions: walks{r},
	}
}

func TestUserIDsInPaths(t *testing.T) {
	t.Parallel()
	calls := []struct{ token, request, body, call string }{
		{"service", "PUT /v1/users/%s", `{"nickname":"Ann"}`, "Put %s Ann  "},
		{"service", "POST /v1/users/%s/rename", `{"to":"1001"}`, "Rename %s 1001"},
		{"service", "PUT /v1/users/%s/friends", `{"friend_ids":[]}`, "Replace %s []"},
		{"1001", "DELETE /v1/friends/%s", "", "Remove 1001 %s"},
		{"1001", "PUT /v1/hidden-from/%s", "", "Choose 1001 hidden_from %s"},
		{"1001", "PUT /v1/boards/steps/likes/%s", "", "Give steps 1001 - %s"},
		{"1001", "DELETE /v1/muted/%s", "", "Undo 1001 muted %s"},
		{"1001", "POST /v1/friends/requests/%s/accept", "", "Accept 1001 %s"},
		{"1001", "DELETE /v1/friends/requests/%s", "", "Decline 1001 %s"},
	}
	r := &recorder{}
	api := newAPI(t, userCalls(t, r))
	for _, c := range calls {
		for _, id := range oddIDs {
			r.calls = nil
			got := send(t, api, c.token, fmt.Sprintf(c.request, url.PathEscape(id)), c.body)
			if want := fmt.Sprintf(c.call, id); got.Code >= 300 || len(r.calls) != 1 || r.calls[0] != want {
				t.Errorf("%s for %q: %s, calls %q", c.request, id, describe(t, got), r.calls)
			}
		}
		for _, id := range badIDs {
			r.calls = nil
			got := describe(t, send(t, api, c.token, fmt.Sprintf(c.request, url.PathEscape(id)), c.body))
			if !strings.HasPrefix(got, "422 validation_failed: path.id: ") || len(r.calls) > 0 {
				t.Errorf("%s for %q: %s, calls %q", c.request, id, got, r.calls)
			}
		}
	}
}

// The user of a token, of ?user_id= and of ?for= may have any id.
func TestUserIDsInQueries(t *testing.T) {
	t.Parallel()
	const request = "GET /v1/boards/steps/history?"
	r := &recorder{}
	api := newAPI(t, userCalls(t, r))
	for _, id := range oddIDs {
		r.calls = nil
		send(t, api, id, request+url.Values{"for": {"1001"}, "user_id": {id}}.Encode(), "")
		send(t, api, "service", request+url.Values{"for": {"1001"}, "user_id": {id}}.Encode(), "")
		send(t, api, "1001", request+url.Values{"for": {id}}.Encode(), "")
		want := []string{
			"History steps viewer=" + id + " of=1001 -", "History steps viewer=" + id + " of=1001 -", "History steps viewer=1001 of=" + id + " -",
		}
		if diff := cmp.Diff(want, r.calls); diff != "" {
			t.Errorf("%q (-want +got):\n%s", id, diff)
		}
	}
	r.calls = nil
	for _, id := range badIDs {
		for name, token := range map[string]string{"user_id": "service", "for": "1001"} {
			got := describe(t, send(t, api, token, request+url.Values{name: {id}}.Encode(), ""))
			if !strings.HasPrefix(got, "422 validation_failed: query."+name+": ") || len(r.calls) > 0 {
				t.Errorf("%s=%q: %s, calls %q", name, id, got, r.calls)
			}
		}
	}
}

func TestUserIDsInBodies(t *testing.T) {
	t.Parallel()
	bodies := []struct{ token, request, body, call, at string }{
		{"1001", "POST /v1/friends/requests", `{"user_id":%s}`, "SendRequest 1001 %s", "body.user_id"},
		{"service", "POST /v1/users/1001/rename", `{"to":%s}`, "Rename 1001 %s", "body.to"},
		{"service", "PUT /v1/users/1001/friends", `{"friend_ids":["1002",%s]}`, "Replace 1001 [1002 %s]", "body.friend_ids[1]"},
		{"service", "POST /v1/boards/gifts/increments", `{"user_id":%s,"delta":5,"event_id":"a"}`, "Add gifts [{User:%s Amount:5 Result:false EventID:a OccurredAt:<nil>}]", "body.user_id"},
	}
	r := &recorder{}
	api := newAPI(t, userCalls(t, r))
	for _, b := range bodies {
		for _, id := range oddIDs {
			r.calls = nil
			got := send(t, api, b.token, b.request, fmt.Sprintf(b.body, quotedID(t, id)))
			if want := fmt.Sprintf(b.call, id); got.Code >= 300 || len(r.calls) != 1 || r.calls[0] != want {
				t.Errorf("%s of %q: %s, calls %q", b.request, id, describe(t, got), r.calls)
			}
		}
		for _, id := range append(badIDs, "") {
			r.calls = nil
			got := describe(t, send(t, api, b.token, b.request, fmt.Sprintf(b.body, quotedID(t, id))))
			if !strings.HasPrefix(got, "422 validation_failed: "+b.at+": ") || len(r.calls) > 0 {
				t.Errorf("%s of %q: %s, calls %q", b.request, id, got, r.calls)
			}
		}
	}
}

// In a list, an item with a bad id is rejected alone.
func TestUserIDsInLists(t *testing.T) {
	t.Parallel()
	lists := []struct{ request, list, item, call, rejection string }{
		{"POST /v1/boards/steps/scores/batch", `{"scores":[%s]}`, `{"user_id":%s,"date":"2026-11-20","score":5}`,
			"AcceptBatch steps [%s]", `"index":%d,"code":"validation_failed","detail":"body.scores[%[1]d].user_id: a user id `},
		{"POST /v1/boards/gifts/increments", `{"increments":[%s]}`, `{"user_id":%s,"delta":5,"event_id":"a"}`,
			"Add gifts [%s]", `"code":"validation_failed","detail":"body.increments[%d].user_id: a user id `},
	}
	ids := append(append([]string{}, oddIDs...), append(badIDs, "")...)
	for _, l := range lists {
		items := make([]string, len(ids))
		for i, id := range ids {
			items[i] = fmt.Sprintf(l.item, quotedID(t, id))
		}
		r := &recorder{}
		got := send(t, newAPI(t, userCalls(t, r)), "service", l.request, fmt.Sprintf(l.list, strings.Join(items, ",")))
		for i := len(oddIDs); i < len(ids); i++ {
			if want := fmt.Sprintf(l.rejection, i); !strings.Contains(got.Body.String(), want) {
				t.Errorf("%s: %q is not rejected: %s, want %s", l.request, ids[i], got.Body, want)
			}
		}
		if n := strings.Count(got.Body.String(), `"validation_failed"`); got.Code != 200 || n != len(ids)-len(oddIDs) {
			t.Errorf("%s: %d, %d items are rejected: %s", l.request, got.Code, n, got.Body)
		}
		var accepted []string
		for _, id := range oddIDs {
			if strings.HasSuffix(l.request, "batch") {
				accepted = append(accepted, "{User:"+id+" Date:2026-11-20 Score:5}")
			} else {
				accepted = append(accepted, "{User:"+id+" Amount:5 Result:false EventID:a OccurredAt:<nil>}")
			}
		}
		if diff := cmp.Diff([]string{fmt.Sprintf(l.call, strings.Join(accepted, " "))}, r.calls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", l.request, diff)
		}
	}
}

// Ids are compared byte by byte: 07 is another user than 7.
func TestUserIDsAreTexts(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	api := newAPI(t, userCalls(t, r))
	if got := describe(t, send(t, api, "07", "GET /v1/friends?user_id=7", "")); got != "403 forbidden: a user acts only for oneself" {
		t.Errorf("07 for 7: %s", got)
	}
	send(t, api, "service", "PUT /v1/users/07/friends", `{"friend_ids":["7","007","A","a"]}`)
	if diff := cmp.Diff([]string{"Replace 07 [7 007 A a]"}, r.calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Neither answers nor the log have a row id: those of the fakes begin with 8800.
func TestRowIDsAreHidden(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	config := userCalls(t, &recorder{})
	config.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	api := newAPI(t, config)
	for _, request := range []string{"GET /v1/friends?limit=1", "GET /v1/friends?limit=3", "GET /v1/friends/requests?limit=1", "GET /v1/friends/requests", "GET /v1/muted?limit=1", "GET /v1/boards/steps/likes/1001", "GET /v1/competitions", "GET /v1/competitions/walk/people"} {
		got := send(t, api, "1001", request, "")
		if text := fmt.Sprint(got.Header(), got.Body); got.Code != 200 || strings.Contains(text, "8800") {
			t.Errorf("%s: %d %s", request, got.Code, text)
		}
	}
	if strings.Contains(log.String(), "8800") {
		t.Errorf("the log has a row id:\n%s", log.String())
	}
}

// described is a schema in the API's description.
type described struct {
	Type        any                   `json:"type"`
	MinLength   int                   `json:"minLength"`
	MaxLength   int                   `json:"maxLength"`
	Pattern     string                `json:"pattern"`
	Description string                `json:"description"`
	Examples    []any                 `json:"examples"`
	Items       *described            `json:"items"`
	Properties  map[string]*described `json:"properties"`
}

// Each place of a user id is described in the same way.
func TestOpenAPIDescribesUserIDs(t *testing.T) {
	t.Parallel()
	var spec struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string     `json:"name"`
				In     string     `json:"in"`
				Schema *described `json:"schema"`

				Example any `json:"example"`
			} `json:"parameters"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]*described `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(send(t, newAPI(t, handlers.Config{}), "", "GET /openapi.json", "").Body.Bytes(), &spec); err != nil {
		t.Fatal(err)
	}
	parameters, bodies := 0, []string{}
	for path, methods := range spec.Paths {
		for method, call := range methods {
			for _, p := range call.Parameters {
				if examples := p.Schema.Examples; len(examples) > 0 && !reflect.DeepEqual(p.Example, examples[0]) || len(examples) == 0 && p.Example != nil {
					t.Errorf("%s %s has the example %v for %s, want the first of %v", method, path, p.Example, p.Name, examples)
				}
				if p.Name == "user_id" || p.Name == "for" || p.Name == "id" && !strings.HasPrefix(path, "/v1/admin/") {
					checkUserID(t, method+" "+path+" "+p.Name, p.Schema)
					parameters++
					// The form of /docs begins with the example. Most calls work without the query's
					// ids, and a user's call does not work with another user's.
					if hasExample := len(p.Schema.Examples) > 0; hasExample != (p.In == "path") {
						t.Errorf("%s %s has the examples %q for %s", method, path, p.Schema.Examples, p.Name)
					}
				}
			}
		}
	}
	for name, schema := range spec.Components.Schemas {
		if p := schema.Properties["user_id"]; p != nil {
			checkUserID(t, name, p)
			bodies = append(bodies, name)
		}
		for _, list := range []string{"friend_ids", "member_ids"} {
			if p := schema.Properties[list]; p != nil {
				checkUserID(t, name, p.Items)
				bodies = append(bodies, name)
			}
		}
	}
	checkUserID(t, "NewUserID", spec.Components.Schemas["NewUserID"].Properties["to"])
	slices.Sort(bodies)
	want := []string{
		"AbsentPerson", "AuditEntry", "Card", "Champion", "CompetitionPerson", "Correction", "DeadLetter", "Erasure", "FoundUser", "Friend", "FriendCount", "FriendIDs", "FriendRequest", "Hold", "Increment", "Inviter", "KnownPerson", "Liker", "ListedOperator", "ListedUser", "Member", "MemberIDs",
		"NewCorrection", "NewFriendRequest", "OpenedSession", "Profile", "RankedEntry", "Review", "SessionToken", "User", "UserTotal", "WechatSession",
	}
	if diff := cmp.Diff(want, bodies); diff != "" || parameters != 90 {
		t.Errorf("%d parameters are user ids, want 90; bodies with user ids (-want +got):\n%s", parameters, diff)
	}
}

// checkUserID checks the description of a user id.
func checkUserID(t *testing.T, place string, s *described) {
	t.Helper()
	if fmt.Sprint(s.Type) != "string" && fmt.Sprint(s.Type) != "[string null]" || s.MinLength != 1 || s.MaxLength != 128 || s.Description == "" {
		t.Errorf("%s: %+v", place, s)
	}
	checkPattern(t, place, s.Pattern)
}

// checkPattern checks that a pattern matches all user ids and nothing else, apart from texts that are too long.
func checkPattern(t *testing.T, place, text string) {
	t.Helper()
	pattern, err := regexp.Compile(text)
	if err != nil {
		t.Fatalf("%s: %v", place, err)
	}
	for _, id := range oddIDs {
		if !pattern.MatchString(id) {
			t.Errorf("%s: %s does not match %q", place, text, id)
		}
	}
	for _, id := range append(badIDs, "", "a\n", "\na") {
		if pattern.MatchString(id) && len(id) <= models.MaxUserID {
			t.Errorf("%s: %s matches %q", place, text, id)
		}
	}
}
