package simulation_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"stepboard/models"
)

// likeFact returns the text of the fact that a likes b's score of a day.
func likeFact(a, b models.UserID, day models.Date) string {
	return fact("likes", a, b) + " " + day.String()
}

// liked returns who likes whose score of which day next. Mostly they are friends.
func (w *world) liked() (a, b models.UserID, day models.Date) {
	a, b = w.pair()
	day = w.someDay()
	var friends []string
	for _, name := range sortedKeys(w.model.facts) {
		if words := strings.Fields(name); words[0] == "friends" && w.model.cell(models.UserID(words[2]), day).sure != nil {
			friends = append(friends, name)
		}
	}
	if len(friends) > 0 && w.random.IntN(4) > 0 {
		words := strings.Fields(friends[w.random.IntN(len(friends))])
		a, b = models.UserID(words[1]), models.UserID(words[2])
	}
	return a, b, day
}

func (w *world) like(ctx context.Context, r *replica) {
	a, b, day := w.liked()
	before := w.steps
	got := w.change(ctx, r, w.token(a, ""), "PUT", "/v1/boards/steps/likes/"+string(b)+"?date="+day.String(), "",
		always(map[string]bool{likeFact(a, b, day): true}))
	_, ever := w.model.corrected(w.row(b), day)
	shown := w.model.circle(a, "")[b] && w.model.cell(b, day).sure != nil && !ever
	unsure := w.steps != before || w.late(r) || w.oldSets(r) || w.changed(r, a, b, "")
	if got.status == http.StatusNotFound && shown && !unsure {
		w.failf("%s may not like a score of %s, a friend", a, b)
	}
}

func (w *world) unlike(ctx context.Context, r *replica) {
	a, b := w.pair()
	day := w.someDay()
	var given []string
	for _, name := range sortedKeys(w.model.facts) {
		if strings.HasPrefix(name, "likes ") {
			given = append(given, name)
		}
	}
	if len(given) > 0 {
		words := strings.Fields(given[w.random.IntN(len(given))])
		a, b, day = models.UserID(words[1]), models.UserID(words[2]), must(models.ParseDate(words[3]))
	}
	got := w.change(ctx, r, w.token(a, ""), "DELETE", "/v1/boards/steps/likes/"+string(b)+"?date="+day.String(), "",
		always(map[string]bool{likeFact(a, b, day): false}))
	if got.status != http.StatusNoContent && !got.unknown() && w.row(b) != 0 {
		w.failf("a like can't be withdrawn")
	}
}

// checkLikes compares the likes of a ranking's lines with the model.
func (w *world) checkLikes(r *replica, viewer models.UserID, day models.Date, got ranking) {
	if w.late(r) {
		return
	}
	for _, entry := range got.Entries {
		count := int64(0)
		for _, user := range people {
			if w.model.facts[likeFact(user, *entry.User, day)] && !w.model.notShown(viewer, user) {
				count++
			}
		}
		liked := w.model.facts[likeFact(viewer, *entry.User, day)]
		if entry.Likes != count || entry.Liked != liked {
			w.failf("%s has %d likes and %v of %s; %d and %v are shown",
				fmt.Sprintf("%s on %v", *entry.User, day), count, liked, viewer, entry.Likes, entry.Liked)
		}
	}
}
