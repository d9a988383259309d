package handlers

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stepboard/models"
)

// operation describes a call to the clients of the API. It is declared next to
// the handler that serves the call; router.go gives it a path.
type operation struct {
	// id is the name of the call in generated clients, such as getFriendRanking.
	id          string
	summary     string
	description string
	// status is the status on success; 0 means 200.
	status int
	// otherStatus is a second status on success, with the same body; 0 if none.
	otherStatus int
	// errors are the codes of errors, except those that every call may return.
	errors []models.Code
	// bodies are zero values of the bodies that the call takes, if the handler decodes
	// the body itself; otherwise nil.
	bodies []any
	// responses returns a description that replaces the generated one of the
	// responses; nil keeps that. Huma changes what it returns.
	responses func() map[string]*huma.Response

	// redisOnly reports that a call that changes something stores it in Redis alone, so that
	// it is answered while SQL is away.
	redisOnly bool
	// audited is set by registerChange.
	audited bool
}

// bodyErrors returns the error codes of a call that takes a body: those of every
// body, and more.
func bodyErrors(more ...models.Code) []models.Code {
	return append([]models.Code{models.CodeInvalidRequest, models.CodeRequestTimeout, models.CodeBodyTooLarge}, more...)
}

// commonErrors returns the error codes of every call.
func commonErrors() []models.Code {
	return []models.Code{
		models.CodeUnauthenticated, models.CodeForbidden, models.CodeValidationFailed, models.CodeRateLimited,
		models.CodeInternal, models.CodeUnavailable,
	}
}

// register adds a call to the API: its route, such as "GET /v1/boards", the
// audience that may make it, the handler that serves it, and its description.
func register[I, O any](api huma.API, route string, by audience, handler func(context.Context, *I) (*O, error), described operation) {
	method, path, _ := strings.Cut(route, " ")
	if by == byAdmin && method != http.MethodGet && !described.audited {
		panic(route + ": what operators change is registered by registerChange")
	}
	op := huma.Operation{
		OperationID:   described.id,
		Method:        method,
		Path:          path,
		Summary:       described.summary,
		Description:   described.description + "\n\n" + by.describe(),
		Tags:          []string{tagOf(path, by)},
		Security:      []map[string][]string{{"bearer": {}}},
		Metadata:      map[string]any{audienceKey: by, changesSQLKey: method != http.MethodGet && !described.redisOnly},
		MaxBodyBytes:  maxBody + 1, // Huma refuses a body that reaches its limit
		DefaultStatus: described.status,
		Errors:        []int{http.StatusInternalServerError}, // describeErrors lists all
		Responses:     make(map[string]*huma.Response),
	}
	if described.responses != nil {
		op.Responses = described.responses()
	}
	if described.bodies != nil {
		op.RequestBody = bodyOf(api, described.bodies)
		op.SkipValidateBody = true
	}
	huma.Register(api, op, handler) // fills in op.Responses
	if described.bodies != nil {
		delete(op.RequestBody.Content, "application/octet-stream") // Huma adds it for a RawBody
	}
	if described.otherStatus != 0 {
		op.Responses[strconv.Itoa(described.otherStatus)] = &huma.Response{
			Description: http.StatusText(described.otherStatus), Content: op.Responses["200"].Content,
		}
	}
	describeErrors(api.OpenAPI().Components, op.Responses, append(commonErrors(), described.errors...))
}

// bodyOf describes a request body that the handler decodes itself. It has one of the
// bodies' forms.
func bodyOf(api huma.API, bodies []any) *huma.RequestBody {
	forms := make([]*huma.Schema, len(bodies))
	for i, body := range bodies {
		t := reflect.TypeOf(body)
		forms[i] = api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
	}
	schema := forms[0]
	if len(forms) > 1 {
		schema = &huma.Schema{OneOf: forms}
	}
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}
