package handlers

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// operation describes a call to the clients of the API. It is declared next to
// the handler that serves the call; router.go gives it a path.
type operation struct {
	summary     string
	description string
	// status is the status on success; 0 means 200.
	status int
	// otherStatus is a second status on success, with the same body; 0 if none.
	otherStatus int
	// errors are the statuses of errors, except those that every call may return.
	errors []int
	// body is a zero value of the request body if the handler decodes the body
	// itself, otherwise nil.
	body any
	// responses returns a description that replaces the generated one of the
	// responses; nil keeps that. Huma changes what it returns.
	responses func() map[string]*huma.Response
}

// bodyErrors returns the error statuses of a call that takes a body: those of
// every body, and more.
func bodyErrors(more ...int) []int {
	return append([]int{http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge}, more...)
}

// commonErrors returns the error statuses of every call. Huma adds 422 and 500.
func commonErrors() []int {
	return []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}
}

// register adds a call to the API: its route, such as "GET /v1/boards", the
// audience that may make it, the handler that serves it, and its description.
func register[I, O any](api huma.API, route string, by audience, handler func(context.Context, *I) (*O, error), described operation) {
	method, path, _ := strings.Cut(route, " ")
	op := huma.Operation{
		OperationID:   operationID(method, path),
		Method:        method,
		Path:          path,
		Summary:       described.summary,
		Description:   described.description + "\n\n" + by.describe(),
		Tags:          []string{tagOf(path)},
		Security:      []map[string][]string{{"bearer": {}}},
		Metadata:      map[string]any{audienceKey: by},
		MaxBodyBytes:  maxBody + 1, // Huma refuses a body that reaches its limit
		DefaultStatus: described.status,
		Errors:        append(commonErrors(), described.errors...),
		Responses:     make(map[string]*huma.Response),
	}
	if described.responses != nil {
		op.Responses = described.responses()
	}
	if described.body != nil {
		op.RequestBody = bodyOf(api, described.body)
		op.SkipValidateBody = true
	}
	huma.Register(api, op, handler) // fills in op.Responses
	if described.otherStatus != 0 {
		op.Responses[strconv.Itoa(described.otherStatus)] = &huma.Response{
			Description: http.StatusText(described.otherStatus), Content: op.Responses["200"].Content,
		}
	}
}

// bodyOf describes a request body that the handler decodes itself.
func bodyOf(api huma.API, body any) *huma.RequestBody {
	t := reflect.TypeOf(body)
	return &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())},
		},
	}
}

// operationID returns the method and the path without version and parameters:
// post-boards-scores.
func operationID(method, path string) string {
	parts := []string{strings.ToLower(method)}
	for _, part := range strings.Split(strings.TrimPrefix(path, "/v1/"), "/") {
		if !strings.HasPrefix(part, "{") {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "-")
}

// tagOf returns the first part of the path behind the version.
func tagOf(path string) string {
	tag, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	return tag
}
