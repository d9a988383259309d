package e2e_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
)

// Every route is described, with its errors as problems.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newServer(t, env)
	var spec struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string `json:"summary"`
			Description string `json:"description"`
			Responses   map[string]struct {
				Ref     string         `json:"$ref"`
				Content map[string]any `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Type  any
					Ref   string `json:"$ref"`
					OneOf []struct {
						Type any
						Ref  string `json:"$ref"`
					} `json:"oneOf"`
				} `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(s.call("", "GET", "/openapi.json", nil).body, &spec); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /v1/boards/{board}/scores", "POST /v1/boards/{board}/scores/batch", "GET /v1/boards", "GET /v1/boards/{board}/friends", "GET /v1/boards/{board}/friends/stream",
		"GET /v1/boards/{board}/top", "GET /v1/boards/{board}/around", "GET /v1/boards/{board}/me", "GET /v1/friends", "GET /v1/friends/requests",
		"POST /v1/friends/requests", "POST /v1/friends/requests/{id}/accept", "DELETE /v1/friends/requests/{id}", "DELETE /v1/friends/{id}",
		"GET /v1/me/invite", "POST /v1/me/invite", "GET /v1/friends/invites/{code}", "POST /v1/friends/join", "GET /v1/group-invites/{code}",
		"DELETE /v1/me", "DELETE /v1/users/{id}", "DELETE /v1/admin/users/{id}", "GET /v1/admin/erasures",
		"GET /v1/me/export", "GET /v1/admin/users/{id}/export",
		"POST /v1/in/{key}", "POST /v1/in", "POST /v1/wechat/sessions", "POST /v1/wechat/steps", "GET /v1/me/upload-addresses", "POST /v1/me/upload-addresses", "PUT /v1/me/upload-addresses/{address}",
		"DELETE /v1/me/upload-addresses/{address}", "GET /v1/admin/users/{id}/upload-addresses", "DELETE /v1/admin/users/{id}/upload-addresses/{address}",
		"GET /v1/me/push", "PUT /v1/me/push", "DELETE /v1/me/push", "GET /v1/me/privacy", "PUT /v1/me/privacy", "GET /v1/hidden-from", "PUT /v1/hidden-from/{id}", "DELETE /v1/hidden-from/{id}",
		"GET /v1/muted", "PUT /v1/muted/{id}", "DELETE /v1/muted/{id}", "GET /v1/blocked", "PUT /v1/blocked/{id}", "DELETE /v1/blocked/{id}",
		"GET /v1/me", "PUT /v1/me", "PUT /v1/users/{id}", "POST /v1/users/{id}/rename", "PUT /v1/users/{id}/friends", "GET /v1/boards/{board}/history",
		"GET /v1/admin/archives", "POST /v1/admin/archives", "GET /v1/admin/dead-letters", "POST /v1/admin/dead-letters/{id}/replay",
		"DELETE /v1/admin/dead-letters/{id}", "POST /v1/admin/dead-letters/replay", "POST /v1/admin/dead-letters/delete", "POST /v1/boards/{board}/increments", "POST /v1/admin/boards", "GET /v1/admin/boards/{board}", "PUT /v1/admin/boards/{board}",
		"GET /v1/admin/reviews", "POST /v1/admin/reviews/{id}/dismiss",
		"GET /v1/admin/holds", "POST /v1/admin/holds/{id}/release", "POST /v1/admin/holds/{id}/reject",
		"POST /v1/admin/corrections", "POST /v1/admin/corrections/{id}/lift", "GET /v1/admin/corrections",
		"GET /v1/admin/audit", "GET /v1/admin/status", "GET /v1/admin/boards/{board}/buckets", "GET /v1/admin/users", "GET /v1/admin/users/{id}", "GET /v1/admin/users/{id}/explain", "GET /v1/boards/{board}/me/explain",
		"GET /v1/boards/{board}/likes/{id}", "PUT /v1/boards/{board}/likes/{id}", "DELETE /v1/boards/{board}/likes/{id}",
		"GET /v1/boards/{board}/summary", "GET /v1/boards/{board}/groups/{group}", "GET /v1/boards/{board}/groups/{group}/stream",
		"GET /v1/boards/{board}/friends/absent", "GET /v1/boards/{board}/groups/{group}/absent", "GET /v1/groups", "POST /v1/groups",
		"POST /v1/groups/join", "GET /v1/groups/{group}", "PUT /v1/groups/{group}", "DELETE /v1/groups/{group}",
		"POST /v1/groups/{group}/invite", "DELETE /v1/groups/{group}/members/{id}", "PUT /v1/groups/{group}/members",
		"GET /v1/competitions", "GET /v1/competitions/{competition}", "GET /v1/competitions/{competition}/teams", "GET /v1/competitions/{competition}/people",
		"POST /v1/competitions/join", "PUT /v1/competitions/{competition}", "DELETE /v1/competitions/{competition}", "POST /v1/admin/competitions/{competition}/recompute",
		"GET /v1/admin/webhooks/deliveries", "POST /v1/admin/webhooks/deliveries/{id}/replay",
	}
	seen := make(map[string]bool)
	for _, route := range want {
		method, path, _ := strings.Cut(route, " ")
		op, ok := spec.Paths[path][strings.ToLower(method)]
		if !ok || op.Summary == "" || op.OperationID == "" || seen[op.OperationID] {
			t.Errorf("%s: %+v", route, op)
		}
		seen[op.OperationID] = true
		if text, who, ok := strings.Cut(op.Description, "\n\n"); !ok || text == "" || who == "" {
			t.Errorf("%s is described as %q", route, op.Description)
		}
		if op.Responses["503"].Ref != "#/components/responses/Unavailable" {
			t.Errorf("%s does not describe its errors: %v", route, op.Responses)
		}
	}
	count := 0
	for _, methods := range spec.Paths {
		count += len(methods)
	}
	if count != len(want) || spec.OpenAPI != "3.1.0" {
		t.Errorf("%d operations are described, want %d", count, len(want))
	}
	if _, ok := spec.Paths["/v1/friends/requests"]["post"].Responses["201"].Content["application/json"]; !ok {
		t.Error("asking does not describe 201")
	}
	// Exactly the fields that may be null are described as nullable.
	nullable := make(map[string]bool)
	for name, schema := range spec.Components.Schemas {
		for property, p := range schema.Properties {
			if types, ok := p.Type.([]any); ok && slices.Contains(types, any("null")) {
				nullable[name+"."+property] = true
			}
			if len(p.OneOf) == 2 && (p.OneOf[0].Ref == "#/components/schemas/RankedEntry" || p.OneOf[0].Ref == "#/components/schemas/Champion" || p.OneOf[0].Ref == "#/components/schemas/Standing" || p.OneOf[0].Ref == "#/components/schemas/Held" || p.OneOf[0].Ref == "#/components/schemas/CompetitionPlace" || p.OneOf[0].Ref == "#/components/schemas/CompetitionTeam") && p.OneOf[1].Type == "null" && p.Ref == "" {
				nullable[name+"."+property] = true
			}
		}
	}
	wantNull := map[string]bool{
		"AbsentPage.date": true, "AbsentPage.next_cursor": true,
		"Ranking.me": true, "AcceptedTotals.me": true, "IncrementResults.me": true, "Ranking.champion": true, "Ranking.date": true, "Ranking.next_cursor": true, "FriendPage.next_cursor": true, "FriendRequestPage.next_cursor": true, "LikerPage.next_cursor": true, "ListedUserPage.next_cursor": true, "RankedEntry.user_id": true,
		"WebhookAttempt.status": true, "WebhookDelivery.finished_at": true, "WebhookDelivery.next_attempt_at": true,
		"WebhookDeliveryPage.next_cursor": true,
		"Standing.score":                  true, "Standing.reached_at": true, "Standing.global_rank": true, "Standing.friends_rank": true,
		"Standing.percentile": true, "ArchiveRun.finished_at": true, "ArchiveRunPage.next_cursor": true, "DeadLetterPage.next_cursor": true,
		"Board.open_days": true, "Board.window_hours": true, "Board.uploads": true, "BoardDefinition.uploads": true, "Board.closes_at": true, "BoardDefinition.closes_at": true, "CurrentBucket.date": true, "CurrentBucket.starts_at": true, "CurrentBucket.ends_at": true, "CurrentBucket.closes_at": true,
		"Competition.cap": true, "Competition.goal": true, "Competition.join_code": true, "Competition.as_of": true, "Competition.changed_at": true, "Competition.me": true, "Competition.my_team": true,
		"CompetitionTeam.score": true, "CompetitionTeam.not_counting": true, "CompetitionPerson.user_id": true, "CompetitionPerson.group_id": true, "CompetitionPerson.reached_at": true,
		"TeamStanding.next_cursor": true, "PeopleStanding.next_cursor": true, "NewCompetition.cap": true, "NewCompetition.goal": true,
		"DeadLetter.board": true, "DeadLetter.bucket": true, "DeadLetter.user_id": true, "DeadLetter.score": true, "DeadLetter.reached_at": true,
		"Summary.average": true, "Group.owner_id": true, "Group.invite_code": true, "GroupPage.owner_id": true, "GroupPage.invite_code": true, "GroupPage.next_cursor": true,
		"DeadLetter.payload": true, "DeadLetterSelection.through": true, "EndedSubscription.endpoint": true, "HandledDeadLetters.next_through": true, "BoardDefinition.open_days": true, "BoardDefinition.window_hours": true, "IncrementResult.score": true, "IncrementResult.reached_at": true,
		"ReviewPage.next_cursor": true, "Review.date": true, "Review.user_id": true, "Review.dismissed_at": true, "Review.dismissed_by": true,
		"Review.dismiss_reason": true, "RejectedPhoneTotal.date": true,
		"HoldPage.next_cursor": true, "Hold.user_id": true, "Hold.counting": true, "Hold.decided_at": true, "Hold.decided_by": true,
		"Hold.reason": true, "Hold.message": true, "Standing.held": true,
		"NewErasure.erasure_id": true,
		"Push.vapid_public_key": true, "Subscription.endpoint": true, "UploadAddress.last_used_at": true, "MadeAddress.last_used_at": true,
		"LastResult.date": true, "LastResult.score": true, "LastResult.code": true, "Erasure.user_id": true, "Erasure.swept_at": true, "Erasure.finished_at": true, "ErasurePage.next_cursor": true,
		"BoardBucket.date": true, "BoardBucket.total": true, "BoardBucket.score_sum": true, "BoardBucketPage.next_cursor": true, "User.created_at": true, "UserPage.next_cursor": true,
		"JobStatus.started_at": true, "JobStatus.succeeded_at": true, "JobStatus.failed_at": true,
		"AuditPage.next_cursor": true, "AuditEntry.board": true, "AuditEntry.bucket": true, "AuditEntry.user_id": true,
		"AuditEntry.target": true, "AuditEntry.reason": true, "AuditEntry.request_id": true, "AuditEntry.outcome": true,
		"Explanation.score": true, "Explanation.reached_at": true, "NextScore.score": true, "NextScore.reached_at": true,
		"Standing.correction": true, "NewCorrection.date": true, "NewCorrection.score": true, "CorrectionPage.next_cursor": true,
		"Correction.id": true, "Correction.date": true, "Correction.user_id": true, "Correction.score": true, "Correction.before": true,
		"Correction.first_date": true, "Correction.lifted_at": true, "Correction.lifted_by": true, "Correction.lift_reason": true,
	}
	if diff := cmp.Diff(wantNull, nullable); diff != "" {
		t.Errorf("nullable -want +got:\n%s", diff)
	}
}

// openAPI is the part of the API's description that these tests read.
type openAPI struct {
	Paths map[string]map[string]struct {
		RequestBody *bodySchemas           `json:"requestBody"`
		Responses   map[string]bodySchemas `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas   map[string]any         `json:"schemas"`
		Responses map[string]bodySchemas `json:"responses"`
	} `json:"components"`
}

// bodySchemas is a body's schemas by content type, or refers to them.
type bodySchemas struct {
	Ref     string `json:"$ref"`
	Content map[string]struct {
		Schema any `json:"schema"`
	} `json:"content"`
}

// openAPI returns the API's description.
func (s *server) openAPI() *openAPI {
	s.t.Helper()
	spec := &openAPI{}
	if err := json.Unmarshal(s.call("", "GET", "/openapi.json", nil).body, spec); err != nil {
		s.t.Fatal(err)
	}
	return spec
}

// resolve returns the response itself, or the component that it refers to.
func (spec *openAPI) resolve(response bodySchemas) bodySchemas {
	if response.Ref == "" {
		return response
	}
	return spec.Components.Responses[response.Ref[strings.LastIndex(response.Ref, "/")+1:]]
}

// collectObjects records for every object schema below v whether it refuses
// unknown fields. The key is the schema's name, or the path where it is found.
// References are followed.
func (spec *openAPI) collectObjects(at string, v any, closed map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			name := ref[strings.LastIndex(ref, "/")+1:]
			if _, known := closed[name]; !known {
				spec.collectObjects(name, spec.Components.Schemas[name], closed)
			}
			return
		}
		if v["type"] == "object" {
			closed[at] = v["additionalProperties"] == false
		}
		for key, below := range v {
			spec.collectObjects(at+"."+key, below, closed)
		}
	case []any:
		for i, below := range v {
			spec.collectObjects(at+"."+strconv.Itoa(i), below, closed)
		}
	}
}

// Requests refuse unknown fields. Answers allow them, so that generated clients
// accept new fields.
func TestOpenAPIClosesRequestsAndOpensAnswers(t *testing.T) {
	t.Parallel()
	spec := newServer(t, testenv.Local(t)).openAPI()
	requests, answers := make(map[string]bool), make(map[string]bool)
	for path, methods := range spec.Paths {
		for method, op := range methods {
			at := method + " " + path
			if op.RequestBody != nil {
				for _, content := range op.RequestBody.Content {
					spec.collectObjects(at, content.Schema, requests)
				}
			}
			for status, response := range op.Responses {
				for _, content := range spec.resolve(response).Content {
					spec.collectObjects(at+" "+status, content.Schema, answers)
				}
			}
		}
	}
	for name, closed := range requests {
		if !closed {
			t.Errorf("%s of a request takes unknown fields", name)
		}
	}
	for name, closed := range answers {
		if closed {
			t.Errorf("%s of an answer may have no new fields", name)
		}
	}
	for _, name := range []string{"DayTotal", "DayTotals", "UserTotal", "Increments", "NewBoard", "NewProfile"} {
		if _, ok := requests[name]; !ok {
			t.Errorf("%s was not found below the requests", name)
		}
	}
	for _, name := range []string{"Ranking", "RankedEntry", "CurrentBucket", "Problem", "FieldError", "ArchiveRun"} {
		if _, ok := answers[name]; !ok {
			t.Errorf("%s was not found below the answers", name)
		}
	}
}

// Every operation lists its statuses besides those that all operations have.
func TestOpenAPIListsTheStatuses(t *testing.T) {
	t.Parallel()
	spec := newServer(t, testenv.Local(t)).openAPI()
	every := []string{"401", "403", "422", "429", "500", "503"}
	want := map[string]string{
		"post /v1/boards/{board}/scores":                         "200 202 400 404 408 409 413",
		"post /v1/boards/{board}/scores/batch":                   "200 202 400 404 408 409 413",
		"post /v1/boards/{board}/increments":                     "200 400 404 408 409 413",
		"get /v1/boards":                                         "200",
		"get /v1/boards/{board}/friends":                         "200 400 404 409",
		"get /v1/boards/{board}/friends/stream":                  "200 404 409",
		"get /v1/boards/{board}/top":                             "200 400 404 409",
		"get /v1/boards/{board}/around":                          "200 404 409",
		"get /v1/boards/{board}/me":                              "200 404 409",
		"get /v1/boards/{board}/me/explain":                      "200 404 409",
		"get /v1/boards/{board}/history":                         "200 404 409",
		"get /v1/friends":                                        "200 400",
		"delete /v1/friends/{id}":                                "204",
		"delete /v1/me":                                          "202 400 404 408 413",
		"delete /v1/users/{id}":                                  "202 404",
		"delete /v1/admin/users/{id}":                            "200 202 400 404 408 413",
		"get /v1/admin/erasures":                                 "200 400",
		"get /v1/me/export":                                      "200 404",
		"get /v1/admin/users/{id}/export":                        "200 404",
		"get /v1/friends/requests":                               "200 400",
		"post /v1/friends/requests":                              "200 201 400 404 408 409 413",
		"post /v1/friends/requests/{id}/accept":                  "200 404 409",
		"delete /v1/friends/requests/{id}":                       "204",
		"get /v1/me/invite":                                      "200",
		"post /v1/me/invite":                                     "200",
		"get /v1/friends/invites/{code}":                         "200 404",
		"post /v1/friends/join":                                  "200 400 404 408 409 413",
		"get /v1/group-invites/{code}":                           "200 404",
		"get /v1/me/privacy":                                     "200",
		"put /v1/me/privacy":                                     "200 400 408 413",
		"get /v1/me/push":                                        "200",
		"put /v1/me/push":                                        "200 400 408 413",
		"delete /v1/me/push":                                     "204 400 408 413",
		"get /v1/hidden-from":                                    "200 400",
		"put /v1/hidden-from/{id}":                               "204 404 409",
		"delete /v1/hidden-from/{id}":                            "204",
		"get /v1/muted":                                          "200 400",
		"put /v1/muted/{id}":                                     "204 404 409",
		"delete /v1/muted/{id}":                                  "204",
		"get /v1/blocked":                                        "200 400",
		"put /v1/blocked/{id}":                                   "204 404 409",
		"delete /v1/blocked/{id}":                                "204",
		"get /v1/me":                                             "200",
		"put /v1/me":                                             "200 400 408 413",
		"put /v1/users/{id}":                                     "200 400 408 413",
		"put /v1/users/{id}/friends":                             "200 400 408 409 413",
		"post /v1/admin/boards":                                  "200 201 400 408 409 413",
		"put /v1/admin/boards/{board}":                           "200 400 404 408 409 413",
		"get /v1/admin/boards/{board}":                           "200 404",
		"get /v1/admin/archives":                                 "200 400",
		"post /v1/admin/archives":                                "200 202 400 404 408 409 413",
		"get /v1/admin/dead-letters":                             "200 400",
		"post /v1/admin/dead-letters/{id}/replay":                "204 404",
		"post /v1/admin/dead-letters/delete":                     "200 400 408 413",
		"post /v1/admin/dead-letters/replay":                     "200 400 408 413",
		"delete /v1/admin/dead-letters/{id}":                     "204 404",
		"get /v1/admin/reviews":                                  "200 400",
		"post /v1/admin/reviews/{id}/dismiss":                    "200 400 404 408 413",
		"get /v1/admin/holds":                                    "200 400",
		"post /v1/admin/holds/{id}/release":                      "200 400 404 408 409 413",
		"post /v1/admin/holds/{id}/reject":                       "200 400 404 408 409 413",
		"post /v1/admin/corrections":                             "200 201 400 404 408 409 413",
		"post /v1/admin/corrections/{id}/lift":                   "200 400 404 408 413",
		"get /v1/admin/corrections":                              "200 400",
		"get /v1/admin/audit":                                    "200 400",
		"get /v1/admin/status":                                   "200",
		"get /v1/admin/boards/{board}/buckets":                   "200 400 404",
		"get /v1/admin/users":                                    "200 400",
		"get /v1/admin/users/{id}":                               "200 404 409",
		"get /v1/admin/users/{id}/explain":                       "200 404 409",
		"post /v1/in/{key}":                                      "200 202 400 404 408 409 413",
		"post /v1/in":                                            "200 202 400 404 408 409 413",
		"post /v1/wechat/sessions":                               "200 400 408 413",
		"post /v1/wechat/steps":                                  "200 202 400 404 408 409 413",
		"get /v1/me/upload-addresses":                            "200",
		"post /v1/me/upload-addresses":                           "201 400 404 408 409 413",
		"put /v1/me/upload-addresses/{address}":                  "200 400 404 408 413",
		"delete /v1/me/upload-addresses/{address}":               "204 404",
		"get /v1/admin/users/{id}/upload-addresses":              "200",
		"delete /v1/admin/users/{id}/upload-addresses/{address}": "204 404",

		"get /v1/boards/{board}/likes/{id}":            "200 400 404 409",
		"put /v1/boards/{board}/likes/{id}":            "204 404 409",
		"delete /v1/boards/{board}/likes/{id}":         "204 404 409",
		"get /v1/boards/{board}/summary":               "200 404 409",
		"get /v1/boards/{board}/groups/{group}":        "200 400 404 409",
		"get /v1/boards/{board}/groups/{group}/stream": "200 404 409",
		"get /v1/boards/{board}/friends/absent":        "200 400 404 409",
		"get /v1/boards/{board}/groups/{group}/absent": "200 400 404 409",
		"get /v1/groups":                               "200",
		"post /v1/groups":                              "201 400 408 409 413",
		"post /v1/groups/join":                         "200 400 404 408 409 413",
		"get /v1/groups/{group}":                       "200 400 404",
		"put /v1/groups/{group}":                       "200 400 404 408 413",
		"delete /v1/groups/{group}":                    "204",
		"post /v1/groups/{group}/invite":               "200 404",
		"post /v1/users/{id}/rename":                   "204 400 404 408 409 413",
		"delete /v1/groups/{group}/members/{id}":       "204 404",
		"put /v1/groups/{group}/members":               "200 400 408 409 413",

		"get /v1/competitions":                                "200",
		"get /v1/competitions/{competition}":                  "200 404",
		"get /v1/competitions/{competition}/teams":            "200 400 404",
		"get /v1/competitions/{competition}/people":           "200 400 404",
		"post /v1/competitions/join":                          "200 400 404 408 409 413",
		"put /v1/competitions/{competition}":                  "200 400 404 408 409 413",
		"delete /v1/competitions/{competition}":               "204",
		"post /v1/admin/competitions/{competition}/recompute": "200 202 400 404 408 413",

		"get /v1/admin/webhooks/deliveries":              "200 400",
		"post /v1/admin/webhooks/deliveries/{id}/replay": "200 404",
	}
	got := make(map[string]string)
	for path, methods := range spec.Paths {
		for method, op := range methods {
			var own []string
			for status := range op.Responses {
				if !slices.Contains(every, status) {
					own = append(own, status)
				}
			}
			for _, status := range every {
				if _, ok := op.Responses[status]; !ok {
					t.Errorf("%s %s does not list %s", method, path, status)
				}
			}
			slices.Sort(own)
			got[method+" "+path] = strings.Join(own, " ")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
