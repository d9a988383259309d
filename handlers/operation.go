package handlers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stepboard/models"
)

// maxBody is the largest request body, in bytes.
const maxBody = 1 << 20

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

// decodeBody reads a JSON body strictly: no key twice, no unknown key, no
// trailing data, valid UTF-8.
func decodeBody(data []byte, into any) error {
	if err := json.Unmarshal(data, into, json.RejectUnknownMembers(true)); err != nil {
		return bodyError("body", data, err)
	}
	return nil
}

// notJSON is what a body is answered with that no decoder reads.
const notJSON = "the body is not JSON, or names a key twice"

// bodyError turns a decoder's error into one that points at the place, which
// is below root. The decoder stops at the first fault: of data that is no JSON
// further on that is said, whatever the fault.
func bodyError(root string, data []byte, err error) *models.Error {
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) || !jsontext.Value(data).IsValid() {
		return &models.Error{Code: models.CodeInvalidRequest, Message: notJSON, Err: err}
	}
	switch {
	case errors.Is(semantic.Err, json.ErrUnknownName):
		return models.Invalid(location(root, semantic.JSONPointer), "is not a field of this call")
	case semantic.Err != nil && semantic.JSONKind == '"':
		return models.Invalid(location(root, semantic.JSONPointer), semantic.Err.Error())
	default:
		return models.Invalid(location(root, semantic.JSONPointer), "has the wrong type")
	}
}

// decodeTyped reads a body for Huma, as strictly as decodeBody. Of an error
// Huma passes on the text alone, and that text is answered: so it is our own
// message, "location: what is wrong", which fieldError reads again.
func decodeTyped(data []byte, into any) error {
	if err := json.Unmarshal(data, into, json.RejectUnknownMembers(true)); err != nil {
		return errors.New(bodyError("body", data, err).Message)
	}
	return nil
}

// location writes a JSON pointer as the API's errors do: /scores/0/date is
// body.scores[0].date.
func location(root string, p jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString(root)
	for token := range p.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			b.WriteString("[" + token + "]")
		} else {
			b.WriteString("." + token)
		}
	}
	return b.String()
}

// jsonAppender is a value that writes itself faster than reflection does.
type jsonAppender interface {
	AppendJSON(buf []byte) []byte
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// jsonFormat is how bodies are written and read.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		a, ok := v.(jsonAppender)
		if !ok {
			return json.MarshalWrite(w, v, json.FormatNilSliceAsNull(false))
		}
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		*buf = a.AppendJSON((*buf)[:0])
		if rw, ok := w.(http.ResponseWriter); ok {
			rw.Header().Set("Content-Length", strconv.Itoa(len(*buf)))
		}
		_, err := w.Write(*buf)
		return err
	},
	Unmarshal: decodeTyped,
}
