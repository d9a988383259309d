package e2e_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

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
	}
	if err := json.Unmarshal(s.call("", "GET", "/openapi.json", nil).body, &spec); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	want := matrix()
	for route := range want {
		method, path, _ := strings.Cut(route, " ")
		op, ok := spec.Paths[path][strings.ToLower(method)]
		if !ok || op.Summary == "" || op.OperationID == "" || seen[op.OperationID] {
			t.Errorf("%s: %+v", route, op)
		}
		seen[op.OperationID] = true
		if text, who, ok := strings.Cut(op.Description, "\n\n"); !ok || text == "" || who == "" {
			t.Errorf("%s is described as %q", route, op.Description)
		}
		for _, status := range []string{"401", "403", "422", "429", "500"} {
			if _, ok := op.Responses[status]; !ok && (status != "401" || !open(want[route].by)) {
				t.Errorf("%s does not list %s", route, status)
			}
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
