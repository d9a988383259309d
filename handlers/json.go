package handlers

import (
	"errors"
	"io"
	"math"
	"net/http"
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
		return models.Invalid(locationOf(root, semantic.JSONPointer), "is not a field of this call")
	case semantic.Err != nil && semantic.JSONKind == '"':
		return models.Invalid(locationOf(root, semantic.JSONPointer), semantic.Err.Error())
	default:
		return models.Invalid(locationOf(root, semantic.JSONPointer), "has the wrong type")
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

// locationOf writes a JSON pointer as the API's errors do: /scores/0/date is
// body.scores[0].date.
func locationOf(root string, p jsontext.Pointer) string {
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

// buffers holds *[]byte for jsonFormat.
var buffers sync.Pool

// jsonFormat is how bodies are written and read.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		a, ok := v.(jsonAppender)
		if !ok {
			return json.MarshalWrite(w, v, json.FormatNilSliceAsNull(false))
		}
		buf, _ := buffers.Get().(*[]byte)
		if buf == nil {
			buf = new([]byte)
		}
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

// wholeNumber reads a JSON number without fraction or exponent. One that no
// int64 holds becomes the nearest that does, which no board takes either.
type wholeNumber int64

// UnmarshalJSON refuses everything that is not written as a whole number.
func (n *wholeNumber) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && text[0] == '-':
		value = math.MinInt64
	case errors.Is(err, strconv.ErrRange):
		value = math.MaxInt64
	case err != nil:
		return errors.New("must be a whole number")
	}
	*n = wholeNumber(value)
	return nil
}
