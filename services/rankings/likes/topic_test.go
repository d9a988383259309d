package likes

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/outcomes"
)

// A webhook, like a notice, names nobody who hides by the time when it is sent, whoever decided that.
func TestHidingBeforeItIsSent(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		testenv.NumberUsers(t, env, 4)
		testenv.Hide(t, env, 2, 1, 3)
		topic := Topic(testenv.Numbers{DB: env.Gorm}, privacy.NewStore(env.Gorm))
		for from, want := range map[int]error{2: outcomes.ErrHidden, 3: outcomes.ErrHidden, 4: nil} {
			data, err := topic.Render(t.Context(), fmt.Sprintf(`{"board":"steps","date":"2026-11-20","from":%d,"to":1}`, from))
			if !errors.Is(err, want) {
				t.Errorf("user %d likes: %v, want %v", from, err, want)
			}
			const four = `{"board":"steps","date":"2026-11-20","from":"4","to":"1"}`
			if got := string(testenv.Must(json.Marshal(data))); err == nil && got != four {
				t.Errorf("a webhook has %s, want %s", got, four)
			}
			notice, err := topic.Notice(t.Context(), fmt.Sprintf(`{"board":"steps","date":"2026-11-20","from":%d,"to":1}`, from))
			if !errors.Is(err, want) {
				t.Errorf("a notice of user %d: %v, want %v", from, err, want)
			}
			const noticed = `{"type":"like.given","board":"steps","date":"2026-11-20","people":[{"user_id":"4","nickname":""}],` +
				`"rank":0,"total":0,"score":0,"url":"#/day/2026-11-20"}`
			if got := string(testenv.Must(json.Marshal(notice))); err == nil && got != noticed {
				t.Errorf("a notice has %s, want %s", got, noticed)
			}
		}
	})
}
