package simulation_test

import (
	"context"
	"net/http"
	"strings"

	"stepboard/models"
)

// export compares what a user is given of what is stored about them with the model. An answer
// with status 200 is complete.
func (w *world) export(ctx context.Context, r *replica) {
	user := w.person()
	same := w.undisturbed()
	got := w.call(ctx, r, w.token(user, ""), "GET", "/v1/me/export", "")
	if got.status != http.StatusOK {
		if !got.unknown() && w.row(user) != 0 && !w.late(r) {
			w.failf("an export is refused")
		}
		return
	}
	type named struct {
		Kind string        `json:"kind"`
		User models.UserID `json:"user_id"`
	}
	document := decode[struct {
		User    models.UserID `json:"user_id"`
		Friends []named       `json:"friends"`
		Choices []named       `json:"choices"`
		Groups  []any         `json:"groups"`
	}](w, got.body)
	if document.User != user || !same() || w.late(r) {
		return
	}
	exported := make(map[string]bool)
	for _, friend := range document.Friends {
		exported[fact("friends", user, friend.User)] = true
	}
	for _, choice := range document.Choices {
		exported[fact(choice.Kind, user, choice.User)] = true
	}
	groups := 0
	for _, name := range sortedKeys(union(exported, w.model.facts)) {
		words := strings.Fields(name)
		switch {
		case words[0] == "member" && words[2] == string(user):
			groups++
		case words[0] == "friends" && words[1] == string(user), choicePaths[words[0]] != "" && words[1] == string(user):
			if exported[name] != w.model.facts[name] {
				w.failf("%q is %v, and exported: %v", name, w.model.facts[name], exported[name])
			}
		}
	}
	if groups != len(document.Groups) {
		w.failf("%s is in %d groups, and %d are exported", user, groups, len(document.Groups))
	}
}
