package handlers

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// adjust changes an operation before it is registered.
type adjust func(huma.API, *huma.Operation)

// register binds a call of the API to its handler and describes it.
func register[I, O any](h huma.API, method, path string, by audience, summary string, handler func(context.Context, *I) (*O, error), adjustments ...adjust) {
	about := calls[method+" "+path]
	op := huma.Operation{
		OperationID:  operationID(handlerNoun(path), method),
		Method:       method,
		Path:         path,
		Summary:      summary,
		Description:  about.text + "\n\n" + by.describe(),
		Tags:         []string{tagOf(path)},
		Security:     []map[string][]string{{"bearer": {}}},
		Metadata:     map[string]any{audienceKey: by},
		MaxBodyBytes: maxBody + 1, // Huma refuses what reaches its limit
		Errors:       append([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}, about.errors...),
	}
	if method == http.MethodDelete {
		answers(http.StatusNoContent)(h, &op)
	}
	for _, a := range adjustments {
		a(h, &op)
	}
	huma.Register(h, op, handler)
}

// answers says what a call answers that goes well, where that is not 200.
func answers(status int) adjust {
	return func(_ huma.API, op *huma.Operation) { op.DefaultStatus = status }
}

// body describes a request body that the handler decodes itself.
func body[T any](h huma.API, op *huma.Operation) {
	t := reflect.TypeFor[T]()
	op.RequestBody = &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: h.OpenAPI().Components.Schemas.Schema(t, true, t.Name())},
		},
	}
	op.SkipValidateBody = true
}

// handlerNoun is the path without its version and parameters.
func handlerNoun(path string) string {
	var parts []string
	for _, part := range strings.Split(strings.TrimPrefix(path, "/v1/"), "/") {
		if !strings.HasPrefix(part, "{") {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "-")
}

func operationID(noun, method string) string { return strings.ToLower(method) + "-" + noun }

func tagOf(path string) string {
	tag, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	return tag
}
