package handlers

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
)

// aboutAPI is the beginning of the API's description.
const aboutAPI = `Rankings among friends, today or on any past day.

**A token.** Every call carries a JWT: ` + "`Authorization: Bearer …`" + `. Your own backend signs it for
the user who is logged in, and your app asks that backend for it. For a trial,
` + "`stepboard token --user 1001`" + ` prints one.

**The examples** of the calls of users work as they stand, on the board ` + "`steps`" + ` that every new service has. In a
shell, type ` + "`TOKEN=…`" + ` before the command of a call.

**Errors** are problems (RFC 9457). A program decides by ` + "`code`" + `; more codes may be added to an answer.`

// OpenAPI returns the description of the API as JSON: the document that a service of
// this version has at /openapi.json.
func OpenAPI(version string) ([]byte, error) {
	engine, err := newEngine(nil)
	if err != nil {
		return nil, err
	}
	api := newHuma(engine, version, "")
	(&Config{}).routes(api, newMetrics(prometheus.NewRegistry(), nil))
	describeMore(api.OpenAPI())
	return json.Marshal(api.OpenAPI())
}

// newHuma returns an API without calls on the engine. Its callers reach it below basePath.
func newHuma(engine *gin.Engine, version, basePath string) huma.API {
	useProblems()
	config := huma.DefaultConfig("Stepboard", version)
	config.Info.Description = aboutAPI
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	config.Servers = []*huma.Server{{URL: cmp.Or(basePath, "/"), Description: "This service"}}
	config.Tags = tags()
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
	}
	// A schema has the name of its Go type, with a capital letter.
	config.Components.Schemas = huma.NewMapRegistry(schemaRef, huma.DefaultSchemaNamer)
	config.Components.Responses = make(map[string]*huma.Response)
	config.CreateHooks = nil // no $schema links in answers
	config.DocsPath, config.SchemasPath = "", ""
	config.RejectUnknownQueryParameters = true
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[models.UserID](), reflect.TypeFor[userIDSchema]())
	config.Formats = map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat}
	return humagin.New(engine, config)
}

// userIDSchema describes models.UserID. Huma checks the ids of paths, queries and
// bodies against it.
type userIDSchema string

// userIDSegment matches what stands between two slashes of a user id, unless that is empty.
// userIDPattern matches the texts that models.ParseUserID accepts, and longer ones.
const (
	userIDSegment = `(\.?[!-\-0-~][!-.0-~]*|\.\.[!-.0-~]+)`
	userIDPattern = `^(` + userIDSegment + `(/` + userIDSegment + `?)*|(/` + userIDSegment + `?)+)$`
)

// Schema describes a user id.
func (userIDSchema) Schema(huma.Registry) *huma.Schema {
	shortest, longest := 1, models.MaxUserID
	return &huma.Schema{
		Type: huma.TypeString, MinLength: &shortest, MaxLength: &longest,
		Pattern: userIDPattern, PatternDescription: `a user id: printable ASCII characters without spaces, and no path segment "." or ".."`,
		Description: "A user",
	}
}

// describeMore completes the description with facts that Go types can't express.
func describeMore(spec *huma.OpenAPI) {
	schemas := spec.Components.Schemas.Map()
	// A reference to an object can't be marked nullable.
	for _, object := range []*huma.Schema{
		schemas["Ranking"].Properties["me"], schemas["Ranking"].Properties["champion"], schemas["Summary"].Properties["best"], schemas["Standing"].Properties["held"],
		schemas["BoardBucket"].Properties["last_run"], schemas["User"].Properties["erasure"],
		schemas["Group"].Properties["challenge"], schemas["GroupPage"].Properties["challenge"],
		schemas["Explanation"].Properties["reported"], schemas["Explanation"].Properties["pending"], schemas["Explanation"].Properties["held"], schemas["Explanation"].Properties["correction"],
		schemas["UploadAddress"].Properties["last_result"], schemas["MadeAddress"].Properties["last_result"],
		schemas["Competition"].Properties["me"], schemas["Competition"].Properties["my_team"],
		schemas["AcceptedTotals"].Properties["me"], schemas["IncrementResults"].Properties["me"],
	} {
		object.OneOf = []*huma.Schema{{Ref: object.Ref}, {Type: "null"}}
		object.Ref = ""
	}
	schemas[errorCode] = &huma.Schema{
		Type: huma.TypeString, Enum: allCodes(), Description: "The kind of error, for a program",
	}
	for _, name := range []string{"Problem", "IncrementResult", "RejectedTotal"} {
		code := schemas[name].Properties["code"]
		*code = huma.Schema{Ref: schemaRef + errorCode, Description: code.Description}
	}
	openResponses(spec)
	for _, schema := range schemas {
		hidePatternDescriptions(schema)
	}
	for _, op := range operations(spec) {
		for _, param := range op.Parameters {
			hidePatternDescriptions(param.Schema)
			if param.Schema != nil && len(param.Schema.Examples) > 0 {
				param.Example = param.Schema.Examples[0] // the command of a call in /docs has it
			}
		}
	}
}

// operations returns all operations of the description.
func operations(spec *huma.OpenAPI) []*huma.Operation {
	var ops []*huma.Operation
	for _, path := range spec.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Put, path.Delete} {
			if op != nil {
				ops = append(ops, op)
			}
		}
	}
	return ops
}

// hidePatternDescriptions removes the descriptions of patterns, which JSON Schema does not know,
// from a schema and the schemas inside it. Huma has used them in its messages already.
func hidePatternDescriptions(s *huma.Schema) {
	if s == nil {
		return
	}
	s.PatternDescription = ""
	hidePatternDescriptions(s.Items)
	for _, property := range s.Properties {
		hidePatternDescriptions(property)
	}
}

// openResponses lets the bodies of answers have fields that are not described yet.
// The bodies of requests stay closed; they share no schema with answers.
func openResponses(spec *huma.OpenAPI) {
	for _, op := range operations(spec) {
		for _, response := range op.Responses {
			for _, content := range response.Content {
				allowMoreFields(spec.Components.Schemas, content.Schema)
			}
		}
	}
	allowMoreFields(spec.Components.Schemas, &huma.Schema{Ref: schemaRef + "Problem"})
}

// allowMoreFields allows undescribed fields in a schema and in the schemas that it
// consists of.
func allowMoreFields(registry huma.Registry, s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		s = registry.SchemaFromRef(s.Ref)
	}
	if s.AdditionalProperties == false {
		s.AdditionalProperties = nil
	}
	allowMoreFields(registry, s.Items)
	for _, property := range s.Properties {
		allowMoreFields(registry, property)
	}
	for _, one := range s.OneOf {
		allowMoreFields(registry, one)
	}
}

const (
	schemaRef   = "#/components/schemas/"
	responseRef = "#/components/responses/"
	// errorCode is the name of the schema of models.Code.
	errorCode = "ErrorCode"
)

// describeErrors adds the responses of these codes to those of a call, one for each
// status. Calls with the same codes share one response among the components.
func describeErrors(components *huma.Components, responses map[string]*huma.Response, codes []models.Code) {
	byStatus := make(map[int][]models.Code)
	for _, code := range slices.Compact(slices.Sorted(slices.Values(codes))) {
		byStatus[statusOf[code]] = append(byStatus[statusOf[code]], code)
	}
	for status, codes := range byStatus {
		name := responseName(codes)
		if components.Responses[name] == nil {
			components.Responses[name] = errorResponse(status, codes)
		}
		responses[strconv.Itoa(status)] = &huma.Response{Ref: responseRef + name}
	}
}

// responseName returns the name of the response with these codes, such as
// BoardNotFoundOrNotFound.
func responseName(codes []models.Code) string {
	var names []string
	for _, code := range codes {
		var name strings.Builder
		for word := range strings.SplitSeq(string(code), "_") {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		names = append(names, name.String())
	}
	return strings.Join(names, "Or")
}

// errorResponse describes the response of a status with one of these codes.
func errorResponse(status int, codes []models.Code) *huma.Response {
	values, names := make([]any, len(codes)), make([]string, len(codes))
	for i, code := range codes {
		values[i], names[i] = string(code), string(code)
	}
	example := problemOf(models.Errorf(codes[0], "what is wrong, and what to do about it"))
	example.RequestID = "20ww18zqxeixg"
	response := &huma.Response{
		Description: http.StatusText(status) + ": " + strings.Join(names, ", "),
		Content: map[string]*huma.MediaType{"application/problem+json": {
			Schema: &huma.Schema{AllOf: []*huma.Schema{
				{Ref: schemaRef + "Problem"},
				{
					Type: huma.TypeObject, Required: []string{"code"},
					Properties: map[string]*huma.Schema{"code": {Type: huma.TypeString, Enum: values}},
				},
			}},
			Example: example,
		}},
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		response.Headers = map[string]*huma.Param{"Retry-After": {
			Description: "Seconds after which to try again", Schema: &huma.Schema{Type: huma.TypeInteger},
		}}
	case http.StatusUnauthorized:
		response.Headers = map[string]*huma.Param{"WWW-Authenticate": {
			Description: "Bearer", Schema: &huma.Schema{Type: huma.TypeString},
		}}
	}
	return response
}

// allCodes returns every code, by status and name.
func allCodes() []any {
	codes := slices.SortedFunc(maps.Keys(statusOf), func(a, b models.Code) int {
		return cmp.Or(cmp.Compare(statusOf[a], statusOf[b]), cmp.Compare(a, b))
	})
	values := make([]any, len(codes))
	for i, code := range codes {
		values[i] = string(code)
	}
	return values
}

// tags are the groups of calls, in the order in which /docs shows them: first those
// of users, in the order in which an app needs them.
func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "Rankings", Description: "The boards, the rankings on them and one's own days. With a user's token."},
		{Name: "Uploads", Description: "Report one's own totals, and let a phone do it. With a user's token."},
		{Name: "Friends", Description: "Friends and friend requests. With a user's token."},
		{Name: "Privacy", Description: "Hide one's scores, mute and block. With a user's token."},
		{Name: "Groups", Description: "Groups, which their members join by an invite code. With a user's token."},
		{Name: "Competitions", Description: "Competitions, in which groups are the teams. With a user's token."},
		{Name: "Profile", Description: "How others see oneself, and what one is told of. With a user's token."},
		{Name: "Phones", Description: "Calls of apps that send steps. With the key of an upload address, and no token."},
		{Name: "Signing in", Description: "How people sign in on the page without an app. The page makes these calls; the cookie of a session is read by those that say so."},
		{Name: "WeChat", Description: "Calls of mini programs of WeChat, which need no backend. The first one gives a user's token."},
		{Name: "Backends", Description: "Calls of the app's own backend. With a token of scope `service`."},
		{Name: "Operators", Description: "Calls of those who run the service. With a token of scope `admin`."},
	}
}

// tagOf returns the tag of a call.
func tagOf(path string, by *audience) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/")
	switch {
	case by == byKey:
		return "Phones"
	case noun == "session" || noun == "sign-in" || noun == "me" && strings.Contains(path, "/sessions"):
		return "Signing in"
	case noun == "wechat":
		return "WeChat"
	case by == byService, by == byManager:
		return "Backends"
	case by == byAdmin:
		return "Operators"
	case strings.HasSuffix(path, "/scores") || strings.Contains(path, "/upload-addresses"):
		return "Uploads"
	case noun == "boards":
		return "Rankings"
	case noun == "friends":
		return "Friends"
	case strings.HasSuffix(path, "/privacy") || noun == "hidden-from" || noun == "muted" || noun == "blocked":
		return "Privacy"
	case noun == "groups":
		return "Groups"
	case noun == "competitions":
		return "Competitions"
	default:
		return "Profile"
	}
}
