package crash_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// A process is killed at each step of making a new user by an invitation. Whoever tries again is in the group and signed
// in, and who was there before still is.
func TestSignUpKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "sessions")) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := testenv.ServeFolder(t, dir, "--sign_in.join=invited")
			printed, stderr, status := testenv.Run(t, "sign-in-code", "--data="+dir, "--new", "Ann")
			if status != 0 {
				t.Fatal(stderr)
			}
			code, _, _ := strings.Cut(printed, " ")
			var ann, ben struct {
				Token string
				User  string `json:"user_id"`
			}
			post(t, p.URL, "/v1/session", "", fmt.Sprintf(`{"code":%q}`, code), &ann)
			var group struct {
				ID   string `json:"group_id"`
				Code string `json:"invite_code"`
			}
			post(t, p.URL, "/v1/groups", ann.Token, `{"name":"Family"}`, &group)
			p.Stop()
			body := fmt.Sprintf(`{"code":%q,"nickname":"Ben","anyway":true}`, group.Code)
			killed := testenv.ServeFolderUntil(t, step, dir, "--sign_in.join=invited")
			_, _ = http.Post(killed.URL+"/v1/session", "application/json", strings.NewReader(body)) //nolint:bodyclose // it is killed
			killed.Killed()
			p = testenv.ServeFolder(t, dir, "--sign_in.join=invited")
			post(t, p.URL, "/v1/session", "", body, &ben)
			var list struct {
				Groups []struct {
					ID string `json:"group_id"`
				}
			}
			for who, token := range map[string]string{"Ann": ann.Token, "Ben": ben.Token} {
				request := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/v1/groups", http.NoBody))
				request.Header.Set("Authorization", "Bearer "+token)
				readAnswer(t, request, &list)
				if len(list.Groups) != 1 || list.Groups[0].ID != group.ID {
					t.Errorf("%s is in %+v", who, list.Groups)
				}
			}
		})
	}
}

// A process is killed while it erases somebody with all whom they have brought. The same call goes on, and others stay.
func TestErasureOfABranchKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := testenv.ServeFolder(t, dir, "--sign_in.join=invited")
	made := func(args ...string) string {
		printed, stderr, status := testenv.Run(t, append(args, "--data="+dir)...)
		if status != 0 {
			t.Fatal(stderr)
		}
		word, _, _ := strings.Cut(strings.TrimSpace(printed), " ")
		return word
	}
	type person struct {
		Token string
		User  string `json:"user_id"`
	}
	join := func(code, name string) (someone person) {
		post(t, p.URL, "/v1/session", "", fmt.Sprintf(`{"code":%q,"nickname":%q}`, code, name), &someone)
		return someone
	}
	invite := func(by person) string {
		var invitation struct {
			Code string `json:"invite_code"`
		}
		post(t, p.URL, "/v1/me/invite", by.Token, "", &invitation)
		return invitation.Code
	}
	ann := join(made("sign-in-code", "--new", "Ann", "--operator"), "")
	eve := join(invite(ann), "Eve")
	fay := join(invite(eve), "Fay")
	gus := join(invite(fay), "Gus")
	bob := join(invite(ann), "Bob")
	admin := made("token", "--user=ops", "--scope=admin")
	p.Stop()
	erasure := func(base string) *http.Request {
		body := strings.NewReader(`{"reason":"strangers","with_invited":true}`)
		request := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodDelete, base+"/v1/admin/users/"+eve.User, body))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+admin)
		return request
	}
	killed := testenv.ServeFolderUntil(t, "erasure.begun#2", dir)
	_, _ = http.DefaultClient.Do(erasure(killed.URL)) //nolint:bodyclose // it is killed
	killed.Killed()
	p = testenv.ServeFolder(t, dir)
	var answer struct{ Done, Left int }
	readAnswer(t, erasure(p.URL), &answer)
	if answer.Done != 1 || answer.Left != 0 {
		t.Errorf("the call that goes on: %+v", answer)
	}
	for who, tt := range map[string]struct {
		person
		want bool
	}{"Ann": {ann, true}, "Bob": {bob, true}, "Eve": {eve, false}, "Fay": {fay, false}, "Gus": {gus, false}} {
		var found struct{ Exists bool }
		request := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL+"/v1/admin/users/"+tt.User, http.NoBody))
		request.Header.Set("Authorization", "Bearer "+admin)
		if readAnswer(t, request, &found); found.Exists != tt.want {
			t.Errorf("%s is there: %v, want %v", who, found.Exists, tt.want)
		}
	}
}

// post sends JSON, with a token unless it is empty, and reads the answer.
func post(t *testing.T, base, path, token, body string, into any) {
	t.Helper()
	request := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body)))
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	readAnswer(t, request, into)
}

// readAnswer reads the answer to a request, which must be good.
func readAnswer(t *testing.T, request *http.Request, into any) {
	t.Helper()
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text := testenv.Must(io.ReadAll(answer.Body))
	if answer.StatusCode/100 != 2 || json.NewDecoder(bytes.NewReader(text)).Decode(into) != nil {
		t.Fatalf("%s: status %d: %s", request.URL.Path, answer.StatusCode, text)
	}
}
