package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// No input causes an error of the server: every call of the API description, with
// values in each of its parameters and fields that stores and parsers stumble over.
func TestNastyInputs(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env)
	api := readDescription(t, s)
	// A token of all roles reaches every call.
	tokens := []string{harness.Token(t, "1", ""), harness.Token(t, "1", "admin service")}
	generated := 0
	for path, operations := range api.Paths {
		for method, op := range operations {
			inputs := op.inputs(api, path)
			generated += len(inputs)
			for _, in := range testenv.Forms(t, (len(inputs)+9)/10, inputs) {
				for _, token := range tokens {
					if status := s.status(token, strings.ToUpper(method), in.target, in.body); status >= http.StatusInternalServerError {
						t.Errorf("%s %s %.200q: %d", method, in.target, in.body, status)
					}
				}
			}
		}
	}
	if generated < 1000 {
		t.Errorf("only %d requests were generated", generated)
	}
}

// status makes a request without a network and returns the status of its answer.
func (s *server) status(token, method, target, body string) int {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder() // it has no deadlines, so a stream ends at once
	s.app.Handler.ServeHTTP(w, r)
	return w.Code
}

// nastyValues are values of parameters.
var nastyValues = []string{
	"", "\x00", "a\x00b", "\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\u202e", "\U0001f600", "e\u0301", " ", "+", "%", "%00", "%ff",
	"/", "..", "../..", "a/b", "\\", "'", "';--", "\"", "\r\n", "\t", "{}", "*", "-1", "0", "1", "01", "1.5", "1e3", "1e400", "NaN", "true", "null",
	"9007199254740991", "9223372036854775807", "9223372036854775808", "-9223372036854775808", strings.Repeat("9", 400), strings.Repeat("a", 5000),
	"2026-02-30", "0000-01-01", "0001-01-01", "9999-12-31", "-001-01-01", "2026-11-20T00:00:00Z", "steps", "gifts", "day", "AAAA", strings.Repeat("A", 64),
}

// nastyJSON are values of fields.
var nastyJSON = []string{
	"null", "true", "0", "-0", "-1", "1", "1.5", "1e3", "1e400", "-1e-400", "9223372036854775807", "9223372036854775808", strings.Repeat("9", 400),
	`""`, `"\u0000"`, `"a\u0000b"`, `"\ud800"`, `"\u202e"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"\x00\"", "\"\x01\"", `"\x"`, `"1"`, `"-1"`, `"9007199254740992"`,
	`"2026-02-30"`, `"0000-01-01"`, `"9999-12-31"`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `"0000-01-01T00:00:00+14:00"`, `"9999-12-31T23:59:59-12:00"`, `"-292277022399-01-01T00:00:00Z"`,
	`"` + strings.Repeat("a", 5000) + `"`, `"http://[::1"`, `"http://a\u0000b/"`, `"../etc"`, `"Local"`, "[]", "[null]", "[[]]", "[{}]", `["1","1"]`, `["\u0000"]`, "{}", `{"a":{}}`,
	strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 20_000), "", "{", "nul",
}

// goodJSON are values of fields that the service takes; others are by their type.
var goodJSON = map[string]string{
	"user_id": `"2"`, "date": `"2026-11-20"`, "score": "1", "delta": "1", "event_id": `"a"`, "nickname": `"n"`, "board": `"steps"`, "bucket": `"2026-11-16"`,
	"friend_ids": `["2"]`, "name": `"nasty"`, "kind": `"event"`, "max_score": "100", "start": `"2026-11-01T00:00:00Z"`, "end": `"2026-12-01T00:00:00Z"`,
	"scores": `[{"user_id":"2","date":"2026-11-20","score":1}]`, "increments": `[{"user_id":"2","delta":1,"event_id":"b"}]`,
}

// description holds the parts of /openapi.json that the test reads.
type description struct {
	Paths      map[string]map[string]describedCall `json:"paths"`
	Components struct {
		Schemas map[string]describedSchema `json:"schemas"`
	} `json:"components"`
}

type describedCall struct {
	Description string `json:"description"`
	Parameters  []struct {
		Name string `json:"name"`
		In   string `json:"in"`
	} `json:"parameters"`
	RequestBody *struct {
		Content map[string]struct {
			Schema describedSchema `json:"schema"`
		} `json:"content"`
	} `json:"requestBody"`
}

type describedSchema struct {
	Ref        string                     `json:"$ref"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

func readDescription(t testing.TB, s *server) description {
	t.Helper()
	var api description
	if err := json.Unmarshal(s.call("", "GET", "/openapi.json", nil).body, &api); err != nil {
		t.Fatal(err)
	}
	return api
}

// input is one request of a call.
type input struct{ target, body string }

// inputs returns the requests of a call: each nasty value in each parameter and in
// each field, the others being good.
func (c describedCall) inputs(api description, path string) []input {
	good := map[string]string{"board": "steps", "id": "2"}
	body := ""
	fields := c.fields(api)
	if c.RequestBody != nil {
		body = fields.body("", "")
	}
	var list []input
	for _, p := range c.Parameters {
		for _, value := range nastyValues {
			switch p.In {
			case "path":
				list = append(list, input{target(path, good, p.Name, value), body})
			case "query":
				list = append(list, input{target(path, good, "", "") + "?" + url.Values{p.Name: {value}}.Encode(), body})
			}
		}
	}
	for _, board := range []string{"steps", "gifts", "day"} {
		all := maps.Clone(good)
		all["board"] = board
		list = append(list, input{target(path, all, "", ""), body})
	}
	if c.RequestBody == nil {
		return list
	}
	for _, value := range nastyJSON {
		list = append(list, input{target(path, good, "", ""), value})
		for name := range fields {
			for _, board := range []string{"steps", "gifts"} {
				list = append(list, input{target(path, map[string]string{"board": board, "id": "2"}, "", ""), fields.body(name, value)})
			}
		}
	}
	return list
}

// target fills in a path, with one value in place of the good one.
func target(path string, good map[string]string, name, value string) string {
	for parameter, text := range good {
		if parameter == name {
			text = value
		}
		path = strings.ReplaceAll(path, "{"+parameter+"}", url.PathEscape(text))
	}
	return path
}

// fields are those of a body with their good values; "" leaves a field out.
type fields map[string]string

func (c describedCall) fields(api description) fields {
	list := make(fields)
	if c.RequestBody == nil {
		return list
	}
	schema := c.RequestBody.Content["application/json"].Schema
	if schema.Ref != "" {
		schema = api.Components.Schemas[strings.TrimPrefix(schema.Ref, "#/components/schemas/")]
	}
	for name := range schema.Properties {
		list[name] = ""
		if slices.Contains(schema.Required, name) || name != "scores" && name != "increments" && goodJSON[name] != "" {
			list[name] = goodJSON[name]
		}
	}
	return list
}

// body writes a body in which one field has the given value.
func (f fields) body(name, value string) string {
	var parts []string
	for _, field := range slices.Sorted(maps.Keys(f)) {
		text := f[field]
		if field == name {
			text = value
		}
		if text != "" || field == name {
			parts = append(parts, fmt.Sprintf("%q:%s", field, text))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}
