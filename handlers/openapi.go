package handlers

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humagin"
	"github.com/gin-gonic/gin"

	"stepboard/models"
)

// newHuma returns an API without calls that serves on the engine.
func newHuma(engine *gin.Engine, version string) huma.API {
	useProblems()
	config := huma.DefaultConfig("Stepboard", version)
	config.Info.Description = "Rankings among friends, today or on any past day."
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
	}
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

// userIDPattern matches the texts that models.ParseUserID accepts, and longer ones.
const userIDPattern = `^(\.?[!-\-/-~][!-~]*|\.\.[!-~]+)$`

// Schema describes a user id.
func (userIDSchema) Schema(huma.Registry) *huma.Schema {
	shortest, longest := 1, models.MaxUserID
	return &huma.Schema{
		Type: huma.TypeString, MinLength: &shortest, MaxLength: &longest,
		Pattern: userIDPattern, PatternDescription: `a user id: printable ASCII characters without spaces, and neither "." nor ".."`,
		Description: "A user", Examples: []any{"1001"},
	}
}

// describeMore completes the description with facts that Go types can't express.
func describeMore(spec *huma.OpenAPI) {
	// A reference to an object can't be marked nullable.
	me := spec.Components.Schemas.Map()["Ranking"].Properties["me"]
	me.OneOf = []*huma.Schema{{Ref: me.Ref}, {Type: "null"}}
	me.Ref = ""
	openResponses(spec)
}

// openResponses allows fields in the bodies of answers that are not described yet.
// Bodies of requests stay closed; they share no schema with answers.
func openResponses(spec *huma.OpenAPI) {
	for _, path := range spec.Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Put, path.Delete} {
			if op == nil {
				continue
			}
			for _, response := range op.Responses {
				for _, content := range response.Content {
					allowMoreFields(spec.Components.Schemas, content.Schema)
				}
			}
		}
	}
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
