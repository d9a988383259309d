package handlers

import (
	"errors"
	"io"
	"math"
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

// The largest request bodies, in bytes: maxList if the body is a list of a backend, otherwise
// maxBody.
const (
	maxBody = 16 << 10
	maxList = 1 << 20
)

// decodeBody decodes a JSON body strictly: it refuses duplicate and unknown keys,
// trailing data and invalid UTF-8.
func decodeBody(data []byte, into any) error {
	if err := json.Unmarshal(data, into, json.RejectUnknownMembers(true)); err != nil {
		return bodyError("body", data, err)
	}
	return nil
}

const (
	// notJSON is the message about a body that is not JSON.
	notJSON = "the body is not JSON, or names a key twice"
	// notWhole is the message about a value that is not a whole number.
	notWhole = "must be a whole number"
)

// bodyError turns a decoder's error into one that has its location, which begins
// with root. The decoder stops at the first error; if the data is not even
// valid JSON, that is reported instead.
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
	case semantic.JSONKind == '0' && isInteger(semantic.GoType):
		return models.Invalid(locationOf(root, semantic.JSONPointer), notWhole)
	default:
		return models.Invalid(locationOf(root, semantic.JSONPointer), "has the wrong type")
	}
}

// isInteger reports whether a type, nil if it is unknown, holds whole numbers.
func isInteger(t reflect.Type) bool {
	return t != nil && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64)
}

// decodeTyped decodes a body for Huma, as strictly as decodeBody. Huma passes on
// only the text of an error. So the text is a message for the client, in the form
// "location: message", which fieldError parses.
func decodeTyped(data []byte, into any) error {
	if err := json.Unmarshal(data, into, json.RejectUnknownMembers(true)); err != nil {
		return errors.New(bodyError("body", data, err).Message)
	}
	return nil
}

// locationOf returns a JSON pointer in the form of the API's errors:
// /scores/0/date below body is body.scores[0].date.
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

// buffers holds *[]byte for the rankings of jsonFormat.
var buffers sync.Pool

// jsonOptions are the options of answers. An error may quote what a caller has sent: bytes
// that are not UTF-8 become U+FFFD.
var jsonOptions = json.JoinOptions(json.FormatNilSliceAsNull(false), jsontext.AllowInvalidUTF8(true))

// jsonFormat encodes and decodes the bodies of requests and answers.
var jsonFormat = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		r, ok := v.(*models.Ranking)
		if !ok {
			return json.MarshalWrite(w, v, jsonOptions)
		}
		buf, _ := buffers.Get().(*[]byte)
		if buf == nil {
			buf = new([]byte)
		}
		defer buffers.Put(buf)
		*buf = r.AppendJSON((*buf)[:0])
		r.Release()
		if rw, ok := w.(http.ResponseWriter); ok {
			rw.Header().Set("Content-Length", strconv.Itoa(len(*buf)))
		}
		_, err := w.Write(*buf)
		return err
	},
	Unmarshal: decodeTyped,
}

// wholeNumber decodes a JSON number without fraction or exponent. A number beyond
// the range of int64 becomes the nearest int64, which no board accepts.
type wholeNumber int64

// UnmarshalJSON refuses everything but whole numbers.
func (n *wholeNumber) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && text[0] == '-':
		value = math.MinInt64
	case errors.Is(err, strconv.ErrRange):
		value = math.MaxInt64
	case err != nil:
		return errors.New(notWhole)
	}
	*n = wholeNumber(value)
	return nil
}
