package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"stepboard/app"
	"stepboard/handlers"
	"stepboard/models"
)

// documentedCodes returns the error codes that /openapi.json lists, by operation ("GET
// /v1/boards") and status; none for the statuses of success.
var documentedCodes = sync.OnceValues(func() (map[string]map[int][]models.Code, error) {
	document, err := handlers.OpenAPI(app.Version())
	if err != nil {
		return nil, err
	}
	var spec struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Ref string `json:"$ref"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct {
						AllOf []struct {
							Properties struct {
								Code struct{ Enum []models.Code }
							}
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(document, &spec); err != nil {
		return nil, err
	}
	codes := make(map[string]map[int][]models.Code)
	for path, methods := range spec.Paths {
		for method, op := range methods {
			byStatus := make(map[int][]models.Code)
			for status, response := range op.Responses {
				number, err := strconv.Atoi(status)
				if err != nil {
					return nil, err
				}
				byStatus[number] = nil
				component := spec.Components.Responses[response.Ref[strings.LastIndex(response.Ref, "/")+1:]]
				for _, part := range component.Content["application/problem+json"].Schema.AllOf {
					byStatus[number] = append(byStatus[number], part.Properties.Code.Enum...)
				}
			}
			codes[strings.ToUpper(method)+" "+path] = byStatus
		}
	}
	return codes, nil
})

// operationOf returns the operation that serves a path; "" if there is none. Of several,
// it is the one with the fewest parameters.
func operationOf(codes map[string]map[int][]models.Code, method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(path, "/")
	found := ""
	for operation := range codes {
		ofMethod, template, _ := strings.Cut(operation, " ")
		matches := ofMethod == method && slices.EqualFunc(strings.Split(template, "/"), parts, func(t, part string) bool {
			return t == part || strings.HasPrefix(t, "{")
		})
		if matches && (found == "" || strings.Count(operation, "{") < strings.Count(found, "{")) {
			found = operation
		}
	}
	return found
}

// checkDocumented checks that /openapi.json lists an error for the call that it answers.
// Every call of these tests is checked.
func checkDocumented(t testing.TB, method, path string, a answer) {
	t.Helper()
	if a.header.Get("Content-Type") != "application/problem+json" || a.status == http.StatusMethodNotAllowed {
		return
	}
	codes, err := documentedCodes()
	if err != nil {
		t.Fatal(err)
	}
	operation := operationOf(codes, method, path)
	if operation != "" && !slices.Contains(codes[operation][a.status], a.code()) {
		t.Errorf("%s answers %d %s, which /openapi.json does not list: %v", operation, a.status, a.code(), codes[operation])
	}
}
