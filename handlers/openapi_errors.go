package handlers

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stepboard/models"
)

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
