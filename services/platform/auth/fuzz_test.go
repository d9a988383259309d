package auth_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// A signed token is accepted only if its header and claims say so, each by its exact name. A
// text that was not signed is refused.
func FuzzVerify(f *testing.F) {
	const header = `{"alg":"HS256","typ":"JWT"}`
	for _, claims := range []string{
		`{"sub":"1001","exp":4102444800}`, `{"sub":"1001","scope":"service admin","exp":4102444800,"iat":1}`,
		`{"Sub":"1001","EXP":4102444800}`, `{"sub":"1001","sub":"1002","exp":4102444800}`, `{"sub":"..","exp":1e300}`,
		`{"sub":"1001","exp":4102444800,"more":1E700}`, `{"sub":"1001","exp":1E700}`, `{"sub":"1001","exp":4102444800,"nbf":4102444799}`, `{"sub":"1001","exp":-1.5}`, `{"sub":1001,"exp":"4102444800"}`, `null`,
		`{"sub":"1001","scope":"openid\tadmin","exp":4102444800}`, `{"sub":"1001","exp":"4102444800"}`, `{"sub":"1001","exp":4102444800,"nbf":"1"}`, `{"sub":"1001","exp":4102444800,"nbf":1e300}`,
	} {
		f.Add(header, claims, "a.b.c")
	}
	f.Add(`{"alg":"none"}`, `{"sub":"1001","exp":4102444800}`, "eyJhbGciOiJub25lIn0.e30.")
	f.Add(`{"alg":"HS256","crit":["b64"],"b64":false}`, `{"sub":"1001","exp":4102444800}`, "..")
	f.Add(`{"alg":"HS256","b64":false}`, `{"sub":"1001","exp":4102444800}`, "..")
	v := auth.NewVerifier(auth.VerifierConfig{Secret: secret})
	f.Cleanup(v.Close)
	f.Fuzz(func(t *testing.T, header, claims, text string) {
		if caller, err := v.Verify(text); models.CodeOf(err) != models.CodeUnauthenticated {
			t.Errorf("%q is %+v, %v", text, caller, err)
		}
		caller, err := v.Verify(written(header, claims))
		if err != nil {
			if models.CodeOf(err) != models.CodeUnauthenticated {
				t.Errorf("%s: %v", claims, err)
			}
			return
		}
		// Of claims that the service ignores, not every number has a representation in Go.
		var head, named map[string]json.RawMessage
		if json.Unmarshal([]byte(header), &head) != nil || json.Unmarshal([]byte(claims), &named) != nil {
			t.Fatalf("%s %s is accepted", header, claims)
		}
		if textOf(head["alg"]) != "HS256" || head["crit"] != nil || head["b64"] != nil {
			t.Errorf("%s is accepted", header)
		}
		scopes := strings.Split(textOf(named["scope"]), " ")
		if caller.Service != slices.Contains(scopes, "service") || caller.Admin != slices.Contains(scopes, "admin") {
			t.Errorf("%s has the scopes of %+v", claims, caller)
		}
		if !caller.Service && !caller.Admin && string(caller.User) != textOf(named["sub"]) || caller.User != "" && !caller.User.Valid() {
			t.Errorf("%s is user %q", claims, caller.User)
		}
		var exp float64
		if json.Unmarshal(named["exp"], &exp) != nil || exp < float64(time.Now().Unix()-1) || caller.Expires.Before(time.Now().Add(-time.Minute)) {
			t.Errorf("%s expires at %v", claims, caller.Expires)
		}
		var nbf float64
		if value, ok := named["nbf"]; ok && (json.Unmarshal(value, &nbf) != nil || nbf > float64(time.Now().Unix()+1)) {
			t.Errorf("%s is accepted", claims)
		}
	})
}

// textOf returns a string of JSON; "" for any other value.
func textOf(value json.RawMessage) (text string) {
	_ = json.Unmarshal(value, &text)
	return text
}
